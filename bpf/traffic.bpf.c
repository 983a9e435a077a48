// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One short program per hook. User space loads the ones of its rung; all of them share the accounting of account.bpf.h.
 *
 * Why the socket layer's own boundary (inet_sendmsg, sock_send_length) and not tcp_sendmsg, udp_sendmsg and so on:
 * payload is what crosses the socket API, and every protocol crosses it there exactly once. Below it, udpv6_sendmsg calls
 * udp_sendmsg for a v4-mapped peer (counted twice), MPTCP and kTLS bring functions of their own (missed, or ciphertext),
 * and raw, ping and SCTP would each need one more hook.
 */
#include "kernel_types.h"

#ifdef SOCKETS_IN_HASH
#include <asm/ptrace.h>
#endif
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "compat.bpf.h"
#include "include/traffic_abi.h"
#include "maps.bpf.h"
#include "socket.bpf.h"
#include "account.bpf.h"
#include "receive.bpf.h"
#include "send.bpf.h"
#include "wire.bpf.h"
#include "iterate.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Sends ------------------------------------------------------------------------------------------------------------ */

static __always_inline int sent(struct sock *sk, long result)
{
	if (result > 0 && is_internet(sk))
		count_sent(sk, result);
	return 0;
}

/* A frame of an AF_PACKET socket. */
static __always_inline int frame_sent(struct sock *sk, long result)
{
	if (result <= 0 || !is_packet(sk))
		return 0;
	count_sent(sk, result);
	report_now(sk);
	return 0;
}

/*
 * Rung `tracepoint` (Linux 6.3 and later, 6e6eda44b939 "sock: add tracepoint for send recv length"): in sock_sendmsg(),
 * with the return value. Sees send, sendto, sendmsg, sendmmsg, write, writev, sendfile and splice (MSG_SPLICE_PAGES, 6.5),
 * io_uring. What the kernel sends below the socket layer is no call of a process.
 */
SEC("tp_btf/sock_send_length")
int BPF_PROG(sock_send_length, struct sock *sk, int result, int flags)
{
	return is_packet(sk) ? frame_sent(sk, result) : sent(sk, result);
}

/* Rung `fexit`: the same boundary where the tracepoint is missing. */
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
 * sendfile and splice into a socket before 6.5 (dc97391e6610 "sock: Remove ->sendpage*()"). Both families come here. For a protocol without
 * sendpage the kernel goes on to inet_sendmsg(), and that counts.
 */
SEC("fexit/inet_sendpage")
int BPF_PROG(inet_sendpage_exit, struct socket *socket, void *page, int offset, size_t size, int flags, long result)
{
	struct sock *sk = socket->sk;

	return bpf_core_field_exists(struct proto, sendpage) && sk->__sk_common.skc_prot->sendpage ? sent(sk, result) : 0;
}

/*
 * AF_PACKET sockets on the rung `fexit`, where the kernel has the tracepoint: the exits above are those of the internet protocols.
 * On the rung `tracepoint` the program above sees them.
 */
SEC("tp_btf/sock_send_length")
int BPF_PROG(frame_send_length, struct sock *sk, int result, int flags)
{
	return frame_sent(sk, result);
}

/* Receives --------------------------------------------------------------------------------------------------------- */

/* Peeked bytes stay in the queue and the error queue holds no payload: neither was received. */
static __always_inline int received(struct sock *sk, long result, int flags)
{
	const struct tcp_sock *tcp;

	if (result <= 0 || flags & (MSG_PEEK | MSG_ERRQUEUE) || !is_internet(sk))
		return 0;
	tcp = tcp_of(sk);
	if (tcp && received_by_sequence(tcp) && !(flags & MSG_OOB))
		return 0; /* counted in tcp_rcv_space_adjust */
	count_received(sk, result);
	if (tcp && flags & MSG_OOB) {
		struct traffic_socket *socket = storage_of(sk);

		if (socket)
			__sync_fetch_and_add(&socket->urgent_bytes, -1);
	}
	return 0;
}

static __always_inline int frame_received(struct sock *sk, long result, int flags)
{
	if (result <= 0 || flags & (MSG_PEEK | MSG_ERRQUEUE) || !is_packet(sk))
		return 0;
	count_received(sk, result);
	report_now(sk);
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(sock_recv_length, struct sock *sk, int result, int flags)
{
	return is_packet(sk) ? frame_received(sk, result, flags) : received(sk, result, flags);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(frame_recv_length, struct sock *sk, int result, int flags)
{
	return frame_received(sk, result, flags);
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
 * splice out of sockets that have a way of their own and don't count by sequence: kernel TLS, MPTCP since 7.0. Others go through
 * recvmsg, and that counts. No tracepoint sees it.
 */
SEC("fexit/sock_splice_read")
int BPF_PROG(sock_splice_read_exit, struct file *file, void *position, void *pipe, size_t size, unsigned int flags, long result)
{
	struct socket *socket = socket_of(file);

	return result > 0 && socket && socket->ops->splice_read && socket->sk ? received(socket->sk, result, 0) : 0;
}

/*
 * Both rungs. TCP calls this each time it handed over a stretch of the stream, in recv, splice, TCP_ZEROCOPY_RECEIVE and
 * tcp_read_sock(), with the socket locked. recv's return value would miss the latter three.
 */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(tcp_receive, struct sock *sk)
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

#ifdef SOCKETS_IN_HASH
#include "kprobe.bpf.h"
#endif

/* Lives of sockets ------------------------------------------------------------------------------------------------- */

/*
 * Connects and listens run in the process, so its name is kept even if it never moves a byte. A connection that is
 * established by the peer's packet has no process yet.
 */
static __always_inline int state_changed(struct sock *sk, int old_state, int new_state)
{
	struct traffic_socket *socket;
	const struct tcp_sock *tcp;

	if (new_state != TCP_SYN_SENT && new_state != TCP_ESTABLISHED && new_state != TCP_LISTEN && new_state != TCP_CLOSE)
		return 0;
	tcp = tcp_of(sk);
	if (tcp && has_upper_layer(tcp))
		return 0; /* an MPTCP or SMC subflow: the socket above it counts */
	if (!tcp && READ(sk, sk_protocol) != IPPROTO_MPTCP && READ(sk, sk_protocol) != IPPROTO_SCTP && READ(sk, sk_protocol) != IPPROTO_DCCP)
		return 0;
	if (new_state == TCP_CLOSE) {
		socket = tcp ? storage_of(sk) : NULL;
		if (socket) {
			end_sending(socket, tcp, old_state);
			read_tcp_counters(socket, sk, tcp, old_state);
		}
		return 0;
	}
	socket = find_socket(sk);
	if (!socket)
		return 0;
	if (!socket->receive_mark) /* its first connection: not older than the capture, even while the baseline is taken */
		socket->flags &= ~TRAFFIC_SOCKET_PREEXISTING;
	if (!socket->opened_boottime_ns)
		socket->opened_boottime_ns = bpf_ktime_get_boot_ns();
	read_addresses(socket, sk);
	socket->state = new_state;
	switch (new_state) {
	case TCP_SYN_SENT:
		socket->role = TRAFFIC_ROLE_CLIENT;
		begin_connecting(socket);
		begin_connection(socket);
		find_owner(socket, current_task());
		break;
	case TCP_LISTEN:
		socket->role = TRAFFIC_ROLE_LISTENER;
		find_owner(socket, current_task());
		break;
	case TCP_ESTABLISHED:
		/* Two clients that connect to each other pass through SYN_RECV. MPTCP clones its listener, and the clone goes from there. */
		if (old_state == TCP_SYN_SENT)
			socket->role = TRAFFIC_ROLE_CLIENT;
		else if (socket->role != TRAFFIC_ROLE_CLIENT && (old_state == TCP_SYN_RECV || old_state == TCP_LISTEN))
			socket->role = TRAFFIC_ROLE_SERVER;
		/* A socket that was disconnected and connects again starts a new sequence; its totals go on. */
		if (tcp) {
			socket->receive_mark = RECEIVE_MARK_KNOWN | READ(tcp, copied_seq);
			begin_sending(socket, tcp);
			take_early(socket);
		}
		break;
	}
	return 0;
}

/* TCP's last word on a socket: after close(), after the last acknowledgement. */
static __always_inline int destroyed(struct sock *sk)
{
	struct traffic_socket *socket = storage_of(sk);
	const struct tcp_sock *tcp;
	u32 length;

	if (!socket)
		return 0;
	tcp = tcp_of(sk);
	if (tcp) {
		read_tcp_counters(socket, sk, tcp, socket->state);
		if (told.calls_missed)
			settle(socket, sk, tcp);
		socket->stream_sent = stream_length(socket, sk, tcp, &length) ? STREAM_KNOWN | length : 0;
	}
	socket->state = TCP_CLOSE;
	close_socket(socket);
	drop_storage(sk);
	return 0;
}

/*
 * Each of these is attached twice. While a program is at work on a processor the kernel leaves it out of what comes in between there: a
 * softirq that ends a connection while a process ends another (200,000 connections: up to 842 times on 6.18). Its twin is at rest then.
 * To run twice changes nothing.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(socket_state, struct sock *sk, int old_state, int new_state)
{
	return state_changed(sk, old_state, new_state);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(socket_state_twin, struct sock *sk, int old_state, int new_state)
{
	return state_changed(sk, old_state, new_state);
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tcp_destroy, struct sock *sk)
{
	return destroyed(sk);
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tcp_destroy_twin, struct sock *sk)
{
	return destroyed(sk);
}

/*
 * Every other protocol: inet_release(), the last reference to the file is gone, so no call can add to it. Attached to the
 * root of the cgroup hierarchy; the kernel ignores what it returns. TCP goes on after this and ends above.
 */
SEC("cgroup/sock_release")
int socket_release(struct bpf_sock *context)
{
	struct traffic_socket *socket = storage_of_context(context);

	if (!socket || (socket->protocol == IPPROTO_TCP && socket->type == SOCK_STREAM))
		return 1;
	/* It may have lived between two sweeps. */
	if (!socket->closed_boottime_ns)
		probe_addresses(socket, context);
	close_socket(socket);
	drop_storage_of_context(context);
	return 1;
}

#ifdef SOCKETS_IN_HASH
/* A new socket at an address whose last one's end no program saw. */
static __always_inline void socket_end_missed(struct bpf_sock *context)
{
	u64 address = address_of(context);
	struct traffic_socket *socket = storage_at(address);

	if (!socket)
		return;
	close_socket(socket);
	drop_storage_at(address);
}
#endif

/*
 * The birth of the others: before it moves its first byte, packets may come for it. Not run for sockets that the kernel makes
 * for itself. TCP's are born above, when they connect, listen or are accepted.
 */
SEC("cgroup/sock_create")
int socket_create(struct bpf_sock *context)
{
	struct traffic_socket *socket;

#ifdef SOCKETS_IN_HASH
	bpf_get_socket_cookie(context); /* from now on it has one */
	socket_end_missed(context);
#endif
	if (context->protocol == IPPROTO_TCP && context->type == SOCK_STREAM)
		return 1;
	socket = make_storage_of_context(context);
	if (!socket)
		return 1; /* counted when bytes move */
	socket->family = context->family;
	socket->protocol = context->protocol;
	socket->type = context->type;
	socket->state = TCP_CLOSE;
	socket->network_namespace = BPF_CORE_READ((struct sock *)context, __sk_common.skc_net.net, ns.inum);
	socket->opened_boottime_ns = bpf_ktime_get_boot_ns();
	if (!told.baseline_done)
		socket->flags = TRAFFIC_SOCKET_PARTIAL;
	socket->cookie = bpf_get_socket_cookie(context);
	number_socket(socket);
	return 1;
}

/*
 * A process runs another program: from now on it has another name. The sockets that it holds keep the one of their first use, so user
 * space is told. No harm where the map is full.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_executed, struct task_struct *task)
{
	struct task_struct *leader = READ(task, group_leader);
	struct traffic_owner_key key = { .start_boottime_ns = READ(leader, start_boottime) ?: 1, .tgid = READ(task, tgid) };
	struct traffic_name name;

	bpf_core_read(&name, sizeof(name), &leader->comm);
	bpf_map_update_elem(&executed, &key, &name, BPF_ANY);
	return 0;
}

/* Packets ---------------------------------------------------------------------------------------------------------- */

SEC("cgroup_skb/egress")
int packet_sent(struct __sk_buff *skb)
{
	struct traffic_socket *socket = packet_socket(skb);
	struct traffic_interface *interface;
	struct packets packets;

	if (!socket)
		return 1;
	packets = read_packets(skb);
	interface = find_interface(socket->network_namespace, skb->ifindex);
	if (is_over(socket)) {
		if (interface)
			__sync_fetch_and_add(&interface->sent.no_socket_bytes, wire_length(&packets));
		return 1;
	}
	count_wire(&socket->wire_sent, &packets);
	if (interface)
		__sync_fetch_and_add(&interface->sent.socket_bytes, wire_length(&packets));
	return 1;
}

SEC("cgroup_skb/ingress")
int packet_received(struct __sk_buff *skb)
{
	struct traffic_socket *socket = packet_socket(skb);
	struct traffic_interface *interface;
	struct packets packets;

	/* A raw socket gets copies of packets that are somebody else's, or the kernel's own. */
	if (!socket || is_over(socket) || socket->type == SOCK_RAW)
		return 1;
	packets = read_packets(skb);
	count_wire(&socket->wire_received, &packets);
	if (socket->state == TCP_LISTEN && packets.length > packets.headers)
		remember_early(socket, skb, packets.length - packets.headers);
	interface = find_interface(socket->network_namespace, skb->ifindex);
	if (interface)
		__sync_fetch_and_add(&interface->received.socket_bytes, wire_length(&packets));
	return 1;
}

/* Once for every packet that a driver gets, after the queueing discipline, where the drivers of virtual interfaces count too. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(interface_sent, const struct sk_buff *skb, const struct net_device *device)
{
	u64 link_header = (u64)(skb->head + skb->network_header) - (u64)skb->data;
	struct traffic_interface *interface;
	const struct sock *sk;
	u64 wire;

	barrier_var(link_header); /* the verifier refuses 32 bits of a pointer */
	if (!told.baseline_done)
		return 0;
	interface = find_interface(device->nd_net.net->ns.inum, device->ifindex);
	if (!interface)
		return 0;
	wire = count_at_interface(&interface->sent, skb, skb->len - link_header, skb->head + skb->network_header);
	if (!wire)
		return 0;
	sk = skb->sk;
	if (is_of_no_socket(sk))
		__sync_fetch_and_add(&interface->sent.no_socket_bytes, wire);
	else if (sk && sk->__sk_common.skc_state == TCP_NEW_SYN_RECV)
		__sync_fetch_and_add(&interface->sent.answer_bytes, wire);
	return 0;
}

/* Once for every packet that comes up from a driver; the link header is off already. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(interface_received, struct sk_buff *skb)
{
	struct traffic_interface *interface;

	if (!told.baseline_done)
		return 0;
	interface = find_interface(skb->dev->nd_net.net->ns.inum, skb->dev->ifindex);
	if (interface)
		count_at_interface(&interface->received, skb, skb->len, skb->data);
	return 0;
}
