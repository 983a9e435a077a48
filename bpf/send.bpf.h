/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP send, checked by sequence number. A call's bytes are counted when the call returns, for the calling process.
 * write_seq moves as the socket accepts the bytes. Bytes that the stream has and the counters do not have yet are
 * pending. Either a blocking call is still in progress, or the kernel skipped our program for a call. The kernel does
 * so if a task was preempted inside the program and another task on that processor reaches the program. The sweep
 * reports the length of the stream, so the daemon sees a long call while the call runs. When the socket ends, no call
 * is in progress any more. Bytes that are still pending then were missed, and are added.
 *
 * This does not work for sockets whose stream is not only used by calls: sockets with an upper-layer protocol, and
 * sockets that something in the kernel uses too (sockmap, ovpn, SMC). The latter have a sk_user_data.
 */
#ifndef SEND_BPF_H
#define SEND_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"
#include "receive.bpf.h"
#include "sharing.bpf.h"
#include "socket.bpf.h"

enum send_phase {
	SEND_UNKNOWN = 0, /* the start of the stream was not seen */
	SEND_CONNECTING = 1,
	SEND_OPEN = 2,
	SEND_ENDED = 3, /* send_end is final; write_seq may already belong to another stream */
	SEND_FOREIGN = 4, /* permanent: the kernel writes to the stream too */
};

#define STREAM_KNOWN ((u64)TRAFFIC_STREAM_KNOWN << 32)

static __always_inline u32 counted_sent(const struct traffic_socket *socket)
{
	u32 sum = socket->unowned_sent_bytes + socket->further.sent_bytes + socket->in_rows.sent_bytes;

#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++)
		sum += socket->owners[i].sent_bytes;
	return sum;
}

/*
 * connect(): a socket that was disconnected starts a new stream, and its counters go on. Missed bytes of the previous
 * stream are not added: a call of another thread may still be about to return.
 */
static __always_inline void begin_connecting(struct traffic_socket *socket)
{
	if (socket->send_phase == SEND_FOREIGN)
		return;
	socket->send_phase = SEND_CONNECTING;
	barrier();
	socket->send_start = -counted_sent(socket);
}

/*
 * Starts counting in the middle of a stream. The counters are read first: if a call returns meanwhile, the stream
 * becomes too short, never too long.
 */
static __always_inline void join_stream(struct traffic_socket *socket, const struct tcp_sock *tcp)
{
	u32 counted = counted_sent(socket);

	barrier();
	socket->send_start = READ(tcp, write_seq) - counted;
	barrier();
	socket->send_phase = SEND_OPEN;
}

#ifdef SOCKETS_IN_HASH
/*
 * For sends that are counted by sequence. The call that sent with TCP Fast Open may already have returned, and the
 * process may never call on the socket again. The socket has one owner: the process that called connect().
 */
static __always_inline void count_opening(struct traffic_socket *socket, const struct tcp_sock *tcp)
{
	s32 grown = READ(tcp, write_seq) - socket->send_start - counted_sent(socket);

	if (socket->role == TRAFFIC_ROLE_CLIENT && grown > 0 && socket->owners[0].start_boottime_ns)
		__sync_fetch_and_add(&socket->owners[0].sent_bytes, grown);
}
#endif

/*
 * The connection is established. Data of TCP Fast Open may already be sent, so write_seq is not the start of the
 * stream. snd_una - bytes_acked is the start.
 */
static __always_inline void begin_sending(struct traffic_socket *socket, const struct tcp_sock *tcp)
{
	u32 first = READ(tcp, snd_una) - (u32)READ(tcp, bytes_acked);

	if (socket->send_phase == SEND_FOREIGN || READ_BITS(tcp, repair))
		return;
	if (socket->role == TRAFFIC_ROLE_CLIENT) {
		if (socket->send_phase == SEND_OPEN)
			/* the other program ran already: with data in the SYN, join_stream() would start too late */
			return;
		if (socket->send_phase != SEND_CONNECTING) {
			join_stream(socket, tcp); /* connect() began before the capture */
			return;
		}
		first += 1 + socket->send_start; /* a client's bytes_acked includes its SYN */
	}
	socket->send_start = first;
	barrier();
	socket->send_phase = SEND_OPEN;
#ifdef SOCKETS_IN_HASH
	count_opening(socket, tcp);
#endif
}

/* For a connection older than the capture. */
static __always_inline void adopt_sending(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	u8 state = READ(sk, __sk_common.skc_state);

	if (socket->send_phase == SEND_UNKNOWN && (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT))
		join_stream(socket, tcp);
}

/*
 * The socket goes from `state` to TCP_CLOSE: by the handshake, by a reset, or by disconnecting. Disconnecting moves
 * write_seq on afterwards.
 */
static __always_inline void end_sending(struct traffic_socket *socket, const struct tcp_sock *tcp, u32 state)
{
	if (socket->send_phase != SEND_OPEN)
		return;
	socket->send_end = READ(tcp, write_seq) - fin_sent_in(state);
	barrier();
	socket->send_phase = SEND_ENDED;
}

/*
 * Finds how many bytes the stream has. Returns false if the length is not known: without the socket lock it is not
 * known while the state changes. A caller that compares must read the counters after this. Then a call that adds bytes
 * in between makes the difference too small.
 */
static __always_inline bool stream_length(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp,
					  u32 *length)
{
	u32 start = socket->send_start, sequence;
	u8 phase = socket->send_phase, state;

	if (READ(sk, sk_user_data) && !fixed.counts_streams)
		socket->send_phase = SEND_FOREIGN;
	if (phase == SEND_ENDED) {
		sequence = socket->send_end;
	} else if (phase == SEND_OPEN) {
		sequence = READ(tcp, write_seq);
		barrier();
		state = READ(sk, __sk_common.skc_state);
		if (fin_sent_in(state))
			sequence--;
		else if (state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
			return false;
	} else {
		return false;
	}
	barrier();
	*length = sequence - start;
	return (received_by_sequence(tcp) || fixed.counts_streams) && socket->send_phase == phase &&
	       socket->send_start == start;
}

/* For traffic_socket.stream_sent. */
static __always_inline u64 read_stream_sent(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	u32 length;

	return stream_length(socket, sk, tcp, &length) ? STREAM_KNOWN | length : 0;
}

/* Whether all slots belong to one process: two threads that come at once may take two slots. */
static __always_inline bool has_one_owner(const struct traffic_socket *socket)
{
	const struct traffic_owner *first = &socket->owners[0], *second = &socket->owners[1];

	return first->start_boottime_ns && !is_shared(socket) && !socket->in_rows.sent_bytes &&
	       !socket->in_rows.received_bytes &&
	       (!second->start_boottime_ns ||
		(second->start_boottime_ns == first->start_boottime_ns && second->tgid == first->tgid));
}

/*
 * The end of a TCP socket: no call is in progress any more. If only one process used the socket, the missed bytes count
 * for that process. With several processes it is not known which of them moved the bytes.
 */
static __always_inline void count_missed_bytes(struct traffic_socket *socket, const struct sock *sk,
					       const struct tcp_sock *tcp)
{
	struct traffic_owner *owner = has_one_owner(socket) ? &socket->owners[0] : NULL;
	u32 length, mark = socket->receive_mark, sequence = delivered_sequence(sk, tcp);
	s32 missed;

	if (socket->send_phase == SEND_ENDED && stream_length(socket, sk, tcp, &length)) {
		missed = length - counted_sent(socket);
		if (missed > 0)
			*(owner ? &owner->sent_bytes : &socket->unowned_sent_bytes) += missed;
	}
	/* Disconnecting sets copied_seq past the unread bytes, and bytes_received to 0. */
	if (!socket->receive_mark || !received_by_sequence(tcp) || sequence == mark || !READ(tcp, bytes_received))
		return;
	socket->receive_mark = RECEIVE_MARK_KNOWN | sequence;
	*(owner ? &owner->received_bytes : &socket->unowned_received_bytes) +=
		delivered_since(socket, sk, tcp, mark, sequence);
}

#endif
