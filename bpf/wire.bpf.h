/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Wire bytes of sockets: IP packets by the socket that sent or received them. The cgroup_skb hooks are at the root of
 * the cgroup hierarchy. For sent packets they run in ip_finish_output(). For received packets they run where the kernel
 * hands the packet to the socket (tcp_filter(), udp_queue_rcv_skb()), so the socket is known. The kernel never skips
 * such a program (but see process 1 in TrafficCapture.md). The programs return 1 on every path, so no packet is
 * dropped.
 */
#ifndef WIRE_BPF_H
#define WIRE_BPF_H

#include "compat.bpf.h"
#include "early.bpf.h"
#include "interface.bpf.h"
#include "maps.bpf.h"
#include "packets.bpf.h"
#include "receive.bpf.h"
#include "socket.bpf.h"

static __always_inline void count_wire(struct traffic_wire *wire, const struct packets *packets)
{
	u32 payload = packets->length - packets->headers, count = packets->count;

	if (packets->control) {
		__sync_fetch_and_add(&wire->control_bytes, packets->headers);
		count--;
	} else if (!payload) {
		__sync_fetch_and_add(&wire->bare_bytes, packets->headers);
		return;
	}
	if (count)
		__sync_fetch_and_add(&wire->header_bytes, count * packets->headers);
	if (payload)
		__sync_fetch_and_add(&wire->payload_bytes, payload);
}

/*
 * Finds the socket of a packet whose own socket has no storage. A packet of an MPTCP subflow belongs to its MPTCP
 * connection. A connection that TCP Fast Open made before it was established gets its storage here. The kernel's own
 * sockets (resets, ICMP) have no storage and get none.
 */
static __noinline struct traffic_socket *find_packet_socket(struct __sk_buff *skb, struct bpf_sock *common)
{
#ifdef SOCKETS_IN_HASH
	struct sock *known = (struct sock *)address_of(common);
	u8 state = READ(known, __sk_common.skc_state);
	const struct tcp_sock *stream;

	if (state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV)
		return NULL;
	stream = tcp_of(known);
	if (!stream)
		return NULL;
	if (bpf_core_field_exists(stream->is_mptcp) && READ(stream, is_mptcp)) {
		struct mptcp_subflow_context *subflow = READ(stream, inet_conn.icsk_ulp_data);

		return storage_of(READ(subflow, conn));
	}
	return received_by_sequence(stream) ? open_socket(known, known) : NULL;
#else
	struct bpf_sock *sk = bpf_sk_fullsock(common);
	struct tcp_sock *tcp;

	if (!sk || sk->protocol != IPPROTO_TCP || sk->type != SOCK_STREAM)
		return NULL;
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_skc_to_mptcp_sock)) {
		struct mptcp_sock *mptcp = bpf_skc_to_mptcp_sock(sk);

		if (mptcp)
			return bpf_sk_storage_get(&sockets, mptcp, NULL, 0);
	}
	tcp = bpf_skc_to_tcp_sock(sk);
	return tcp && received_by_sequence(tcp) ? open_socket((struct sock *)tcp, skb) : NULL;
#endif
}

static __always_inline struct traffic_socket *packet_socket(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct traffic_socket *socket;

	if (!sk || !live.baseline_done)
		return NULL;
	socket = storage_of_context(sk);
#ifdef SOCKETS_IN_HASH
	if (!socket)
		socket = find_packet_socket(skb, sk);
	if (socket && !socket->cookie)
		socket->cookie = bpf_get_socket_cookie(skb);
	return socket;
#else
	return socket ? socket : find_packet_socket(skb, sk);
#endif
}

/*
 * The interface of a socket's packet. NULL if interfaces are not counted. interface_sent() and interface_received()
 * count all packets of an interface, and these programs count the part of it that belongs to sockets.
 */
static __always_inline struct traffic_interface *interface_of(const struct traffic_socket *socket, const struct __sk_buff *skb)
{
	return fixed.counts_interfaces ? find_interface(socket->network_namespace, skb->ifindex) : NULL;
}

/*
 * After a socket's final totals, its packets count as the kernel's own: for example the end of an MPTCP connection
 * after close().
 */
static __always_inline bool is_over(const struct traffic_socket *socket)
{
	return socket->closed_boottime_ns;
}

/*
 * dccp_v6_do_rcv() filters a packet that dccp_v6_rcv() has already filtered. In between, __sk_receive_skb() removed the
 * device from the packet. (DCCP is gone since Linux 6.16.)
 */
static __always_inline bool is_shown_again(const struct traffic_socket *socket, const struct __sk_buff *skb)
{
	return socket->protocol == IPPROTO_DCCP && !skb->ifindex;
}

#ifdef SOCKETS_IN_HASH
/*
 * With SOCKETS_IN_HASH the storage of a socket is gone when its process has released the socket. Packets that the
 * socket sends after that (the end of connections of SCTP, DCCP and MPTCP) count as the kernel's own too.
 * interface_sent() can't recognise these packets.
 */
static __noinline int count_farewell(struct __sk_buff *skb)
{
	struct bpf_sock *context = skb->sk;
	struct traffic_interface *interface;
	struct packets packets;
	struct sock *sk;
	u8 state;

	if (!fixed.counts_interfaces || !context || !live.baseline_done)
		return 1;
	sk = (struct sock *)address_of(context);
	state = READ(sk, __sk_common.skc_state);
	if (state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV || is_of_no_socket(sk))
		return 1;
	interface = find_interface(READ(sk, __sk_common.skc_net.net, ns.inum), skb->ifindex);
	if (!interface)
		return 1;
	packets = read_packets(skb);
	__sync_fetch_and_add(&interface->sent.no_socket_bytes, wire_length(&packets));
	return 1;
}
#else
/*
 * For a TCP socket that got no storage. interface_sent() can't recognise its packets either, so they count as the
 * kernel's own.
 */
static __noinline int count_farewell(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct traffic_interface *interface;
	struct packets packets;
	struct tcp_sock *tcp;

	if (!fixed.counts_interfaces || !storage_failed || !sk || !live.baseline_done)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP || sk->type != SOCK_STREAM)
		return 1;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 1;
	interface = find_interface(((struct sock *)tcp)->__sk_common.skc_net.net->ns.inum, skb->ifindex);
	if (!interface)
		return 1;
	packets = read_packets(skb);
	__sync_fetch_and_add(&interface->sent.no_socket_bytes, wire_length(&packets));
	return 1;
}
#endif

SEC("cgroup_skb/egress")
int packet_sent(struct __sk_buff *skb)
{
	struct traffic_socket *socket = packet_socket(skb);
	struct traffic_interface *interface;
	struct packets packets;

	if (!socket)
		return count_farewell(skb);
	packets = read_packets(skb);
	interface = interface_of(socket, skb);
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

	/* A raw socket gets copies of packets that belong to other sockets or to the kernel. */
	if (!socket || socket->type == SOCK_RAW || is_shown_again(socket, skb))
		return 1;
	packets = read_packets(skb);
	/*
	 * Another processor may be closing the socket, and a packet that counts after the final totals is in the interface's
	 * bytes alone. So this look comes as late as it can: only a few instructions are left in between.
	 */
	if (is_over(socket))
		return 1;
	count_wire(&socket->wire_received, &packets);
	if (socket->state == TCP_LISTEN && packets.length > packets.headers)
		remember_early(socket, skb, packets.length - packets.headers);
	interface = interface_of(socket, skb);
	if (interface)
		__sync_fetch_and_add(&interface->received.socket_bytes, wire_length(&packets));
	return 1;
}

#endif
