/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The storage of a socket: its beginning, what is read from the socket, its end.
 */
#ifndef SOCKET_BPF_H
#define SOCKET_BPF_H

#include "compat.bpf.h"
#include "derive.bpf.h"
#include "maps.bpf.h"
#include "payer.bpf.h"
#ifdef SOCKETS_IN_HASH
#include "hash.bpf.h"
#endif

static __always_inline u64 wire_sum(const struct traffic_wire *wire)
{
	return wire->payload_bytes + wire->header_bytes + wire->bare_bytes + wire->control_bytes;
}

static __always_inline bool is_internet(const struct sock *sk)
{
	u16 family = READ(sk, __sk_common.skc_family);

	return family == AF_INET || family == AF_INET6;
}

/* AF_PACKET sockets move frames and bypass the internet protocols. */
static __always_inline bool is_packet(const struct sock *sk)
{
	return READ(sk, __sk_common.skc_family) == AF_PACKET;
}

/* The socket behind an open file, if it is one of those that are counted. `file` may be null. */
static __always_inline struct sock *counted_sock_of(struct file *file)
{
	struct socket *socket;
	struct sock *sk;

	if (!file)
		return NULL;
	socket = socket_of(file);
	if (!socket)
		return NULL;
	sk = READ(socket, sk);
	return sk && (is_internet(sk) || is_packet(sk)) ? sk : NULL;
}

/*
 * Reads the addresses that the socket has now. An unconnected UDP socket has no remote address. An IPv4 address is
 * stored v4-mapped whatever the family of the socket, so a v4 client of a server on :: is the same address on both
 * ends.
 */
static __always_inline void read_addresses(struct traffic_socket *socket, const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;

	socket->family = READ(common, skc_family);
	socket->state = READ(common, skc_state);
	if (READ(common, skc_family) == AF_PACKET)
		return; /* an AF_PACKET socket has an interface and no address */
	socket->local_port = READ(common, skc_num);
	socket->remote_port = bpf_ntohs(READ(common, skc_dport));
	if (READ(common, skc_family) == AF_INET6) {
		u32 *local = (u32 *)socket->local_address, *remote = (u32 *)socket->remote_address;

		local[0] = READ(common, skc_v6_rcv_saddr.in6_u.u6_addr32[0]);
		local[1] = READ(common, skc_v6_rcv_saddr.in6_u.u6_addr32[1]);
		local[2] = READ(common, skc_v6_rcv_saddr.in6_u.u6_addr32[2]);
		local[3] = READ(common, skc_v6_rcv_saddr.in6_u.u6_addr32[3]);
		remote[0] = READ(common, skc_v6_daddr.in6_u.u6_addr32[0]);
		remote[1] = READ(common, skc_v6_daddr.in6_u.u6_addr32[1]);
		remote[2] = READ(common, skc_v6_daddr.in6_u.u6_addr32[2]);
		remote[3] = READ(common, skc_v6_daddr.in6_u.u6_addr32[3]);
	} else {
		*(u32 *)&socket->local_address[8] = bpf_htonl(0xffff);
		*(u32 *)&socket->local_address[12] = READ(common, skc_rcv_saddr);
		*(u32 *)&socket->remote_address[8] = bpf_htonl(0xffff);
		*(u32 *)&socket->remote_address[12] = READ(common, skc_daddr);
	}
}

/* enum sock_flags: SOCK_DONE is set by tcp_fin() when the peer's FIN is in sequence. */
enum { SOCK_DONE = 1, SOCK_URGINLINE = 2 };

/* The peer's FIN arrived in sequence. A FIN takes one number of the sequence space and is not payload. */
static __always_inline bool fin_received(const struct sock *sk)
{
	return READ(sk, __sk_common.skc_flags) & (1UL << SOCK_DONE);
}

/* Our own FIN takes one number of the sequence space too. */
static __always_inline bool fin_sent_in(u32 state)
{
	return state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING || state == TCP_LAST_ACK ||
	       state == TCP_TIME_WAIT;
}

/*
 * Whether the socket is in a sockmap (struct sk_psock). The mark in the pointer is SK_USER_DATA_PSOCK (Linux 6.0,
 * 2a0133723f9e).
 */
static __always_inline bool is_in_sockmap(const struct sock *sk)
{
	return (u64)READ(sk, sk_user_data) & 4;
}

static __always_inline u32 unread_bytes(const struct sock *sk, const struct tcp_sock *tcp)
{
	u32 unread = READ(tcp, rcv_nxt) - READ(tcp, copied_seq);

	return unread - (unread && fin_received(sk));
}

#define RECEIVE_MARK_KNOWN (1ULL << 32)

/* A FIN is the last number of the sequence. It is consumed when nothing is unread. */
static __always_inline u32 delivered_sequence(const struct sock *sk, const struct tcp_sock *tcp)
{
	u32 sequence = READ(tcp, copied_seq);

	if (fin_received(sk) && sequence == READ(tcp, rcv_nxt))
		sequence--;
	return sequence;
}

/*
 * Notes that not only calls use the TCP stream: kernel TLS, a sockmap or something else in the kernel uses it too. This
 * is noted as soon as it is seen, because the socket may have left the map again when it ends.
 */
static __always_inline void note_framing(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	if (!(socket->flags & TRAFFIC_SOCKET_FRAMED) && (READ(tcp, inet_conn.icsk_ulp_ops) || READ(sk, sk_user_data)))
		SET_BITS(socket->flags, TRAFFIC_SOCKET_FRAMED);
}

/* Disconnecting has set TCP's counters to 0: the values that were read before stay. */
static __always_inline bool counters_are_reset(const struct tcp_sock *tcp, u32 state)
{
	return state == TCP_CLOSE && !READ(tcp, bytes_sent) && !READ(tcp, bytes_received);
}

/*
 * Reads TCP's own counters. They start at 0 with each connection of the socket; ours go on.
 *
 * `state` is the state of the socket, or the state that the socket is leaving for TCP_CLOSE. In TCP_CLOSE nothing more
 * is sent, and the state no longer tells whether a FIN is among what waits. So the unsent bytes stay those of the state
 * before.
 */
static __always_inline void read_tcp_counters(struct traffic_socket *socket, const struct sock *sk,
					      const struct tcp_sock *tcp, u32 state)
{
	u32 unsent = READ(tcp, write_seq) - READ(tcp, snd_nxt);
	u64 received = READ(tcp, bytes_received);

	if (fixed.derives_wire)
		note_reset(socket, sk);
	if (counters_are_reset(tcp, state))
		return;
	note_framing(socket, sk, tcp);
	socket->tcp_sent_bytes = socket->earlier_sent_bytes + READ(tcp, bytes_sent);
	socket->tcp_received_bytes = socket->earlier_received_bytes + received - (received && fin_received(sk));
	if (state != TCP_CLOSE)
		socket->unsent_bytes = unsent - (unsent && fin_sent_in(state));
	socket->unread_bytes = unread_bytes(sk, tcp);
	socket->retransmitted_bytes = socket->earlier_retransmitted_bytes + READ(tcp, bytes_retrans);
	socket->retransmitted_segments = READ(tcp, total_retrans);
	if (fixed.derives_wire) {
		note_wrap(socket, &socket->wire_sent, socket->segments_sent, READ(tcp, segs_out));
		note_wrap(socket, &socket->wire_received, socket->segments_received, READ(tcp, segs_in));
	}
	socket->segments_sent = READ(tcp, segs_out);
	socket->segments_received = READ(tcp, segs_in);
	socket->smoothed_rtt_us = READ(tcp, srtt_us) >> 3;
	if (fixed.derives_wire)
		derive_tcp(socket, sk, tcp, state);
}

/* connect() on a socket that was disconnected: the values read at its close are the sums of its connections so far. */
static __always_inline void begin_connection(struct traffic_socket *socket, const struct sock *sk)
{
	socket->earlier_sent_bytes = socket->tcp_sent_bytes;
	socket->earlier_received_bytes = socket->tcp_received_bytes;
	socket->earlier_retransmitted_bytes = socket->retransmitted_bytes;
	if (fixed.derives_wire) {
		note_reset(socket, sk);
		keep_earlier_headers(socket);
	}
}

#ifndef SOCKETS_IN_HASH
static __always_inline void number_socket(struct traffic_socket *socket)
{
	__sync_val_compare_and_swap(&socket->serial, 0, __sync_fetch_and_add(&last_serial, 1) + 1);
}

/* `sk` is a struct sock, or the socket type in a program's context. */
#define storage_of(sk) ((struct traffic_socket *)bpf_sk_storage_get(&sockets, sk, NULL, 0))
#define storage_of_context(sk) storage_of(sk)
#define make_storage(sk) ((struct traffic_socket *)bpf_sk_storage_get(&sockets, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE))
#define make_storage_of_context(sk) make_storage(sk)
#define further_of(sk) ((struct traffic_further *)bpf_sk_storage_get(&sharers, sk, NULL, 0))
#define further_of_context(sk) further_of(sk)
#define cookie_of(sk, named) bpf_get_socket_cookie(named)

/* Two processors may come here at once for one socket. `is_new` is true on one of them: its payer pays. */
static __always_inline struct traffic_further *make_further(struct sock *sk, u64 serial, u64 payer, bool *is_new)
{
	struct traffic_further *further = bpf_sk_storage_get(&sharers, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!further)
		further = further_of(sk); /* as in open_socket() */
	if (further)
		further->serial = serial;
	*is_new = further && !__sync_val_compare_and_swap(&further->payer, 0, payer);
	return further;
}

/* The kernel frees the storage with the socket. */
#define drop_storage(sk)
#define drop_storage_of_context(sk)
#endif

/* Like read_addresses(), for a socket that is a program's context. Plain loads can't read such a socket. */
static __noinline int probe_addresses(struct traffic_socket *socket, void *sk)
{
	struct sock_common *common = sk;

	socket->family = BPF_CORE_READ(common, skc_family);
	socket->local_port = BPF_CORE_READ(common, skc_num);
	socket->remote_port = bpf_ntohs(BPF_CORE_READ(common, skc_dport));
	if (socket->family == AF_INET6) {
		BPF_CORE_READ_INTO(&socket->local_address, common, skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&socket->remote_address, common, skc_v6_daddr);
	} else {
		*(u32 *)&socket->local_address[8] = *(u32 *)&socket->remote_address[8] = bpf_htonl(0xffff);
		BPF_CORE_READ_INTO((u32 *)&socket->local_address[12], common, skc_rcv_saddr);
		BPF_CORE_READ_INTO((u32 *)&socket->remote_address[12], common, skc_daddr);
	}
	return 0;
}

/* Bytes received before there was storage are already in rows: see received() in call_results.bpf.h. */
static __always_inline void begin_late(struct traffic_socket *socket, struct sock *sk)
{
	const struct tcp_sock *tcp = tcp_of(sk);

	if (tcp && live.baseline_done)
		SET_ONCE(socket->receive_mark, RECEIVE_MARK_KNOWN | delivered_sequence(sk, tcp));
}

/*
 * Whether a socket of this payer has failed to get storage. Then each receive of the payer's sockets takes one look-up
 * more, and those of other payers do not.
 */
static __always_inline bool may_be_unstored(struct sock *sk)
{
	struct traffic_payer *payer = storage_failed ? find_payer(READ(sk, sk_uid.val)) : NULL;

	return payer && payer->storage_failed;
}

static __always_inline void note_failed_storage(struct sock *sk)
{
	struct traffic_payer *payer = find_payer(READ(sk, sk_uid.val));

	if (payer)
		payer->storage_failed = 1;
	storage_failed = 1;
}

/*
 * Makes storage for a socket that is seen for the first time. Two processors may do this at once for one socket. Then
 * both write the same values, only one of them assigns the number, and the counters start at the zero of the new
 * storage.
 *
 * `named` is the argument for the program's bpf_get_socket_cookie(): the socket itself, or the packet that belongs to
 * it.
 */
static __noinline struct traffic_socket *open_socket(struct sock *sk, void *named)
{
	struct traffic_socket *socket = make_storage(sk);

	/*
	 * If another processor is making the storage, this one gets an error (EEXIST). A second look-up then finds the
	 * storage.
	 */
	if (!socket)
		socket = storage_of(sk);
	if (!socket)
		note_failed_storage(sk);
	if (!socket || socket->serial)
		return socket;
	socket->protocol = READ(sk, sk_protocol);
	socket->type = READ(sk, sk_type);
	socket->network_namespace = READ(sk, __sk_common.skc_net.net, ns.inum);
	read_addresses(socket, sk);
	if (live.baseline_done)
		socket->opened_boottime_ns = bpf_ktime_get_boot_ns();
	else
		SET_BITS(socket->flags, TRAFFIC_SOCKET_PREEXISTING | TRAFFIC_SOCKET_PARTIAL);
	socket->cookie = cookie_of(sk, named);
	socket->uid = READ(sk, sk_uid.val);
	if (may_be_unstored(sk))
		begin_late(socket, sk);
	number_socket(socket);
	return socket;
}

static __always_inline struct traffic_socket *find_socket(struct sock *sk)
{
	struct traffic_socket *socket = storage_of(sk);

	return socket ? socket : open_socket(sk, sk);
}

/* Whether the socket has no storage and gets none: a socket in use gets none once storage has failed for its payer. */
static __always_inline bool is_unstored(struct sock *sk)
{
	return may_be_unstored(sk) && !storage_of(sk);
}

#endif
