/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Wire bytes: IP packets, by the socket that sent or received them and by the interface they passed.
 *
 * Sockets: the cgroup_skb hooks at the root of the cgroup hierarchy run in ip_finish_output() for what a socket sends, and where
 * the packet is handed to the socket (tcp_filter(), udp_queue_rcv_skb()) for what it receives, with the socket at hand. The kernel
 * never leaves such a program out. They return 1 on every path: nothing is dropped.
 *
 * Interfaces: the tracepoints where a packet leaves the stack and enters it see every packet, those of no socket too (resets, TIME-WAIT,
 * forwarded, neighbour discovery). What of it was no socket's is the difference.
 *
 * With segmentation offload one skb stands for many packets. Wire bytes are those of the packets: (n - 1) headers more than the
 * skb has. What a fragmented datagram's further IP headers take is in the interfaces' bytes, counted on its own, and in no socket's.
 */
#ifndef WIRE_BPF_H
#define WIRE_BPF_H

enum { ETH_P_IP = 0x0800, ETH_P_IPV6 = 0x86dd };
enum { TCP_FLAG_FIN = 0x01, TCP_FLAG_SYN = 0x02, TCP_FLAG_RST = 0x04 };

/*
 * An IPv6 aggregate of more than 64 KiB has a hop-by-hop option for its length (RFC 2675, "BIG TCP", Linux 5.19), which no packet of it
 * gets.
 */
enum { JUMBO_OPTION_LENGTH = 8, LARGEST_IPV6_LENGTH = 40 + 65535 };

/* One skb, which may be an aggregate of several packets. */
struct packets {
	u32 length; /* of the skb from its IP header on; has the headers once */
	u32 headers; /* IP and transport, of each packet */
	u32 count;
	bool control; /* SYN, FIN or RST */
};

static __always_inline u32 wire_length(const struct packets *packets)
{
	return packets->length + (packets->count - 1) * packets->headers;
}

static __always_inline u32 segments(u32 payload, u32 segment_size)
{
	return segment_size && payload > segment_size ? (payload + segment_size - 1) / segment_size : 1;
}

/* Interfaces ------------------------------------------------------------------------------------------------------- */

static __noinline struct traffic_interface *open_interface(const struct traffic_interface_key *key)
{
	struct traffic_interface_key copy = *key;
	struct traffic_interface fresh = {};
	struct traffic_interface *interface;

	bpf_map_update_elem(&interfaces, &copy, &fresh, BPF_NOEXIST);
	interface = bpf_map_lookup_elem(&interfaces, &copy);
	if (!interface)
		COUNT_LOSS(interfaces_lost, 1);
	return interface;
}

/* Each processor has counters of its own; softirqs may come in between the load and the store of an addition, hence atomics. */
static __always_inline struct traffic_interface *find_interface(u32 network_namespace, u32 index)
{
	struct traffic_interface_key key = { .network_namespace = network_namespace, .index = index };
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
	if (!sk || sk->__sk_common.skc_state == TCP_TIME_WAIT || !is_internet(sk))
		return true;
	if (sk->__sk_common.skc_state == TCP_NEW_SYN_RECV) /* not a whole struct sock: a listener answers */
		return false;
	return BPF_CORE_READ_BITFIELD(sk, sk_kern_sock) && !(sk->sk_protocol == IPPROTO_TCP && sk->sk_type == SOCK_STREAM);
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
	count = segments(length - removed - headers, (u32)offload);
	added = (u64)(count - 1) * headers - removed;
	__sync_fetch_and_add(&bytes->offloaded_packets, count - 1);
	__sync_fetch_and_add(&bytes->offloaded_bytes, added);
	return length + added;
}

/* Sockets ---------------------------------------------------------------------------------------------------------- */

/* The protocol and the offset of what follows the IPv6 extension headers (RFC 8200 section 4.1). */
static __noinline u32 skip_extensions(struct __sk_buff *skb, u32 next, u32 offset)
{
	u8 head[2];

#pragma unroll
	for (int i = 0; i < 6; i++) {
		/* hop-by-hop, routing, destination options */
		if (next != 0 && next != 43 && next != 60)
			break;
		if (bpf_skb_load_bytes(skb, offset, head, sizeof(head)))
			break;
		next = head[0];
		offset += (head[1] + 1) * 8;
	}
	return next << 16 | (offset & 0xffff);
}

/* The second and third word of interest of a TCP header: its length, and its flags. */
static __always_inline bool read_tcp(struct __sk_buff *skb, const u8 *data, const u8 *end, u32 offset, u8 *tcp)
{
	const u8 *header = data + (offset & 63);

	/* It lies in the linear part with the IP header, as a rule. */
	if (offset <= 63 && header + 14 <= end) {
		tcp[0] = header[12];
		tcp[1] = header[13];
		return true;
	}
	return bpf_skb_load_bytes(skb, offset + 12, tcp, 2) == 0;
}

static __always_inline struct packets read_packets(struct __sk_buff *skb)
{
	const u8 *data = (const u8 *)(long)skb->data, *end = (const u8 *)(long)skb->data_end;
	struct packets packets = { .length = skb->len, .count = 1 };
	u32 offset, protocol, jumbo = 0, segment_size = skb->gso_size;
	u8 tcp[2];

	packets.headers = packets.length; /* unless we can read more of it */
	if (data + 20 > end)
		return packets;
	if (data[0] >> 4 == 4) {
		offset = (data[0] & 0xf) * 4;
		protocol = data[9];
	} else if (data + 40 <= end) {
		offset = 40;
		protocol = data[6];
		if (packets.length > LARGEST_IPV6_LENGTH && protocol == 0)
			jumbo = JUMBO_OPTION_LENGTH;
		if (protocol == 0 || protocol == 43 || protocol == 60) {
			u32 found = skip_extensions(skb, protocol, offset);

			protocol = found >> 16;
			offset = found & 0xffff;
		}
	} else {
		return packets;
	}
	packets.headers = offset;
	if (protocol == IPPROTO_TCP) {
		if (!read_tcp(skb, data, end, offset, tcp))
			return packets;
		packets.headers += (tcp[0] >> 4) * 4;
		packets.control = tcp[1] & (TCP_FLAG_FIN | TCP_FLAG_SYN | TCP_FLAG_RST);
	} else if (protocol == IPPROTO_UDP) {
		packets.headers += 8;
	}
	packets.headers -= jumbo;
	packets.length -= jumbo;
	if (packets.headers > packets.length)
		packets.headers = packets.length;
	if (segment_size)
		packets.count = segments(packets.length - packets.headers, segment_size);
	return packets;
}

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
 * Whose packet it is where the socket itself has no storage: an MPTCP connection's, if it is one of its subflows, or a connection's that
 * TCP Fast Open made before it was established. Sockets of the kernel's own (resets, ICMP) have none and get none.
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
	return stream && received_by_sequence(stream) ? open_socket(known, known) : NULL;
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

	if (!sk || !told.baseline_done)
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

/* After its last word a socket's packets are the kernel's own: the end of an MPTCP connection that was closed. */
static __always_inline bool is_over(const struct traffic_socket *socket)
{
	return socket->closed_boottime_ns;
}

/* Data in the handshake ------------------------------------------------------------------------------------------- */

static __noinline int remember_early(struct traffic_socket *listener, struct __sk_buff *skb, u32 bytes)
{
	struct traffic_tuple tuple = { .network_namespace = listener->network_namespace };
	u64 sum = bytes, *before;
	u8 head[40];
	u16 ports[2];

	if (bpf_skb_load_bytes(skb, 0, head, 20))
		return 0;
	if (head[0] >> 4 == 4) {
		*(u32 *)&tuple.local_address[8] = *(u32 *)&tuple.remote_address[8] = bpf_htonl(0xffff);
		__builtin_memcpy(&tuple.remote_address[12], &head[12], 4);
		__builtin_memcpy(&tuple.local_address[12], &head[16], 4);
		if (bpf_skb_load_bytes(skb, (head[0] & 0xf) * 4, ports, sizeof(ports)))
			return 0;
	} else {
		if (bpf_skb_load_bytes(skb, 0, head, sizeof(head)) || bpf_skb_load_bytes(skb, 40, ports, sizeof(ports)))
			return 0;
		__builtin_memcpy(tuple.remote_address, &head[8], 16);
		__builtin_memcpy(tuple.local_address, &head[24], 16);
	}
	tuple.remote_port = bpf_ntohs(ports[0]);
	tuple.local_port = bpf_ntohs(ports[1]);
	before = bpf_map_lookup_elem(&early, &tuple);
	if (before)
		sum += *before;
	bpf_map_update_elem(&early, &tuple, &sum, BPF_ANY);
	early_seen = 1;
	return 0;
}

/* A connection is established: what came for it before is its own. */
static __noinline int take_early(struct traffic_socket *socket)
{
	struct traffic_tuple tuple = {
		.network_namespace = socket->network_namespace,
		.local_port = socket->local_port,
		.remote_port = socket->remote_port,
	};
	u64 *bytes;

	if (!early_seen || socket->role != TRAFFIC_ROLE_SERVER)
		return 0;
	__builtin_memcpy(tuple.local_address, socket->local_address, sizeof(tuple.local_address));
	__builtin_memcpy(tuple.remote_address, socket->remote_address, sizeof(tuple.remote_address));
	bytes = bpf_map_lookup_elem(&early, &tuple);
	if (!bytes)
		return 0;
	socket->early_bytes += *bytes;
	bpf_map_delete_elem(&early, &tuple);
	return 0;
}

#endif
