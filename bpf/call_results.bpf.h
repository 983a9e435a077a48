/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the result of a call adds to the counters. Every method counts results by these functions, whatever hook shows
 * the result.
 */
#ifndef CALL_RESULTS_BPF_H
#define CALL_RESULTS_BPF_H

#include "account.bpf.h"
#include "compat.bpf.h"
#include "receive.bpf.h"
#include "records.bpf.h"
#include "socket.bpf.h"

/* Sends ------------------------------------------------------------------------------------------------------------ */

/* A call that has moved no byte may have moved an empty datagram. */
static __always_inline bool may_have_moved(long result)
{
	return result > 0 || (fixed.derives_wire && !result);
}

static __always_inline int sent(struct sock *sk, long result)
{
	struct traffic_socket *socket;

	if (!may_have_moved(result) || !is_internet(sk))
		return 0;
	if (result)
		count_sent(sk, result);
	if (!fixed.derives_wire || !is_udp(sk))
		return 0;
	socket = find_socket(sk);
	if (socket)
		derive_datagram(socket, sk, &socket->wire_sent, result);
	return 0;
}

static __always_inline int frame_sent(struct sock *sk, long result)
{
	if (result > 0 && is_packet(sk))
		count_frame(sk, result, 0);
	return 0;
}

static __always_inline int call_sent(struct sock *sk, long result)
{
	return is_packet(sk) ? frame_sent(sk, result) : sent(sk, result);
}

/* Receives --------------------------------------------------------------------------------------------------------- */

/* Peeked bytes stay in the queue, and the error queue has no payload. So neither counts as received. */
static __always_inline int received(struct sock *sk, long result, int flags)
{
	struct traffic_socket *socket;
	const struct tcp_sock *tcp;

	if (!may_have_moved(result) || flags & (MSG_PEEK | MSG_ERRQUEUE) || !is_internet(sk))
		return 0;
	tcp = tcp_of(sk);
	if (tcp && received_by_sequence(tcp) && !(flags & MSG_OOB) && !is_unstored(sk))
		return 0; /* counted in tcp_rcv_space_adjust */
	if (result)
		count_received(sk, result);
	/* On a socket that is shut down a call returns 0 without a datagram. */
	if (fixed.derives_wire && is_udp(sk) && (result || !READ(sk, sk_shutdown))) {
		socket = find_socket(sk);
		if (socket)
			derive_datagram(socket, sk, &socket->wire_received, result);
	}
	if (tcp && result) {
		socket = storage_of(sk);
		if (socket && flags & MSG_OOB)
			__sync_fetch_and_add(&socket->urgent_bytes, -1);
		if (socket)
			note_framing(socket, sk, tcp);
	}
	return 0;
}

static __always_inline int frame_received(struct sock *sk, long result, int flags)
{
	if (result > 0 && !(flags & (MSG_PEEK | MSG_ERRQUEUE)) && is_packet(sk))
		count_frame(sk, 0, result);
	return 0;
}

static __always_inline int call_received(struct sock *sk, long result, int flags)
{
	return is_packet(sk) ? frame_received(sk, result, flags) : received(sk, result, flags);
}

#endif
