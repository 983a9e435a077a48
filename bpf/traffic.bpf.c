// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One short program per hook. The daemon loads the programs of its method; all programs share the accounting of
 * account.bpf.h.
 *
 * Why hooks at the boundary of the socket layer (inet_sendmsg, sock_send_length) and not in tcp_sendmsg, udp_sendmsg
 * and so on: payload is what crosses the socket API, and every protocol crosses that boundary exactly once. Below the
 * boundary, udpv6_sendmsg calls udp_sendmsg for a v4-mapped peer (counted twice). MPTCP and kTLS have functions of
 * their own (missed, or ciphertext). Raw, ping and SCTP would each need one more hook.
 */
#include "call_results.bpf.h"
#include "compat.bpf.h"
#include "preempt.bpf.h"
#include "receive.bpf.h"
#include "socket.bpf.h"

/*
 * Programs other than those for calls. libbpf loads the programs in the order of their definitions, and what the kernel
 * refuses first is what a person reads. So the sweep, which no method can do without, comes before the adoption, which
 * methods can do without.
 */
#include "interface.bpf.h"
#include "wire.bpf.h"
#include "iterate.bpf.h"
#include "adopt.bpf.h"
#include "holders.bpf.h"
#include "lifetimes.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Sends ------------------------------------------------------------------------------------------------------------ */

/*
 * Method `tracepoint` (Linux 6.3 and later, 6e6eda44b939 "sock: add tracepoint for send recv length"): the tracepoint
 * is in sock_sendmsg() and has the return value. It sees send, sendto, sendmsg, sendmmsg, write, writev, sendfile and
 * splice (MSG_SPLICE_PAGES, 6.5), io_uring. Bytes that the kernel itself sends below the socket layer are not calls of
 * a process.
 */
SEC("tp_btf/sock_send_length")
int BPF_PROG(sock_send_length, struct sock *sk, int result, int flags)
{
	return may_have_moved(result) && is_first_to_count(COUNTED_SEND, false) ? call_sent(sk, result) : 0;
}

/* Attached only where the kernel may preempt programs. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(sock_send_length_twin, struct sock *sk, int result, int flags)
{
	return may_have_moved(result) && is_first_to_count(COUNTED_SEND, true) ? call_sent(sk, result) : 0;
}

/* Method `fexit`: the same boundary where the tracepoint does not exist. */
SEC("fexit/inet_sendmsg")
int BPF_PROG(inet_sendmsg_exit, struct socket *socket, void *message, size_t size, int result)
{
	return sent(socket->sk, result);
}

SEC("fexit/inet6_sendmsg")
int BPF_PROG(inet6_sendmsg_exit, struct socket *socket, void *message, size_t size, int result)
{
	return sent(socket->sk, result);
}

/*
 * sendfile and splice into a socket before 6.5 (dc97391e6610 "sock: Remove ->sendpage*()"). Both families call this
 * function. For a protocol without sendpage the kernel goes on to inet_sendmsg(), and the program there counts.
 */
SEC("fexit/inet_sendpage")
int BPF_PROG(inet_sendpage_exit, struct socket *socket, void *page, int offset, size_t size, int flags, long result)
{
	struct sock *sk = socket->sk;

	return bpf_core_field_exists(struct proto, sendpage) && sk->__sk_common.skc_prot->sendpage ? sent(sk, result) : 0;
}

/*
 * AF_PACKET sockets with the method `fexit`, whose programs above see only the internet protocols. With the method
 * `tracepoint` the program above sees AF_PACKET too. If AF_PACKET is a module that is loaded later, only the tracepoint
 * can be attached, so the daemon prefers the tracepoint.
 */
SEC("tp_btf/sock_send_length")
int BPF_PROG(frame_send_length, struct sock *sk, int result, int flags)
{
	return frame_sent(sk, result);
}

SEC("fexit/packet_sendmsg")
int BPF_PROG(packet_sendmsg_exit, struct socket *socket, void *message, size_t size, int result)
{
	return frame_sent(socket->sk, result);
}

/* SOCK_PACKET. */
SEC("fexit/packet_sendmsg_spkt")
int BPF_PROG(packet_sendmsg_spkt_exit, struct socket *socket, void *message, size_t size, int result)
{
	return frame_sent(socket->sk, result);
}

/* Receives --------------------------------------------------------------------------------------------------------- */

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length, struct sock *sk, int result, int flags)
{
	return may_have_moved(result) && is_first_to_count(COUNTED_RECEIVE, false) ? call_received(sk, result, flags) : 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length_twin, struct sock *sk, int result, int flags)
{
	return may_have_moved(result) && is_first_to_count(COUNTED_RECEIVE, true) ? call_received(sk, result, flags) : 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(frame_recv_length, struct sock *sk, int result, int flags)
{
	return frame_received(sk, result, flags);
}

SEC("fexit/packet_recvmsg")
int BPF_PROG(packet_recvmsg_exit, struct socket *socket, void *message, size_t size, int flags, int result)
{
	return frame_received(socket->sk, result, flags);
}

SEC("fexit/inet_recvmsg")
int BPF_PROG(inet_recvmsg_exit, struct socket *socket, void *message, size_t size, int flags, int result)
{
	return received(socket->sk, result, flags);
}

SEC("fexit/inet6_recvmsg")
int BPF_PROG(inet6_recvmsg_exit, struct socket *socket, void *message, size_t size, int flags, int result)
{
	return received(socket->sk, result, flags);
}

/* Raw and ping sockets over IPv6 (inet6_sockraw_ops). */
SEC("fexit/sock_common_recvmsg")
int BPF_PROG(sock_common_recvmsg_exit, struct socket *socket, void *message, size_t size, int flags, int result)
{
	return received(socket->sk, result, flags);
}

/*
 * splice out of sockets that have their own splice function and are not counted by sequence: kernel TLS, MPTCP since
 * 7.0. For other sockets splice calls recvmsg, and the program there counts. No tracepoint sees this function.
 */
SEC("fexit/sock_splice_read")
int BPF_PROG(sock_splice_read_exit, struct file *file, void *position, void *pipe, size_t size, unsigned int flags, long result)
{
	struct socket *socket = socket_of(file);

	if (result <= 0 || !socket || !socket->ops->splice_read || !socket->sk)
		return 0;
	return received(socket->sk, result, 0);
}

/*
 * Used by all methods with BPF programs. TCP calls this each time it has handed over a part of the stream, in recv,
 * splice, TCP_ZEROCOPY_RECEIVE and tcp_read_sock(), with the socket locked. The return value of recv would miss the
 * last three.
 */
static __always_inline int handed_over(struct sock *sk)
{
	const struct tcp_sock *tcp = read_as_tcp(sk);

	if (!tcp || has_upper_layer(tcp))
		return 0;
	if (is_in_sockmap(sk))
		pass_over(sk, tcp);
	else
		count_sequence(sk, tcp);
	return 0;
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tcp_receive, struct sock *sk)
{
	return handed_over(sk);
}

/* Counts nothing if the first program has counted already. */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tcp_receive_twin, struct sock *sk)
{
	return handed_over(sk);
}
