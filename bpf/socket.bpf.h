/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A socket's storage: its beginning, what is read of the socket, its end.
 */
#ifndef SOCKET_BPF_H
#define SOCKET_BPF_H

static __always_inline bool is_internet(const struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;

	return family == AF_INET || family == AF_INET6;
}

/*
 * The addresses as the socket has them now. An unconnected UDP socket has no remote address; an IPv4 address is stored
 * v4-mapped whichever family the socket has, so that a v4 client of a server on :: is the same address on both ends.
 */
static __always_inline void read_addresses(struct traffic_socket *socket, const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;

	socket->family = common->skc_family;
	socket->state = common->skc_state;
	socket->local_port = common->skc_num;
	socket->remote_port = bpf_ntohs(common->skc_dport);
	if (common->skc_family == AF_INET6) {
		u32 *local = (u32 *)socket->local_address, *remote = (u32 *)socket->remote_address;

		local[0] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[0];
		local[1] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[1];
		local[2] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[2];
		local[3] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[3];
		remote[0] = common->skc_v6_daddr.in6_u.u6_addr32[0];
		remote[1] = common->skc_v6_daddr.in6_u.u6_addr32[1];
		remote[2] = common->skc_v6_daddr.in6_u.u6_addr32[2];
		remote[3] = common->skc_v6_daddr.in6_u.u6_addr32[3];
	} else {
		*(u32 *)&socket->local_address[8] = bpf_htonl(0xffff);
		*(u32 *)&socket->local_address[12] = common->skc_rcv_saddr;
		*(u32 *)&socket->remote_address[8] = bpf_htonl(0xffff);
		*(u32 *)&socket->remote_address[12] = common->skc_daddr;
	}
}

static __always_inline void read_tcp_counters(struct traffic_socket *socket, const struct tcp_sock *tcp)
{
	socket->retransmitted_bytes = tcp->bytes_retrans;
	socket->retransmitted_segments = tcp->total_retrans;
	socket->segments_sent = tcp->segs_out;
	socket->segments_received = tcp->segs_in;
	socket->smoothed_rtt_us = tcp->srtt_us >> 3;
}

/*
 * Storage for a socket seen for the first time. Two processors may do this at once for one socket: both write the same
 * values, one of them gives the number, and the counters start at the zero that the storage came with.
 */
static __noinline struct traffic_socket *open_socket(struct sock *sk)
{
	struct traffic_socket *socket = bpf_sk_storage_get(&sockets, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	/* Who comes second while the storage is being made gets nothing (EEXIST), and then finds it. */
	if (!socket)
		socket = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!socket || socket->serial)
		return socket;
	socket->protocol = sk->sk_protocol;
	socket->type = sk->sk_type;
	socket->network_namespace = sk->__sk_common.skc_net.net->ns.inum;
	read_addresses(socket, sk);
	if (told.baseline_done)
		socket->opened_boottime_ns = bpf_ktime_get_boot_ns();
	else
		socket->flags |= TRAFFIC_SOCKET_PREEXISTING;
	socket->cookie = bpf_get_socket_cookie(sk);
	__sync_val_compare_and_swap(&socket->serial, 0, __sync_fetch_and_add(&last_serial, 1) + 1);
	return socket;
}

static __always_inline struct traffic_socket *find_socket(struct sock *sk)
{
	struct traffic_socket *socket = bpf_sk_storage_get(&sockets, sk, NULL, 0);

	return socket ? socket : open_socket(sk);
}

/* The final totals, before the storage goes away. */
static __always_inline void close_socket(struct traffic_socket *socket)
{
	struct traffic_socket *record;
	u64 serial = socket->serial, flags;

	if (!serial || socket->closed_boottime_ns)
		return;
	socket->closed_boottime_ns = bpf_ktime_get_boot_ns();
	COUNT_LOSS(closed_sockets, 1);
	record = bpf_ringbuf_reserve(&closed, sizeof(*record), 0);
	if (record) {
		__builtin_memcpy(record, socket, sizeof(*record));
		flags = bpf_ringbuf_query(&closed, BPF_RB_AVAIL_DATA) >= ring_wakeup_bytes ? BPF_RB_FORCE_WAKEUP :
											     BPF_RB_NO_WAKEUP;
		bpf_ringbuf_submit(record, flags);
		COUNT_LOSS(closed_submitted, 1);
		return;
	}
	if (!bpf_map_update_elem(&deferred, &serial, socket, BPF_ANY)) {
		COUNT_LOSS(closed_deferred, 1);
		return;
	}
	COUNT_LOSS(closed_lost, 1);
#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++) {
		COUNT_LOSS(lost_sent_bytes, socket->owners[i].sent_bytes);
		COUNT_LOSS(lost_received_bytes, socket->owners[i].received_bytes);
	}
}

#endif
