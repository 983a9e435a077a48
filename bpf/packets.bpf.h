/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an skb stands for: how many packets, of which lengths.
 */
#ifndef PACKETS_BPF_H
#define PACKETS_BPF_H

enum { TCP_FLAG_FIN = 0x01, TCP_FLAG_SYN = 0x02, TCP_FLAG_RST = 0x04 };

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

/* Hop-by-hop, routing and destination options. */
static __always_inline bool is_extension(u32 protocol)
{
	return protocol == 0 || protocol == 43 || protocol == 60;
}

/* The protocol and the offset of what follows the IPv6 extension headers (RFC 8200 section 4.1). */
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

#endif
