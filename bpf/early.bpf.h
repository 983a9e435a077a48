/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Payload that arrives before its connection is established: in the SYN with TCP Fast Open, or in the last packet of
 * the handshake. Those packets count for the listener. When the connection is established, this file moves their
 * payload to the connection.
 */
#ifndef EARLY_BPF_H
#define EARLY_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

/*
 * Any host may send a listener segments that never become a connection. Then the `early` map drops other elements. This
 * counts the elements that were added and not taken, in this period and in the last one. A high count means that the
 * map may have dropped an element. If two processors begin a period at once, a count may be lost.
 */
/* longer than a handshake: the kernel repeats a SYN-ACK for 63 s (tcp_synack_retries) */
static const u64 EARLY_PERIOD_NS = 128ULL * 1000000000;

struct early_flow {
	u64 period_ends_ns;
	s64 before;
	s64 present;
};

static struct early_flow early_flow;

static __always_inline void count_early(void)
{
	u64 now = bpf_ktime_get_boot_ns();

	if (now >= early_flow.period_ends_ns) {
		early_flow.before = now < early_flow.period_ends_ns + EARLY_PERIOD_NS ? early_flow.present : 0;
		early_flow.present = 0;
		early_flow.period_ends_ns = now + EARLY_PERIOD_NS;
	}
	__sync_fetch_and_add(&early_flow.present, 1);
}

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
	else
		count_early();
	bpf_map_update_elem(&early, &tuple, &sum, BPF_ANY);
	early_used = 1;
	return 0;
}

/* A connection is established: moves the early payload of this connection from the map to its socket. */
static __noinline int take_early(struct traffic_socket *socket)
{
	struct traffic_tuple tuple = {
		.network_namespace = socket->network_namespace,
		.local_port = socket->local_port,
		.remote_port = socket->remote_port,
	};
	u64 *bytes;

	if (!early_used || socket->role != TRAFFIC_ROLE_SERVER)
		return 0;
	if (early_flow.before + early_flow.present > (s64)live.early_trust)
		SET_BITS(socket->flags, TRAFFIC_SOCKET_EARLY_UNKNOWN);
	__builtin_memcpy(tuple.local_address, socket->local_address, sizeof(tuple.local_address));
	__builtin_memcpy(tuple.remote_address, socket->remote_address, sizeof(tuple.remote_address));
	bytes = bpf_map_lookup_elem(&early, &tuple);
	if (!bytes)
		return 0;
	socket->early_bytes += *bytes;
	bpf_map_delete_elem(&early, &tuple);
	__sync_fetch_and_add(&early_flow.present, -1);
	return 0;
}

#endif
