/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Wire bytes without packets (`--wire derived`): from what TCP counts anyway, and from the calls on UDP sockets.
 *
 * TCP counts its segments, those with payload, and their payload, also of retransmissions (struct tcp_sock). The
 * headers of a connection's segments are equal, but for the handshake, whose options follow from the sysctls and from
 * what was negotiated. A UDP datagram has 8 bytes and the IP header.
 *
 * Where that may not hold, the numbers are estimates, and `wire_is_estimated` says so. These functions do not notice
 * three things: options in a SYN that Linux does not send, a SYN that a client sent again, and the rest of a datagram
 * that was received in part (MSG_TRUNC).
 */
#ifndef DERIVE_BPF_H
#define DERIVE_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

/* Options with padding, as tcp_syn_options() and tcp_synack_options() in net/ipv4/tcp_output.c write them. */
enum { SACK_OF_A_BLOCK = 12 }; /* RFC 2018 */
enum { MAXIMUM_SEGMENT_OPTION = 4, WINDOW_SCALE_OPTION = 4, SACK_PERMITTED_OPTION = 4 };

enum { ECONNRESET = 104, EPIPE = 32 };
enum { ACCURATE_ECN = 1 << 4 }; /* TCP_ECN_MODE_ACCECN in include/linux/tcp.h */

static __always_inline u32 handshake_options(bool timestamps, bool window_scale, bool sack)
{
	/* SACK-permitted takes the place of the padding of timestamps. */
	return MAXIMUM_SEGMENT_OPTION + (timestamps ? TRAFFIC_TIMESTAMPS_OPTION : sack ? SACK_PERMITTED_OPTION : 0) +
	       (window_scale ? WINDOW_SCALE_OPTION : 0);
}

/* Of a SYN that this socket sends. */
static __always_inline u32 offered_options(const struct sock *sk)
{
	return handshake_options(READ(sk, __sk_common.skc_net.net, ipv4.sysctl_tcp_timestamps),
				 READ(sk, __sk_common.skc_net.net, ipv4.sysctl_tcp_window_scaling),
				 READ(sk, __sk_common.skc_net.net, ipv4.sysctl_tcp_sack));
}

/* Of a SYN's answer, and of the SYN of a Linux client to a server that can do all of this. */
static __always_inline u32 negotiated_options(const struct tcp_sock *tcp)
{
	return handshake_options(READ_BITS(tcp, rx_opt.tstamp_ok), READ_BITS(tcp, rx_opt.wscale_ok),
				 READ_BITS(tcp, rx_opt.sack_ok));
}

static __always_inline u32 timestamps_of(const struct tcp_sock *tcp)
{
	return READ_BITS(tcp, rx_opt.tstamp_ok) ? TRAFFIC_TIMESTAMPS_OPTION : 0;
}

static __always_inline bool is_v4_mapped(const u8 *address)
{
	return !*(const u64 *)address && *(const u32 *)&address[8] == bpf_htonl(0xffff);
}

static __always_inline u32 ip_header_of(const struct traffic_socket *socket)
{
	return is_v4_mapped(socket->remote_address) ? TRAFFIC_IPV4_HEADER : TRAFFIC_IPV6_HEADER;
}

/* Whether the last connect() has not ended in a connection so far. */
static __always_inline bool is_connecting(const struct traffic_socket *socket)
{
	return socket->connecting_boottime_ns && !socket->established_boottime_ns;
}

/* Whether headers of this connection were possibly others than derive_tcp() says, or packets were lost or repeated. */
static __always_inline bool is_irregular(const struct traffic_socket *socket, const struct sock *sk,
					 const struct tcp_sock *tcp)
{
	u32 error = READ(sk, sk_err);

	/* Then SACK blocks were sent or received, or payload came twice, which bytes_received has once. */
	if (READ(tcp, total_retrans) || READ(tcp, rcv_ooopack) || READ(tcp, reord_seen) || READ(tcp, dsack_dups) ||
	    READ(tcp, duplicate_sack[0].end_seq))
		return true;
	/* IP options; options of Fast Open (RFC 7413) and of accurate ECN (Linux 6.18). */
	if (READ(tcp, inet_conn.icsk_ext_hdr_len) || READ(tcp, ecn_flags) & ACCURATE_ECN ||
	    READ_BITS(tcp, syn_fastopen) || READ_BITS(tcp, syn_data) || socket->early_bytes)
		return true;
	if (is_connecting(socket))
		return false;
	/* MD5 (RFC 2385), AO (RFC 5925). A reset may have timestamps or not: that depends on who sent it. */
	return READ(tcp, tcp_header_len) != TRAFFIC_TCP_HEADER + timestamps_of(tcp) || error == ECONNRESET ||
	       error == EPIPE;
}

/*
 * What the segments that were received carried. TCP counts payload that came twice once, but both segments. Where
 * nearly all segments are as long as they can be, their number tells the rest.
 */
static __always_inline u64 received_payload(const struct traffic_socket *socket, const struct tcp_sock *tcp,
					    u32 segments)
{
	u64 once = socket->tcp_received_bytes - socket->earlier_received_bytes, payload = socket->tcp_received_bytes;
	u64 longest = (u64)segments * READ(tcp, inet_conn.icsk_ack.rcv_mss);

	if (READ(tcp, duplicate_sack[0].end_seq) && longest > once && once > longest / 4 * 3)
		payload += longest - once;
	/* A later look may find shorter segments. A counter only grows. */
	return payload > socket->wire_received.payload_bytes ? payload : socket->wire_received.payload_bytes;
}

/*
 * Call this after TCP's counters were read. control_bytes are here what begin_wire() and end_wire_of_handshake() note:
 * headers of earlier connections, and what the segments of the handshake have beyond those of others.
 */
static __always_inline void derive_tcp(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	u32 sent_header = ip_header_of(socket) + TRAFFIC_TCP_HEADER, received_header = sent_header;
	u32 sent = READ(tcp, data_segs_out), received = READ(tcp, data_segs_in);

	if (is_connecting(socket)) {
		sent_header += offered_options(sk); /* what was received is a reset without options */
	} else {
		sent_header += timestamps_of(tcp);
		received_header += timestamps_of(tcp);
	}
	socket->wire_sent.payload_bytes = socket->tcp_sent_bytes;
	socket->wire_sent.header_bytes = (u64)sent * sent_header;
	/* Each segment out of order is acknowledged at once, with a block of SACK or more. */
	socket->wire_sent.bare_bytes = (u64)(socket->segments_sent - sent) * sent_header +
				       (u64)READ(tcp, rcv_ooopack) * SACK_OF_A_BLOCK;
	socket->wire_received.payload_bytes = received_payload(socket, tcp, received);
	socket->wire_received.header_bytes = (u64)received * received_header;
	socket->wire_received.bare_bytes = (u64)(socket->segments_received - received) * received_header;
	if (is_irregular(socket, sk, tcp))
		socket->wire_is_estimated = 1;
}

static __always_inline void add_earlier_headers(struct traffic_wire *wire)
{
	wire->control_bytes += wire->header_bytes + wire->bare_bytes;
	wire->header_bytes = wire->bare_bytes = 0;
}

/* connect(): TCP's counters of segments begin at 0 again. */
static __always_inline void begin_wire(struct traffic_socket *socket)
{
	add_earlier_headers(&socket->wire_sent);
	add_earlier_headers(&socket->wire_received);
	socket->handshake_counted = 0;
}

/*
 * The connection is established, and TCP has counted the handshake: of a client all its segments, of a server the SYN,
 * the last one and not the answer. So packets of the handshake count here, and not for the listener.
 */
static __always_inline void end_wire_of_handshake(struct traffic_socket *socket, const struct sock *sk,
						  const struct tcp_sock *tcp, bool is_server)
{
	u32 beyond = negotiated_options(tcp) - timestamps_of(tcp);

	if (socket->handshake_counted)
		return;
	socket->handshake_counted = 1; /* two programs come here, one after the other */
	if (is_server) {
		u32 answer = ip_header_of(socket) + TRAFFIC_TCP_HEADER + negotiated_options(tcp);

		socket->wire_sent.control_bytes += (u64)(1 + READ(tcp, total_retrans)) * answer;
		socket->wire_received.control_bytes += beyond;
	} else {
		socket->wire_sent.control_bytes += (u64)READ(tcp, segs_out) * (offered_options(sk) - timestamps_of(tcp));
		socket->wire_received.control_bytes += (u64)READ(tcp, segs_in) * beyond;
	}
}

/* UDP -------------------------------------------------------------------------------------------------------------- */

/*
 * A call with more payload than an Ethernet packet has room for may have moved several datagrams (UDP_SEGMENT,
 * UDP_GRO). Programs use these for datagrams that fill their packets.
 */
enum { LARGEST_SINGLE_DATAGRAM = 1500 - TRAFFIC_IPV4_HEADER - TRAFFIC_UDP_HEADER };

static __always_inline bool is_udp(const struct sock *sk)
{
	return READ(sk, sk_protocol) == IPPROTO_UDP && READ(sk, sk_type) != SOCK_RAW;
}

/*
 * Whether datagrams that arrived were not read and never will be. `context` is a struct sock, or the socket of a
 * program's context. Since Linux 6.18 UDP counts what it drops elsewhere.
 */
static __always_inline bool has_lost_datagrams(void *context)
{
	struct sock *sk = context;
	int drops;

	if (!fixed.derives_wire)
		return false;
	drops = BPF_CORE_READ(sk, sk_drops.counter);
	if (bpf_core_field_exists(sk->sk_drop_counters) && BPF_CORE_READ(sk, sk_drop_counters))
		drops |= BPF_CORE_READ(sk, sk_drop_counters, drops0.counter) |
			 BPF_CORE_READ(sk, sk_drop_counters, drops1.counter);
	return drops;
}

/* The same at the end of the socket. */
static __always_inline bool leaves_datagrams(void *context)
{
	struct sock *sk = context;

	return has_lost_datagrams(context) || (fixed.derives_wire && BPF_CORE_READ(sk, sk_backlog.rmem_alloc.counter));
}

/* Whether the socket may have datagrams of IPv4 and of IPv6. No program of a call sees which. */
static __always_inline bool has_both_headers(const struct sock *sk)
{
	return READ(sk, __sk_common.skc_family) == AF_INET6 && !READ(sk, __sk_common.skc_dport) &&
	       !READ_BITS(sk, __sk_common.skc_ipv6only);
}

static __always_inline u32 ip_header_to(const struct sock *sk)
{
	if (READ(sk, __sk_common.skc_family) == AF_INET6 &&
	    (READ(sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32[0]) ||
	     READ(sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32[1]) ||
	     READ(sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32[2]) != bpf_htonl(0xffff)))
		return TRAFFIC_IPV6_HEADER;
	return TRAFFIC_IPV4_HEADER;
}

/* A call on a UDP socket has moved a datagram. `payload` may be 0. */
static __always_inline void derive_datagram(struct traffic_socket *socket, struct sock *sk, struct traffic_wire *wire,
					    u64 payload)
{
	struct udp_sock *udp = (struct udp_sock *)sk;

	__sync_fetch_and_add(&wire->payload_bytes, payload);
	__sync_fetch_and_add(&wire->header_bytes, ip_header_to(sk) + TRAFFIC_UDP_HEADER);
	/* `pending`: with UDP_CORK or MSG_MORE this call has only added to a datagram. */
	if (payload > LARGEST_SINGLE_DATAGRAM || has_both_headers(sk) || BPF_CORE_READ(udp, pending) ||
	    BPF_CORE_READ(udp, inet.inet_opt) || BPF_CORE_READ(udp, gso_size))
		socket->wire_is_estimated = 1;
}

#endif
