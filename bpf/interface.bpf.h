/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets by the interface they pass: the tracepoints where a packet leaves the stack and enters it see every one, those of no socket
 * too (resets, TIME-WAIT, forwarded, neighbour discovery).
 *
 * With segmentation offload one skb stands for many packets. Wire bytes are those of the packets: (n - 1) headers more than the
 * skb has. What a fragmented datagram's further IP headers take is counted on its own, and is no socket's.
 */
#ifndef INTERFACE_BPF_H
#define INTERFACE_BPF_H

enum { ETH_P_IP = 0x0800, ETH_P_IPV6 = 0x86dd };

/*
 * An IPv6 aggregate of more than 64 KiB has a hop-by-hop option for its length (RFC 2675, "BIG TCP", Linux 5.19), which no packet of it
 * gets.
 */
enum { JUMBO_OPTION_LENGTH = 8, LARGEST_IPV6_LENGTH = 40 + 65535 };

/*
 * How many times its own length the packets of an aggregate may take. A sender's kernel makes at most 128 packets of a datagram
 * (UDP_MAX_SEGMENTS), and of a stream none with less than 8 bytes (TCP_MIN_GSO_SIZE) behind headers of at most 120: no honest aggregate comes
 * near. A virtual machine or a TAP device may hand in one that says anything.
 */
enum { LARGEST_GROWTH = 128 };

/* How many packets an aggregate stands for. Each takes `headers`, which are no longer than the aggregate. */
static __always_inline u32 segments(u32 length, u32 headers, u32 segment_size)
{
	u32 payload = length - headers, count;

	if (!segment_size || payload <= segment_size)
		return 1;
	count = (payload + segment_size - 1) / segment_size;
	if ((u64)(count - 1) * headers > (u64)(LARGEST_GROWTH - 1) * length)
		count = 1 + (u32)(LARGEST_GROWTH - 1) * length / headers;
	return count;
}

static __noinline struct traffic_interface *open_interface(const struct traffic_interface_key *key)
{
	struct traffic_interface_key copy = *key;
	struct traffic_interface fresh = {};
	struct traffic_interface *interface = NULL;
	u64 *strangers = NULL;
	u32 generation = copy.index >> 31;

	if (copy.network_namespace != told.home_namespace)
		strangers = bpf_map_lookup_elem(&stranger_interfaces, &generation);
	if (!strangers || *strangers < told.stranger_limit) {
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

/* Each processor has counters of its own; softirqs may come in between the load and the store of an addition, hence atomics. */
static __always_inline struct traffic_interface *find_interface(u32 network_namespace, u32 index)
{
	struct traffic_interface_key key = { .network_namespace = network_namespace, .index = index | told.interface_mark };
	struct traffic_interface *interface = bpf_map_lookup_elem(&interfaces, &key);

	return interface ? interface : open_interface(&key);
}

/* The transport header of an aggregate. */
static __always_inline u32 transport_header_length(const struct sk_buff *skb, u32 type)
{
	u8 offset = 0;

	if (!(type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6)))
		return 8; /* UDP */
	bpf_probe_read_kernel(&offset, sizeof(offset), skb->head + skb->transport_header + 12);
	return (offset >> 4) * 4;
}

/* Forwarded packets, those of TIME-WAIT, and those of the kernel's own sockets: resets, ICMP. Its TCP connections count as sockets. */
static __always_inline bool is_of_no_socket(const struct sock *sk)
{
	if (!sk || READ(sk, __sk_common.skc_state) == TCP_TIME_WAIT || !is_internet(sk))
		return true;
	if (READ(sk, __sk_common.skc_state) == TCP_NEW_SYN_RECV) /* not a whole struct sock: a listener answers */
		return false;
	return READ_BITS(sk, sk_kern_sock) && !(READ(sk, sk_protocol) == IPPROTO_TCP && READ(sk, sk_type) == SOCK_STREAM);
}

/*
 * Header bytes that a fragment has more than its share of the whole packet (RFC 791 section 3.2; RFC 8200 section 4.5: with the
 * fragment header of 8 bytes in each).
 */
static __noinline u32 fragment_headers(const u8 *start, bool is_ipv4)
{
	u8 head[44];

	if (bpf_probe_read_kernel(head, is_ipv4 ? 20 : sizeof(head), start))
		return 0;
	if (is_ipv4)
		return head[6] & 0x1f || head[7] ? (head[0] & 0xf) * 4 : 0;
	return head[42] || head[43] & 0xf8 ? 48 : 8;
}

/* Returns the wire bytes. `start` is where the IP header stands. */
static __always_inline u64 count_at_interface(struct traffic_interface_bytes *bytes, const struct sk_buff *skb, u32 length,
					      const u8 *start)
{
	u64 offload = offload_of(skb), added;
	u32 headers, count, removed = 0;

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
	headers = (u16)(skb->transport_header - skb->network_header);
	if (length > LARGEST_IPV6_LENGTH && headers == 40 + JUMBO_OPTION_LENGTH) {
		removed = JUMBO_OPTION_LENGTH;
		headers -= removed;
	}
	headers += transport_header_length(skb, offload >> 32);
	if (headers > length - removed)
		headers = length - removed;
	count = segments(length - removed, headers, (u32)offload);
	added = (u64)(count - 1) * headers;
	added = added > removed ? added - removed : 0;
	__sync_fetch_and_add(&bytes->offloaded_packets, count - 1);
	__sync_fetch_and_add(&bytes->offloaded_bytes, added);
	return length + added;
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
	if (link_header > skb->len) /* no header was set */
		link_header = 0;
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

#endif
