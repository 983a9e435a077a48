/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP receive, counted by sequence number. copied_seq says how far the kernel has handed the stream over, by any call
 * (recv, splice, TCP_ZEROCOPY_RECEIVE). MSG_PEEK does not change copied_seq. The growth of copied_seq since the last
 * look is the number of received bytes.
 *
 * A socket with an upper-layer protocol (kTLS, an MPTCP subflow, SMC) hands its stream to that protocol and not to the
 * process. A socket in a sockmap hands its stream to the map's program. For both, the return value of the receive call
 * counts, and this file must not count.
 */
#ifndef RECEIVE_BPF_H
#define RECEIVE_BPF_H

#include "account.bpf.h"
#include "compat.bpf.h"
#include "maps.bpf.h"
#include "socket.bpf.h"

static __always_inline bool has_upper_layer(const struct tcp_sock *tcp)
{
	return READ(tcp, inet_conn.icsk_ulp_ops);
}

static __always_inline bool received_by_sequence(const struct tcp_sock *tcp)
{
	return !has_upper_layer(tcp) && !is_in_sockmap((const struct sock *)tcp);
}

/*
 * Bytes that were handed over from `mark` to `sequence`. An urgent byte (RFC 9293 section 3.8.5) in between was skipped
 * and not handed over. recv(MSG_OOB) hands that byte over, and the return value of that call counts it.
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
 * Marks where counting starts. The baseline sweep has no socket lock, so the hook may set the mark first. That mark is
 * newer and stays.
 */
static __always_inline void start_receive(struct traffic_socket *socket, u32 sequence)
{
	SET_ONCE(socket->receive_mark, RECEIVE_MARK_KNOWN | sequence);
}

/* Runs under the socket lock, and nothing else counts receives of such a socket, so no atomics are needed. */
static __always_inline void count_sequence(struct sock *sk, const struct tcp_sock *tcp)
{
	/*
	 * After a socket of this payer failed to get storage, no storage is made here: the bytes of this call would count
	 * in a row and also before the mark.
	 */
	struct traffic_socket *socket = may_be_unstored(sk) ? storage_of(sk) : find_socket(sk);
	u32 sequence = delivered_sequence(sk, tcp);
	struct traffic_owner *owner;
	struct task_struct *task;
	bool is_kernels;
	u32 grown;

	/* Earlier reads of this socket are not known. A row counts what recv() returns. splice() is not seen. */
	if (!socket) {
		COUNT_LOSS(sockets_lost, 1);
		return;
	}
	/*
	 * The socket is first seen here. Before the baseline is done, counting starts now. After the baseline, the
	 * socket waited unaccepted in a listener's queue, and no process had read from it: counting starts at its first
	 * byte.
	 */
	if (!socket->receive_mark)
		start_receive(socket,
			      live.baseline_done ? READ(tcp, rcv_nxt) - (u32)READ(tcp, bytes_received) : sequence);
	if (sequence == (u32)socket->receive_mark)
		return;
	grown = delivered_since(socket, sk, tcp, socket->receive_mark, sequence);
	socket->receive_mark = RECEIVE_MARK_KNOWN | sequence;
	task = current_task();
	/*
	 * No process has locked the socket: a softirq reads for a consumer in the kernel, and `current` is the
	 * interrupted task. Or the walk has locked it, and what came meanwhile is processed now.
	 */
	is_kernels = !READ(sk, sk_lock.owned) || is_walker(task);
	owner = is_kernels ? find_or_take_any_slot(socket, sk, task, 1) : find_owner(socket, sk, task);
	if (!owner) {
		count_in_row(socket, task, is_kernels, 0, grown);
		return;
	}
	if (is_further(socket, owner))
		__sync_fetch_and_add(&socket->further.received_bytes, grown); /* other calls add for other owners */
	owner->received_bytes += grown;
}

/* Skips what a sockmap's program took, so that it is not counted after the socket has left the map. */
static __always_inline void pass_over(struct sock *sk, const struct tcp_sock *tcp)
{
	struct traffic_socket *socket = find_socket(sk);

	if (!socket)
		return;
	socket->receive_mark = RECEIVE_MARK_KNOWN | delivered_sequence(sk, tcp);
	SET_BITS(socket->flags, TRAFFIC_SOCKET_FRAMED); /* TCP has bytes that no call of this socket returned */
}

#endif
