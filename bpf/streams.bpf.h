/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Method `lifecycle`: the payload of TCP without any program on the path of a call or a packet. TCP numbers every byte
 * of its two streams, so these numbers tell what moved. The sweep reads them, and so do the programs at the end of a
 * connection, so a connection between two sweeps counts too. No call says which process moved the bytes: all bytes of a
 * socket count for one process, the one that connected or listened, or else the one that holds or closes the socket.
 *
 * TCP's sequence numbers have 32 bits and are exact. TCP's own counters have 64 bits, but other processors change them
 * one after the other, so that a sum of two of them may be off by what is on its way. widen() takes the exact half from
 * the one and the rest from the other. Where the kernel uses the stream too (kernel TLS, a sockmap), these are the bytes
 * of TCP's streams and not those of the calls.
 *
 * The sweep has no socket lock. It never writes these counters: it adds what the streams have moved to its own copy of
 * the socket. Only count_streams() writes the counters, under the socket lock.
 */
#ifndef STREAMS_BPF_H
#define STREAMS_BPF_H

#include "account.bpf.h"
#include "compat.bpf.h"
#include "maps.bpf.h"
#include "send.bpf.h"
#include "socket.bpf.h"

/* The sequence number of the first byte that the peer sent. Data of TCP Fast Open may have been read already. */
static __always_inline u32 first_received(const struct tcp_sock *tcp)
{
	return READ(tcp, rcv_nxt) - (u32)READ(tcp, bytes_received);
}

/* The number nearest to `estimate` whose lower half is `exact`. */
static __always_inline u64 widen(u64 estimate, u32 exact)
{
	return estimate + (s64)(s32)(exact - (u32)estimate);
}

/* About how many bytes TCP has accepted from the process in this connection, with the SYN of a client. */
static __always_inline u64 accepted_bytes(const struct tcp_sock *tcp)
{
	return READ(tcp, bytes_acked) + (u32)(READ(tcp, write_seq) - READ(tcp, snd_una));
}

/*
 * How many bytes of this connection TCP has handed over. `first` is the sequence number of the first byte. An urgent byte
 * counts once the stream has passed it, because no program sees the call that may have read it.
 */
static __always_inline u64 handed_over_bytes(u32 first, const struct sock *sk, const struct tcp_sock *tcp)
{
	u64 estimate = READ(tcp, bytes_received) - (u32)(READ(tcp, rcv_nxt) - READ(tcp, copied_seq));

	return widen(estimate, delivered_sequence(sk, tcp) - first);
}

/*
 * What the streams have moved and `counted` does not have yet. `counted` is the socket itself, or a copy that is older
 * than what this function reads.
 */
static __always_inline struct traffic_payload streams_moved(struct traffic_socket *socket, const struct traffic_socket *counted,
							    const struct sock *sk, const struct tcp_sock *tcp)
{
	u64 mark = socket->receive_mark, base = socket->stream_received_base;
	s64 sent = 0, received = 0;
	u32 length;

	barrier();

	if (stream_length(socket, sk, tcp, &length))
		sent = widen(accepted_bytes(tcp) - socket->stream_sent_base, length - counted_sent(counted));
	/* Disconnecting sets copied_seq past the unread bytes, and bytes_received to 0. */
	if (mark && READ(tcp, bytes_received))
		received = handed_over_bytes(mark, sk, tcp) - base;
	barrier();
	/* Meanwhile another connection may have begun: its bytes come with the next look. stream_length() looks too. */
	if (socket->receive_mark != mark || socket->stream_received_base != base)
		received = 0;
	return (struct traffic_payload){ sent > 0 ? sent : 0, received > 0 ? received : 0 };
}

/*
 * The same for the sweep, which has no socket lock. tcp_disconnect() first passes over what nobody has read (copied_seq),
 * then frees it, and sets bytes_received to 0 at its end. Until then these bytes look as if a process had received them.
 * While that may be so, they are left out, and `is_whole` is set to false.
 */
static __always_inline struct traffic_payload streams_moved_unlocked(struct traffic_socket *socket,
								     const struct traffic_socket *counted,
								     const struct sock *sk, const struct tcp_sock *tcp,
								     bool *is_whole)
{
	u64 mark = socket->receive_mark;
	struct traffic_payload moved;

	barrier();
	moved = streams_moved(socket, counted, sk, tcp);
	if (moved.received_bytes && READ(sk, __sk_common.skc_state) == TCP_CLOSE && READ(sk, sk_lock.owned)) {
		moved.received_bytes = 0;
		*is_whole = false;
	}
	barrier();
	/* The call may have ended since, and another connection may have begun. */
	if (!READ(tcp, bytes_received) || socket->receive_mark != mark)
		moved.received_bytes = 0;
	return moved;
}

/*
 * Adds to the counters what the streams have moved. The state that makes streams_moved() count is changed first, and
 * the counters last: the sweep reads in the other order, so it never counts bytes twice.
 */
static __always_inline void count_streams(struct traffic_socket *socket, const struct sock *sk,
					  const struct tcp_sock *tcp)
{
	struct traffic_payload moved = streams_moved(socket, socket, sk, tcp);
	struct traffic_owner *owner = socket->owners[0].start_boottime_ns ? &socket->owners[0] : NULL;

	if (socket->send_phase == SEND_ENDED)
		socket->send_phase = SEND_UNKNOWN;
	socket->stream_received_base += moved.received_bytes;
	barrier();
	*(owner ? &owner->sent_bytes : &socket->unowned_sent_bytes) += moved.sent_bytes;
	*(owner ? &owner->received_bytes : &socket->unowned_received_bytes) += moved.received_bytes;
}

/*
 * A process holds the socket or closes it. The first such process owns a socket that has no owner yet. If a further
 * process appears, it is not known which of them moved which bytes. The same holds for a process of another user than
 * the user who made or accepted the socket: a stranger may have passed the socket on. A thread of the kernel holds a
 * socket only to destroy it.
 *
 * uid: of the user who made or accepted the socket
 */
static __always_inline void note_holder(struct traffic_socket *socket, u32 uid, struct task_struct *task)
{
	struct traffic_owner *owner = &socket->owners[0];
	struct caller caller = caller_of(task);

	if (READ(task, flags) & PF_KTHREAD)
		return;
	if (READ(task, cred, uid.val) != uid)
		SET_BITS(socket->flags, TRAFFIC_SOCKET_INFERRED);
	if (!owner->start_boottime_ns)
		find_or_take_slot(socket, task, 0);
	else if (owner->start_boottime_ns != caller.start_boottime_ns || owner->tgid != caller.tgid)
		SET_BITS(socket->flags, TRAFFIC_SOCKET_INFERRED);
}

/*
 * The socket goes to TCP_CLOSE, and may connect again. A process that has locked the socket is in a call on it, for
 * example in connect() to disconnect it. If no process is known to hold the socket, its bytes stay in TCP's numbers
 * until one is, or until the socket is destroyed.
 */
static __always_inline void end_streams(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	if (READ(sk, sk_lock.owned) && !is_walker(current_task()))
		note_holder(socket, READ(sk, sk_uid.val), current_task());
	if (socket->owners[0].start_boottime_ns)
		count_streams(socket, sk, tcp);
}

/* A connection begins: all its bytes count. */
static __always_inline void begin_streams(struct traffic_socket *socket)
{
	socket->stream_sent_base = 0;
	socket->stream_received_base = 0;
}

/* A connection is older than the capture: its bytes count from now on. */
static __always_inline void adopt_streams(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	if (socket->receive_mark)
		return; /* socket_state saw the connection begin, or an earlier pass was here */
	socket->stream_sent_base = accepted_bytes(tcp);
	socket->stream_received_base = handed_over_bytes(first_received(tcp), sk, tcp);
	barrier();
	SET_ONCE(socket->receive_mark, RECEIVE_MARK_KNOWN | first_received(tcp));
}

#endif
