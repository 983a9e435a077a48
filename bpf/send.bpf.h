/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP send, checked by sequence number. A call's bytes are counted when it returns, for the process that made it; write_seq
 * moves as the socket takes them. What the stream is ahead of the counters is pending: a blocking call that is still at
 * work, or a call that the kernel left our program out of (it does so where a task was preempted inside the program and
 * another one on that processor comes to it). The sweep reports it, so that a long call is seen while it runs; when the socket
 * ends no call is at work any more, and what is left then was missed and is made up for.
 *
 * Not for sockets with an upper-layer protocol: their stream is that protocol's.
 */
#ifndef SEND_BPF_H
#define SEND_BPF_H

enum send_phase {
	SEND_UNKNOWN = 0, /* the start of the stream was not seen */
	SEND_CONNECTING = 1,
	SEND_OPEN = 2,
	SEND_ENDED = 3, /* send_end stands; write_seq may be another stream's already */
};

static __always_inline u32 counted_sent(const struct traffic_socket *socket)
{
	u32 sum = socket->unowned_sent_bytes + socket->overflow_sent_bytes;

#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++)
		sum += socket->owners[i].sent_bytes;
	return sum;
}

/* connect(): a socket that was disconnected starts a new stream, and its counters go on. */
static __always_inline void begin_connecting(struct traffic_socket *socket)
{
	socket->send_start = -counted_sent(socket);
	socket->send_phase = SEND_CONNECTING;
}

/* Established. Data of TCP Fast Open may be on its way already, so write_seq is not the start; bytes_acked goes back to it. */
static __always_inline void begin_sending(struct traffic_socket *socket, const struct tcp_sock *tcp)
{
	u32 first = tcp->snd_una - (u32)tcp->bytes_acked;

	/* A client's count has its SYN. */
	if (socket->role == TRAFFIC_ROLE_CLIENT)
		first++;
	if (socket->send_phase == SEND_CONNECTING)
		first += socket->send_start;
	socket->send_start = first;
	socket->send_phase = BPF_CORE_READ_BITFIELD(tcp, repair) ? SEND_UNKNOWN : SEND_OPEN;
}

/* A connection older than the capture. */
static __always_inline void adopt_sending(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	u8 state = sk->__sk_common.skc_state;

	if (socket->send_phase != SEND_UNKNOWN || (state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT))
		return;
	socket->send_start = tcp->write_seq - counted_sent(socket);
	socket->send_phase = SEND_OPEN;
}

/* Our FIN takes one number of the sequence space and is not payload. */
static __always_inline u32 fin_sent_in(u32 state)
{
	return state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING || state == TCP_LAST_ACK ||
	       state == TCP_TIME_WAIT;
}

/* From `state` to TCP_CLOSE: by the handshake, by a reset, or by disconnecting, which empties write_seq next. */
static __always_inline void end_sending(struct traffic_socket *socket, const struct tcp_sock *tcp, u32 state)
{
	if (socket->send_phase != SEND_OPEN)
		return;
	socket->send_end = tcp->write_seq - fin_sent_in(state);
	socket->send_phase = SEND_ENDED;
}

/*
 * The counters are read before the sequence and that before the state: whatever happens in between makes the
 * result too small and never too large.
 */
static __always_inline u32 pending_sent(const struct traffic_socket *socket, const struct sock *sk,
					const struct tcp_sock *tcp)
{
	u32 counted, sequence;
	s32 pending;

	if (socket->send_phase < SEND_OPEN || !received_by_sequence(tcp))
		return 0;
	counted = counted_sent(socket);
	barrier();
	if (socket->send_phase == SEND_ENDED) {
		sequence = socket->send_end;
	} else {
		sequence = tcp->write_seq;
		barrier();
		sequence -= fin_sent_in(sk->__sk_common.skc_state);
	}
	pending = sequence - socket->send_start - counted;
	return pending > 0 ? pending : 0;
}

/*
 * The end of a TCP socket: no call is at work any more. What was missed goes to the only process that used the socket; of
 * several nobody knows which.
 */
static __always_inline void settle(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	struct traffic_owner *owner = &socket->owners[0];
	bool is_only = owner->start_boottime_ns && !socket->owners[1].start_boottime_ns;
	u32 missed = socket->send_phase == SEND_ENDED ? pending_sent(socket, sk, tcp) : 0, mark, sequence;

	if (missed)
		*(is_only ? &owner->sent_bytes : &socket->unowned_sent_bytes) += missed;
	socket->pending_sent_bytes = 0;
	mark = socket->receive_mark;
	sequence = delivered_sequence(sk, tcp);
	/* Disconnecting sets copied_seq past what was not read, and bytes_received to 0. */
	if (!socket->receive_mark || !received_by_sequence(tcp) || sequence == mark || !tcp->bytes_received)
		return;
	missed = delivered_since(socket, sk, tcp, mark, sequence);
	socket->receive_mark = RECEIVE_MARK_KNOWN | sequence;
	*(is_only ? &owner->received_bytes : &socket->unowned_received_bytes) += missed;
}

#endif
