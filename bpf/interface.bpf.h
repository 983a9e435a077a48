/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets by the interface that they pass. The tracepoints where packets leave and enter the network stack see every
 * packet, also packets without a socket (resets, TIME-WAIT, forwarded packets, neighbour discovery).
 *
 * With segmentation offload one skb stands for many packets. Wire bytes are those of the packets: (n - 1) headers more
 * than the skb has. The further IP headers of a fragmented datagram are counted separately and belong to no socket.
 */
#ifndef INTERFACE_BPF_H
#define INTERFACE_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"
#include "packets.bpf.h"
#include "socket.bpf.h"

enum { ETH_P_IP = 0x0800, ETH_P_IPV6 = 0x86dd };

static __noinline struct traffic_interface *open_interface(const struct traffic_interface_key *key)
{
	struct traffic_interface_key copy = *key;
	struct traffic_interface fresh = {};
	struct traffic_interface *interface = NULL;
	u64 *strangers = NULL;
	u32 generation = copy.index >> 31;

	if (copy.network_namespace != live.home_namespace)
		strangers = bpf_map_lookup_elem(&stranger_interfaces, &generation);
	if (!strangers || *strangers < live.stranger_limit) {
		if (!bpf_map_update_elem(&interfaces, &copy, &fresh, BPF_NOEXIST) && strangers)
			__sync_fetch_and_add(strangers, 1);
		interface = bpf_map_lookup_elem(&interfaces, &copy);
	}
	if (!interface) {
		copy = (struct traffic_interface_key){};
		interface = bpf_map_lookup_elem(&interfaces, &copy);
	}
	if (!interface)
		COUNT_LOSS(interfaces_lost, 1);
	return interface;
}

/*
 * Each processor has its own counters. The additions are atomic because a softirq may run between the load and the
 * store of an addition.
 */
static __always_inline struct traffic_interface *find_interface(u32 network_namespace, u32 index)
{
	struct traffic_interface_key key = {
		.network_namespace = network_namespace,
		.index = index | live.interface_mark,
	};
	struct traffic_interface *interface = bpf_map_lookup_elem(&interfaces, &key);

	return interface ? interface : open_interface(&key);
}

/*
 * Returns whether a packet belongs to no socket: forwarded packets, packets of TIME-WAIT, and packets of the kernel's
 * own sockets (resets, ICMP). The kernel's own TCP connections do count as sockets.
 */
static __always_inline bool is_of_no_socket(const struct sock *sk)
{
	if (!sk || READ(sk, __sk_common.skc_state) == TCP_TIME_WAIT || !is_internet(sk))
		return true;
	if (READ(sk, __sk_common.skc_state) == TCP_NEW_SYN_RECV) /* not a whole struct sock: a listener answers */
		return false;
	return READ_BITS(sk, sk_kern_sock) && !(READ(sk, sk_protocol) == IPPROTO_TCP && READ(sk, sk_type) == SOCK_STREAM);
}

/* Returns the wire bytes. `start` points to the IP header. */
static __always_inline u64 count_at_interface(struct traffic_interface_bytes *bytes, const struct sk_buff *skb, u32 length,
					      const u8 *start)
{
	u64 offload = offload_of(skb), added;
	struct packets packets;

	__sync_fetch_and_add(&bytes->packets, 1);
	if (skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6)) {
		__sync_fetch_and_add(&bytes->other_bytes, length);
		return 0;
	}
	__sync_fetch_and_add(&bytes->ip_bytes, length);
	if (!(u32)offload) {
		bool is_ipv4 = skb->protocol == bpf_htons(ETH_P_IP);

		if (is_fragment((void *)start, is_ipv4))
			__sync_fetch_and_add(&bytes->fragment_bytes, fragment_headers(start, is_ipv4));
		return length;
	}
	packets = read_aggregate(skb, length, offload);
	added = wire_length(&packets);
	added = added > length ? added - length : 0;
	__sync_fetch_and_add(&bytes->offloaded_packets, packets.count - 1);
	__sync_fetch_and_add(&bytes->offloaded_bytes, added);
	return length + added;
}

/*
 * Runs once for every packet that a driver gets, after the queueing discipline. The drivers of virtual interfaces count
 * at this point too.
 */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(interface_sent, const struct sk_buff *skb, const struct net_device *device)
{
	u64 link_header = (u64)(skb->head + skb->network_header) - (u64)skb->data;
	struct traffic_interface *interface;
	const struct sock *sk;
	u64 wire;

	barrier_var(link_header); /* the verifier refuses 32 bits of a pointer */
	if (link_header > skb->len) /* the network header is not set */
		link_header = 0;
	if (!live.baseline_done)
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

/* Runs once for every packet that comes from a driver. The link header is already removed. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(interface_received, struct sk_buff *skb)
{
	struct traffic_interface *interface;

	if (!live.baseline_done)
		return 0;
	interface = find_interface(skb->dev->nd_net.net->ns.inum, skb->dev->ifindex);
	if (interface)
		count_at_interface(&interface->received, skb, skb->len, skb->data);
	return 0;
}

#endif
