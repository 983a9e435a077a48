/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Wire bytes without packets (`--wire derived`): from what TCP counts anyway, and from the calls on UDP sockets.
 *
 * TCP counts its segments, those with payload, and their payload, also of retransmissions (struct tcp_sock). The
 * headers of a connection's segments are equal, but for the handshake, whose options follow from the sysctls and from
 * what was negotiated. A UDP datagram has the IP header and 8 bytes of UDP's.
 *
 * Where that may not hold, the numbers are estimates, and `wire_is_estimated` says so. docs/numbers.md lists what these
 * functions do not notice.
 */
#ifndef DERIVE_BPF_H
#define DERIVE_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

enum { SACK_OF_ONE_BLOCK = 12 }; /* RFC 2018, with padding */
/* Options with padding, as tcp_syn_options() and tcp_synack_options() in net/ipv4/tcp_output.c write them. */
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

/* Of a SYN-ACK. Also of a received SYN, if a Linux client sent it and the server takes all options that it offers. */
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

static __always_inline u32 ip_header_of_record(const struct traffic_socket *socket)
{
	return is_v4_mapped(socket->remote_address) ? TRAFFIC_IPV4_HEADER : TRAFFIC_IPV6_HEADER;
}

/* Whether headers of this connection were possibly others than derive_tcp() says, or packets were lost or repeated. */
static __always_inline bool is_irregular(const struct sock *sk, const struct tcp_sock *tcp, bool is_connecting)
{
	/* Each of these tells that SACK blocks were sent or received, that payload came twice, or that some was dropped. */
	if (READ(tcp, total_retrans) || READ(tcp, rcv_ooopack) || READ(tcp, reord_seen) || READ(tcp, dsack_dups) ||
	    READ(tcp, duplicate_sack[0].end_seq) || READ(sk, sk_drops.counter))
		return true;
	/* IP options; options of Fast Open (RFC 7413) and of accurate ECN (Linux 6.18). */
	if (READ(tcp, inet_conn.icsk_ext_hdr_len) || READ(tcp, ecn_flags) & ACCURATE_ECN ||
	    READ_BITS(tcp, syn_fastopen) || READ_BITS(tcp, syn_data) || READ_BITS(tcp, syn_data_acked))
		return true;
	/* MD5 (RFC 2385), AO (RFC 5925). */
	return !is_connecting && READ(tcp, tcp_header_len) != TRAFFIC_TCP_HEADER + timestamps_of(tcp);
}

/*
 * A reset that was received may have timestamps or not: that depends on who sent it. One that tcp_disconnect() sends
 * comes after the last look at TCP's counters, which are then 0. No other way leads from these states to TCP_CLOSE.
 */
static __always_inline bool is_abort(u32 old_state, u32 new_state)
{
	return new_state == TCP_CLOSE && (old_state == TCP_ESTABLISHED || old_state == TCP_CLOSE_WAIT);
}

/* The same of connections that this end had closed before. */
static __always_inline void note_reset(struct traffic_socket *socket, const struct sock *sk)
{
	u32 error = READ(sk, sk_err);

	if (error == ECONNRESET || error == EPIPE)
		socket->wire_is_estimated = 1;
}

/* A later look may find other lengths. A counter only grows. */
static __always_inline u64 larger(u64 one, u64 other)
{
	return one > other ? one : other;
}

static __always_inline u64 smaller(u64 one, u64 other)
{
	return one < other ? one : other;
}

/*
 * What was received, of which TCP counts two things too low. If a segment comes twice, TCP counts both segments, but
 * their payload once. And the host of a virtual machine hands over several segments as one, which count as one
 * (skb_shared_info.gso_segs is 0). If nearly all segments are full, their number times their length is what came in
 * all. A segment comes twice after others came out of order, or after the sender had no answer for long: then the last
 * segment alone (tail loss probe).
 */
static __always_inline void derive_received(struct traffic_socket *socket, const struct tcp_sock *tcp, u32 header)
{
	u64 once = socket->tcp_received_bytes - socket->earlier_received_bytes, payload = socket->tcp_received_bytes;
	u64 segments = socket->segments_received, with_payload = READ(tcp, data_segs_in);
	u64 full = READ(tcp, inet_conn.icsk_ack.rcv_mss), if_all_full = with_payload * full;
	u64 most_twice = (1 + (u64)READ(tcp, rcv_ooopack)) * full;

	if (full && once > with_payload * READ(tcp, advmss)) {
		segments += once / full - with_payload;
		socket->wire_is_estimated = 1;
	} else if (READ(tcp, duplicate_sack[0].end_seq) && if_all_full > once && once > if_all_full / 4 * 3) {
		payload += smaller(if_all_full - once, most_twice);
	}
	socket->wire_received.payload_bytes = larger(payload, socket->wire_received.payload_bytes);
	socket->wire_received.header_bytes = larger(segments * header, socket->wire_received.header_bytes);
}

/* TCP's counters of segments have 32 bits. After so many the size of a header may be another. */
static __always_inline void note_wrap(struct traffic_socket *socket, struct traffic_wire *wire, u32 before, u32 now)
{
	if (before > now && before - now > 1U << 31) {
		wire->control_bytes += wire->header_bytes;
		wire->header_bytes = 0;
		socket->wire_is_estimated = 1;
	}
}

/*
 * Call this after TCP's counters were read. `state`: as for read_tcp_counters(). control_bytes are here headers of earlier
 * connections, and what the segments of the handshake have beyond others. The daemon adds them to header_bytes.
 */
static __always_inline void derive_tcp(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp,
				       u32 state)
{
	bool is_connecting = state == TCP_SYN_SENT;
	u32 header = ip_header_of_record(socket) + TRAFFIC_TCP_HEADER;
	u64 sent = socket->segments_sent;

	socket->wire_sent.payload_bytes = socket->tcp_sent_bytes;
	if (is_connecting) {
		socket->wire_sent.header_bytes = sent * (header + offered_options(sk));
		derive_received(socket, tcp, header); /* a reset without options */
	} else {
		header += timestamps_of(tcp);
		/* Mostly each segment out of order is acknowledged at once, with a block of SACK or more. */
		socket->wire_sent.header_bytes = sent * header + (u64)READ(tcp, rcv_ooopack) * SACK_OF_ONE_BLOCK;
		derive_received(socket, tcp, header);
	}
	if (is_irregular(sk, tcp, is_connecting))
		socket->wire_is_estimated = 1;
}

static __always_inline void add_to_earlier(struct traffic_wire *wire)
{
	wire->control_bytes += wire->header_bytes;
	wire->header_bytes = 0;
}

/* connect(): TCP's counters of segments begin at 0 again. */
static __always_inline void keep_earlier_headers(struct traffic_socket *socket)
{
	add_to_earlier(&socket->wire_sent);
	add_to_earlier(&socket->wire_received);
	socket->segments_sent = socket->segments_received = 0;
	socket->handshake_counted = 0;
}

/*
 * Adds what the segments of the handshake have beyond other headers. A client's TCP has counted all of them. A server's
 * has counted the SYN and the last acknowledgement, but not the SYN-ACK, so that one is added as a whole. A capture that
 * sees packets has these bytes at the listener.
 */
static __always_inline void count_handshake(struct traffic_socket *socket, const struct sock *sk,
					    const struct tcp_sock *tcp, bool is_server)
{
	u32 timestamps = timestamps_of(tcp), negotiated = negotiated_options(tcp), offered = offered_options(sk);

	if (socket->handshake_counted)
		return;
	socket->handshake_counted = 1; /* two programs come here, one after the other */
	socket->wire_received.control_bytes += (is_server ? 1 : READ(tcp, segs_in)) * (u64)(negotiated - timestamps);
	if (is_server) {
		u32 answer = ip_header_of_record(socket) + TRAFFIC_TCP_HEADER + negotiated;

		socket->wire_sent.control_bytes += (u64)(1 + READ(tcp, total_retrans)) * answer;
		/* TCP may have dropped an acknowledgement before this segment (TCP_DEFER_ACCEPT), or this is Fast Open. */
		if (READ(tcp, data_segs_in))
			socket->wire_is_estimated = 1;
	} else if (offered >= timestamps) {
		socket->wire_sent.control_bytes += (u64)READ(tcp, segs_out) * (offered - timestamps);
	} else {
		socket->wire_is_estimated = 1; /* the sysctls have changed since the SYN was sent */
	}
}

/* UDP -------------------------------------------------------------------------------------------------------------- */

/*
 * A call with more payload than an Ethernet packet has room for may have moved several datagrams (UDP_SEGMENT,
 * UDP_GRO). Several that are shorter together are rare, and are not noticed.
 */
enum { LARGEST_SINGLE_DATAGRAM = 1500 - TRAFFIC_IPV4_HEADER - TRAFFIC_UDP_HEADER };

static __always_inline bool is_udp(const struct sock *sk)
{
	return READ(sk, sk_protocol) == IPPROTO_UDP && READ(sk, sk_type) != SOCK_RAW;
}

/*
 * Whether datagrams that arrived were not read and never will be. `context` is a struct sock, or the socket of a
 * program's context. Since Linux 6.18 UDP keeps its count of drops elsewhere.
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

static __always_inline void note_lost_datagrams(struct traffic_socket *socket, void *context)
{
	if (has_lost_datagrams(context))
		socket->wire_is_estimated = 1;
}

/* At the end of the socket: also datagrams that still wait in its queue. */
static __always_inline void note_left_datagrams(struct traffic_socket *socket, void *context)
{
	struct sock *sk = context;

	if (has_lost_datagrams(context) || (fixed.derives_wire && BPF_CORE_READ(sk, sk_backlog.rmem_alloc.counter)))
		socket->wire_is_estimated = 1;
}

/* Whether the socket may have datagrams of IPv4 and of IPv6. No program of a call sees which. */
static __always_inline bool may_have_both_families(const struct sock *sk)
{
	return READ(sk, __sk_common.skc_family) == AF_INET6 && !READ(sk, __sk_common.skc_dport) &&
	       !READ_BITS(sk, __sk_common.skc_ipv6only);
}

/* A call comes before the first look at the addresses, so the record has none yet. */
static __always_inline u32 ip_header_of_sock(const struct sock *sk)
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
	__sync_fetch_and_add(&wire->header_bytes, ip_header_of_sock(sk) + TRAFFIC_UDP_HEADER);
	/* `pending`: with UDP_CORK or MSG_MORE this call has only added to a datagram. */
	if (payload > LARGEST_SINGLE_DATAGRAM || may_have_both_families(sk) || BPF_CORE_READ(udp, pending) ||
	    BPF_CORE_READ(udp, inet.inet_opt) || BPF_CORE_READ(udp, gso_size))
		socket->wire_is_estimated = 1;
}

#endif
