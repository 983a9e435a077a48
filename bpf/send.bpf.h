/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP send, checked by sequence number. A call's bytes are counted when it returns, for the process that made it; write_seq
 * moves as the socket takes them. What the stream is ahead of the counters is pending: a blocking call that is still at
 * work, or a call that the kernel left our program out of (it does so where a task was preempted inside the program and
 * another one on that processor comes to it). The sweep reports how long the stream is, so that a long call is seen while it
 * runs; when the socket ends no call is at work any more, and what is left then was missed and is made up for.
 *
 * Not for sockets whose stream is not the calls' alone: those with an upper-layer protocol, and those that something in the
 * kernel uses too (sockmap, ovpn, SMC), which show by their sk_user_data.
 */
#ifndef SEND_BPF_H
#define SEND_BPF_H

enum send_phase {
	SEND_UNKNOWN = 0, /* the start of the stream was not seen */
	SEND_CONNECTING = 1,
	SEND_OPEN = 2,
	SEND_ENDED = 3, /* send_end stands; write_seq may be another stream's already */
	SEND_FOREIGN = 4, /* for good: the kernel writes to it as well */
};

#define STREAM_KNOWN ((u64)TRAFFIC_STREAM_KNOWN << 32)

static __always_inline u32 counted_sent(const struct traffic_socket *socket)
{
	u32 sum = socket->unowned_sent_bytes + socket->overflow_sent_bytes + socket->in_rows.sent_bytes;

#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++)
		sum += socket->owners[i].sent_bytes;
	return sum;
}

/*
 * connect(): a socket that was disconnected starts a new stream, and its counters go on. What was missed of the one before is
 * not made up for: a call of another thread may still be about to return.
 */
static __always_inline void begin_connecting(struct traffic_socket *socket)
{
	if (socket->send_phase == SEND_FOREIGN)
		return;
	socket->send_phase = SEND_CONNECTING;
	barrier();
	socket->send_start = -counted_sent(socket);
}

/* In the middle of a stream. The counters are read first: a call that returns meanwhile makes the stream too short, never too long. */
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
 * Where sends count by sequence: the call that sent with TCP Fast Open may have returned, and the process may have no other business
 * with the socket. It has one owner, who connected it.
 */
static __always_inline void count_opening(struct traffic_socket *socket, const struct tcp_sock *tcp)
{
	s32 grown = READ(tcp, write_seq) - socket->send_start - counted_sent(socket);

	if (socket->role == TRAFFIC_ROLE_CLIENT && grown > 0 && socket->owners[0].start_boottime_ns)
		__sync_fetch_and_add(&socket->owners[0].sent_bytes, grown);
}
#endif

/* Established. Data of TCP Fast Open may be on its way already, so write_seq is not the start; bytes_acked goes back to it. */
static __always_inline void begin_sending(struct traffic_socket *socket, const struct tcp_sock *tcp)
{
	u32 first = READ(tcp, snd_una) - (u32)READ(tcp, bytes_acked);

	if (socket->send_phase == SEND_FOREIGN || READ_BITS(tcp, repair))
		return;
	if (socket->role == TRAFFIC_ROLE_CLIENT) {
		if (socket->send_phase == SEND_OPEN)
			return; /* the twin has been here: with data in the SYN, to join would begin after it */
		if (socket->send_phase != SEND_CONNECTING) {
			join_stream(socket, tcp); /* it began to connect before the capture */
			return;
		}
		first += 1 + socket->send_start; /* a client's bytes_acked has its SYN */
	}
	socket->send_start = first;
	barrier();
	socket->send_phase = SEND_OPEN;
#ifdef SOCKETS_IN_HASH
	count_opening(socket, tcp);
#endif
}

/* A connection older than the capture. */
static __always_inline void adopt_sending(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	u8 state = READ(sk, __sk_common.skc_state);

	if (socket->send_phase == SEND_UNKNOWN && (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT))
		join_stream(socket, tcp);
}

/* From `state` to TCP_CLOSE: by the handshake, by a reset, or by disconnecting, which moves write_seq on next. */
static __always_inline void end_sending(struct traffic_socket *socket, const struct tcp_sock *tcp, u32 state)
{
	if (socket->send_phase != SEND_OPEN)
		return;
	socket->send_end = READ(tcp, write_seq) - fin_sent_in(state);
	barrier();
	socket->send_phase = SEND_ENDED;
}

/*
 * How many bytes the stream has, if that can be told: without the socket lock it can't while the state changes.
 * Whoever compares reads the counters after this, so that what a call adds in between makes the difference too small.
 */
static __always_inline bool stream_length(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp,
					  u32 *length)
{
	u32 start = socket->send_start, sequence;
	u8 phase = socket->send_phase, state;

	if (READ(sk, sk_user_data))
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
	return received_by_sequence(tcp) && socket->send_phase == phase && socket->send_start == start;
}

/* Whether all slots are one process's: threads that come at once may claim two. */
static __always_inline bool has_one_owner(const struct traffic_socket *socket)
{
	const struct traffic_owner *first = &socket->owners[0], *second = &socket->owners[1];

	return first->start_boottime_ns && !(socket->flags & TRAFFIC_SOCKET_SHARED) && !socket->in_rows.sent_bytes &&
	       !socket->in_rows.received_bytes &&
	       (!second->start_boottime_ns ||
		(second->start_boottime_ns == first->start_boottime_ns && second->tgid == first->tgid));
}

/*
 * The end of a TCP socket: no call is at work any more. What was missed goes to the only process that used the socket; of
 * several nobody knows which.
 */
static __always_inline void settle(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	struct traffic_owner *owner = has_one_owner(socket) ? &socket->owners[0] : NULL;
	u32 length, mark = socket->receive_mark, sequence = delivered_sequence(sk, tcp);
	s32 missed;

	if (socket->send_phase == SEND_ENDED && stream_length(socket, sk, tcp, &length)) {
		missed = length - counted_sent(socket);
		if (missed > 0)
			*(owner ? &owner->sent_bytes : &socket->unowned_sent_bytes) += missed;
	}
	/* Disconnecting sets copied_seq past what was not read, and bytes_received to 0. */
	if (!socket->receive_mark || !received_by_sequence(tcp) || sequence == mark || !READ(tcp, bytes_received))
		return;
	socket->receive_mark = RECEIVE_MARK_KNOWN | sequence;
	*(owner ? &owner->received_bytes : &socket->unowned_received_bytes) +=
		delivered_since(socket, sk, tcp, mark, sequence);
}

#endif
