/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Method `kprobe`, for kernels that have neither trampolines nor the tracepoint sock_send_length.
 *
 * A kretprobe does not see every return. It has room for a fixed number of calls at a time, and a call that waits keeps
 * its place. So frequent calls and calls that wait long must not depend on a kretprobe:
 * - TCP is counted by its sequence numbers in both directions. Received bytes are counted in tcp_rcv_space_adjust, as
 *   on the other methods. Sent bytes are counted each time the socket is unlocked. If the kernel skips one run of that
 *   program, the next run counts the bytes.
 * - Receives of UDP are counted when the kernel is done with the datagram (skb_consume_udp).
 * All other calls are counted by their returns: sends of UDP, and sends and receives of other protocols. If the program
 * did not see a return, the next call of the same thread shows that. Then the call is counted as missed.
 */
#ifndef KPROBE_BPF_H
#define KPROBE_BPF_H

#include "account.bpf.h"
#include "call_results.bpf.h"
#include "calls_in_progress.bpf.h"
#include "closing.bpf.h"
#include "compat.bpf.h"
#include "receive.bpf.h"
#include "send.bpf.h"
#include "socket.bpf.h"

/* Sends ------------------------------------------------------------------------------------------------------------ */

/*
 * Whether socket_unlocked() counts the sends of this socket. It does not before the connection is established, nor if
 * the kernel uses the stream too.
 */
static __always_inline bool sent_by_sequence(struct sock *sk)
{
	const struct tcp_sock *tcp = tcp_of(sk);
	struct traffic_socket *socket;

	if (!tcp || !received_by_sequence(tcp) || READ(sk, sk_user_data))
		return false;
	socket = storage_of(sk);
	return socket && (socket->send_phase == SEND_OPEN || socket->send_phase == SEND_ENDED);
}

static __always_inline int sends(u64 kind, struct sock *sk)
{
	if (sk && !is_packet(sk) && (!is_internet(sk) || sent_by_sequence(sk)))
		sk = NULL;
	return called(kind, sk, 0);
}

static __always_inline int sends_returned(u64 kind, long result)
{
	struct traffic_socket *socket;
	const struct tcp_sock *tcp;
	struct call call;
	struct sock *sk;

	if (!returned(kind, &call))
		return 0;
	sk = (struct sock *)call.sk;
	if (sent_by_sequence(sk))
		return 0;
	call_sent(sk, result);
	tcp = tcp_of(sk);
	socket = tcp ? storage_of(sk) : NULL;
	if (socket)
		note_framing(socket, sk, tcp);
	return 0;
}

/*
 * A process releases a socket that it had locked: after each call, and before each wait in a call. The growth of the
 * stream since the last release is due to this process. This runs under the socket lock, and nothing else counts sends
 * of such a socket.
 */
SEC("kprobe/release_sock")
int BPF_KPROBE(socket_unlocked, struct sock *sk)
{
	const struct tcp_sock *tcp = tcp_of(sk);
	struct traffic_socket *socket;
	u32 length;
	s32 grown;

	if (!tcp || is_walker(current_task()))
		return 0;
	socket = storage_of(sk);
	if (!socket || !stream_length(socket, sk, tcp, &length))
		return 0;
	grown = length - counted_sent(socket);
	if (grown > 0)
		count_sent(sk, grown);
	return 0;
}

#define COUNT_SENDS(function)                                                                                          \
	SEC("kprobe/" #function)                                                                                       \
	int BPF_KPROBE(function##_called, struct socket *socket)                                                       \
	{                                                                                                              \
		return sends(CALL_SEND, READ(socket, sk));                                                             \
	}                                                                                                              \
	SEC("kretprobe/" #function)                                                                                    \
	int BPF_KRETPROBE(function##_returned, int result)                                                             \
	{                                                                                                              \
		return sends_returned(CALL_SEND, result);                                                              \
	}

COUNT_SENDS(inet_sendmsg)
COUNT_SENDS(inet6_sendmsg)
COUNT_SENDS(packet_sendmsg)
COUNT_SENDS(packet_sendmsg_spkt) /* SOCK_PACKET */

/* Like inet_sendpage_exit in traffic.bpf.c. */
SEC("kprobe/inet_sendpage")
int BPF_KPROBE(inet_sendpage_called, struct socket *socket)
{
	struct sock *sk = READ(socket, sk);

	if (!bpf_core_field_exists(struct proto, sendpage) || !READ(sk, __sk_common.skc_prot, sendpage))
		sk = NULL;
	return sends(CALL_SENDPAGE, sk);
}

SEC("kretprobe/inet_sendpage")
int BPF_KRETPROBE(inet_sendpage_returned, long result)
{
	return sends_returned(CALL_SENDPAGE, result);
}

/* Receives --------------------------------------------------------------------------------------------------------- */

static __always_inline int receives(u64 kind, struct sock *sk, int flags)
{
	const struct tcp_sock *tcp;

	if (!sk || flags & (MSG_PEEK | MSG_ERRQUEUE) || !(is_internet(sk) || is_packet(sk)))
		return called(kind, NULL, 0);
	tcp = tcp_of(sk);
	return called(kind, tcp && received_by_sequence(tcp) && !(flags & MSG_OOB) && !is_unstored(sk) ? NULL : sk, flags);
}

static __always_inline int receives_returned(u64 kind, long result)
{
	struct call call;

	return returned(kind, &call) && !call.counted ? call_received((struct sock *)call.sk, result, call.flags) : 0;
}

#define COUNT_RECEIVES(function)                                                                                       \
	SEC("kprobe/" #function)                                                                                       \
	int BPF_KPROBE(function##_called, struct socket *socket, void *message, size_t size, int flags)                \
	{                                                                                                              \
		return receives(CALL_RECEIVE, READ(socket, sk), flags);                                                \
	}                                                                                                              \
	SEC("kretprobe/" #function)                                                                                    \
	int BPF_KRETPROBE(function##_returned, int result)                                                             \
	{                                                                                                              \
		return receives_returned(CALL_RECEIVE, result);                                                        \
	}

COUNT_RECEIVES(inet_recvmsg)
COUNT_RECEIVES(inet6_recvmsg)
COUNT_RECEIVES(sock_common_recvmsg)
COUNT_RECEIVES(packet_recvmsg)

/*
 * The last step of a UDP receive. `length` is what the call returns, or negative for a call with MSG_PEEK. This does
 * not run if the compiler inlined the function into udp_recvmsg(); then the return counts.
 */
SEC("kprobe/skb_consume_udp")
int BPF_KPROBE(datagram_consumed, struct sock *sk, void *skb, int length)
{
	struct call_key key = call_of(CALL_RECEIVE);
	struct call *call = bpf_map_lookup_elem(&calls, &key);

	if (!call || call->sk != (u64)sk || call->counted)
		return 0;
	call->counted = 1;
	return received(sk, length, call->flags);
}

/* Like sock_splice_read_exit in traffic.bpf.c. */
SEC("kprobe/sock_splice_read")
int BPF_KPROBE(sock_splice_read_called, struct file *file)
{
	struct socket *socket = READ(file, private_data);

	return receives(CALL_SPLICE, READ(socket, ops, splice_read) ? READ(socket, sk) : NULL, 0);
}

SEC("kretprobe/sock_splice_read")
int BPF_KRETPROBE(sock_splice_read_returned, long result)
{
	return receives_returned(CALL_SPLICE, result);
}

/* Ends ------------------------------------------------------------------------------------------------------------- */

/* Two programs may come here for one socket. The second finds no storage. */
static __always_inline int released(struct sock *sk)
{
	struct traffic_socket *storage;

	if (!sk || tcp_of(sk))
		return 0;
	storage = storage_of(sk);
	if (!storage)
		return 0;
	if (!storage->closed_boottime_ns)
		read_addresses(storage, sk);
	note_left_datagrams(storage, sk);
	close_socket(storage, is_shared(storage) ? further_of(sk) : NULL);
	drop_storage(sk);
	return 0;
}

/*
 * Like socket_release in lifetimes.bpf.h, but also for the kernel's own sockets, and where there is no cgroup to attach
 * to.
 */
SEC("kprobe/inet_release")
int BPF_KPROBE(socket_released, struct socket *socket)
{
	return released(READ(socket, sk));
}

SEC("kprobe/packet_release")
int BPF_KPROBE(packet_released, struct socket *socket)
{
	return released(READ(socket, sk));
}

#endif
