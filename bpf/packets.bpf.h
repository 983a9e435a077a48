/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an skb stands for: how many packets, of which lengths. Only this file reads packet headers. Programs of a cgroup
 * get a struct __sk_buff; tracepoints get the kernel's own struct sk_buff.
 */
#ifndef PACKETS_BPF_H
#define PACKETS_BPF_H

#include "compat.bpf.h"

enum { TCP_FLAG_FIN = 0x01, TCP_FLAG_SYN = 0x02, TCP_FLAG_RST = 0x04 };

/* One skb, which may be an aggregate of several packets. */
struct packets {
	u32 length; /* of the skb, from its IP header on; contains the headers once */
	u32 headers; /* IP and transport, of each packet */
	u32 count;
	bool control; /* SYN, FIN or RST */
};

static __always_inline u32 wire_length(const struct packets *packets)
{
	return packets->length + (packets->count - 1) * packets->headers;
}

/*
 * An IPv6 aggregate of more than 64 KiB has a hop-by-hop option for its length (RFC 2675, "BIG TCP", Linux 5.19). The
 * packets that are sent do not contain this option.
 */
enum { JUMBO_OPTION_LENGTH = 8, LARGEST_IPV6_LENGTH = 40 + 65535 };

/*
 * The packets of an aggregate may together be at most this many times as long as the aggregate. The kernel of a sender
 * makes at most 128 packets of a datagram (UDP_MAX_SEGMENTS). Of a stream it makes no packet with less than 8 bytes
 * (TCP_MIN_GSO_SIZE) behind headers of at most 120. So no honest aggregate reaches the limit. But a virtual machine or
 * a TAP device may pass an aggregate with any values.
 */
enum { LARGEST_GROWTH = 128 };

/*
 * How many packets an aggregate stands for. `headers` is the header size of each, at most the length of the aggregate.
 */
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

/* Hop-by-hop, routing and destination options. */
static __always_inline bool is_extension(u32 protocol)
{
	return protocol == 0 || protocol == 43 || protocol == 60;
}

/* The protocol and the offset of the header after the IPv6 extension headers (RFC 8200 section 4.1). */
static __noinline u32 skip_extensions(struct __sk_buff *skb, u32 next, u32 offset)
{
	u8 head[2];

#pragma unroll
	for (int i = 0; i < 6; i++) {
		if (!is_extension(next))
			break;
		if (bpf_skb_load_bytes(skb, offset, head, sizeof(head)))
			break;
		next = head[0];
		offset += (head[1] + 1) * 8;
	}
	return next << 16 | (offset & 0xffff);
}

/* Bytes 12 and 13 of a TCP header: its length and its flags (RFC 9293 section 3.1). */
static __always_inline bool read_tcp(struct __sk_buff *skb, const u8 *data, const u8 *end, u32 offset, u8 *tcp)
{
	const u8 *header = data + (offset & 63);

	/* The TCP header is usually in the linear part, with the IP header. */
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

	packets.headers = packets.length; /* the value if the headers can't be read */
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
		if (is_extension(protocol)) {
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
	packets.count = segments(packets.length, packets.headers, segment_size);
	return packets;
}

/* The length of the transport header of an aggregate. */
static __always_inline u32 transport_header_length(const struct sk_buff *skb, u32 type)
{
	u8 offset = 0;

	if (!(type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6)))
		return 8; /* UDP */
	bpf_probe_read_kernel(&offset, sizeof(offset), skb->head + skb->transport_header + 12);
	return (offset >> 4) * 4;
}

/*
 * The packets of an aggregate at an interface. `length`: from the IP header on. `offload`: the result of offload_of().
 */
static __always_inline struct packets read_aggregate(const struct sk_buff *skb, u32 length, u64 offload)
{
	struct packets packets = { .length = length };

	packets.headers = (u16)(skb->transport_header - skb->network_header);
	if (length > LARGEST_IPV6_LENGTH && packets.headers == 40 + JUMBO_OPTION_LENGTH) {
		packets.length -= JUMBO_OPTION_LENGTH;
		packets.headers -= JUMBO_OPTION_LENGTH;
	}
	packets.headers += transport_header_length(skb, offload >> 32);
	if (packets.headers > packets.length)
		packets.headers = packets.length;
	packets.count = segments(packets.length, packets.headers, (u32)offload);
	return packets;
}

/*
 * Header bytes of a fragment beyond its share of the whole packet (RFC 791 section 3.2). In IPv6 each fragment also has
 * a fragment header of 8 bytes (RFC 8200 section 4.5).
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

#endif
