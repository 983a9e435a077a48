/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP receive, by sequence number: copied_seq is how far the stream has been handed over, whichever call did it (recv,
 * splice, TCP_ZEROCOPY_RECEIVE), and MSG_PEEK leaves it alone. Its growth since the last look is what was received.
 *
 * A socket with an upper-layer protocol (kTLS, an MPTCP subflow, SMC) hands its stream to that protocol and not to the
 * process, one in a sockmap to the map's program: there the return value of the receive call counts, and this one must not.
 */
#ifndef RECEIVE_BPF_H
#define RECEIVE_BPF_H

static __always_inline bool has_upper_layer(const struct tcp_sock *tcp)
{
	return READ(tcp, inet_conn.icsk_ulp_ops);
}

static __always_inline bool received_by_sequence(const struct tcp_sock *tcp)
{
	return !has_upper_layer(tcp) && !is_in_sockmap((const struct sock *)tcp);
}

/*
 * Bytes that went from `mark` to `sequence`. An urgent byte (RFC 9293 section 3.8.5) in between was passed over and not
 * handed out: recv(MSG_OOB) does that, and counts there.
 */
static __always_inline u32 delivered_since(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp,
					   u32 mark, u32 sequence)
{
	u32 grown = sequence - mark, urgent = READ(tcp, urg_seq);

	if (urgent != socket->urgent_mark && urgent - mark < grown) {
		socket->urgent_mark = urgent;
		if (!(READ(sk, __sk_common.skc_flags) & (1UL << SOCK_URGINLINE))) {
			grown--;
			__sync_fetch_and_add(&socket->urgent_bytes, 1);
		}
	}
	return grown;
}

/*
 * Marks where counting starts. Without the socket lock (the baseline sweep) the hook may get there first: its mark is
 * then the newer one and stays.
 */
static __always_inline void start_receive(struct traffic_socket *socket, u32 sequence)
{
	SET_ONCE(socket->receive_mark, RECEIVE_MARK_KNOWN | sequence);
}

/* Runs under the socket lock, and nothing else counts receives of such a socket: no atomics here. */
static __always_inline void count_sequence(struct sock *sk, const struct tcp_sock *tcp)
{
	/* Once a socket could get no storage none is made here: this call's bytes would be in a row and before the mark. */
	struct traffic_socket *socket = storage_failed ? storage_of(sk) : find_socket(sk);
	u32 sequence = delivered_sequence(sk, tcp);
	struct traffic_owner *owner;
	struct task_struct *task;
	bool is_kernels;
	u32 grown;

	/* Nothing is known of earlier reads. What recv() returns counts in a row; splice() is not seen. */
	if (!socket) {
		COUNT_LOSS(sockets_lost, 1);
		return;
	}
	/*
	 * First seen here: before the baseline is done, counting starts now. After it, the socket waited unaccepted in
	 * a listener's queue and nothing of it had been read: start at its first byte.
	 */
	if (!socket->receive_mark)
		start_receive(socket, told.baseline_done ? READ(tcp, rcv_nxt) - (u32)READ(tcp, bytes_received) : sequence);
	if (sequence == (u32)socket->receive_mark)
		return;
	grown = delivered_since(socket, sk, tcp, socket->receive_mark, sequence);
	socket->receive_mark = RECEIVE_MARK_KNOWN | sequence;
	task = current_task();
	/* Nobody holds the socket: the softirq reads it for a kernel consumer, and `current` is whom it interrupted. */
	is_kernels = !READ(sk, sk_lock.owned);
	owner = is_kernels ? claim_owner(socket, task, 1) : find_owner(socket, task);
	if (owner) {
		owner->received_bytes += grown;
		return;
	}
	count_in_row(socket, task, is_kernels, 0, grown);
}

/* What a sockmap's program took is not to be counted when the socket has left the map again. */
static __always_inline void pass_over(struct sock *sk, const struct tcp_sock *tcp)
{
	struct traffic_socket *socket = find_socket(sk);

	if (!socket)
		return;
	socket->receive_mark = RECEIVE_MARK_KNOWN | delivered_sequence(sk, tcp);
	SET_BITS(socket->flags, TRAFFIC_SOCKET_FRAMED); /* TCP has bytes that no call of this socket returned */
}

#endif
