/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps and variables that the programs share with each other and with the daemon.
 */
#ifndef MAPS_BPF_H
#define MAPS_BPF_H

#include "compat.bpf.h"
#include "include/traffic_abi.h"

#ifdef SOCKETS_IN_HASH
/* Before Linux 6.1 kprobes must not use maps that allocate memory when an element is added. */
enum {
	SHARED_MAP_FLAGS = 0,
	SHARED_LIMIT = TRAFFIC_SHARED_SOCKETS_IN_HASH / TRAFFIC_PARTS, /* of a payer */
	DEFERRED_LIMIT = TRAFFIC_DEFERRED_IN_HASH,
	ROWS_LIMIT = TRAFFIC_ROWS_IN_HASH,
};

/* By the address of the struct sock. About 0.6 KiB each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct traffic_socket);
} sockets SEC(".maps");

/* Further owners of sockets, by the same address. About 5.6 KiB each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TRAFFIC_SHARED_SOCKETS_IN_HASH);
	__type(key, u64);
	__type(value, struct traffic_further);
} sharers SEC(".maps");
#else
enum {
	SHARED_MAP_FLAGS = BPF_F_NO_PREALLOC,
	SHARED_LIMIT = TRAFFIC_SHARED_SOCKETS,
	DEFERRED_LIMIT = TRAFFIC_DEFERRED,
	ROWS_LIMIT = TRAFFIC_ROWS,
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct traffic_socket);
} sockets SEC(".maps");

/* Further owners of sockets. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct traffic_further);
} sharers SEC(".maps");
#endif

/* Final totals of closed sockets, and totals of some open ones. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TRAFFIC_RING_BYTES);
} closed SEC(".maps");

/*
 * Records that wait for the next sweep because the ring has no room for them: of closed sockets, and copies of TCP
 * sockets whose last file is gone (closing.bpf.h). By record_key(), as the next one.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, SHARED_MAP_FLAGS);
	__uint(max_entries, DEFERRED_LIMIT);
	__type(key, u64);
	__type(value, struct traffic_socket);
} deferred SEC(".maps");

/* Those of them with further owners. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, SHARED_MAP_FLAGS);
	__uint(max_entries, DEFERRED_LIMIT / TRAFFIC_PLACES_OF_SHARED);
	__type(key, u64);
	__type(value, struct traffic_shared_record);
} deferred_shared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct traffic_loss);
} loss SEC(".maps");

#ifdef SOCKETS_IN_HASH
/*
 * Locks that are taken. Key: lock_key() while a program takes an owner's slot, or removes what an earlier socket left;
 * record_lock_key() while a walk writes a record.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u8);
} locks SEC(".maps");
#endif

/* Names of processes that have called execve(2) since the last sweep. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct traffic_process_key);
	__type(value, struct traffic_execution);
} executed SEC(".maps");

/*
 * Every interface that packets passed, in every network namespace. Elements belong to two generations, which take
 * turns: the daemon reads the elements of the older generation and then removes them. Any user may make interfaces
 * outside the daemon's network namespace. Those get a quarter of the map in each generation. Further ones count in the
 * element of network namespace 0.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct traffic_interface_key);
	__type(value, struct traffic_interface);
} interfaces SEC(".maps");

/* By generation: how many elements belong to network namespaces other than the daemon's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} stranger_interfaces SEC(".maps");

/*
 * Payload that a listener received for connections that were not established yet: with TCP Fast Open, and where the
 * last packet of the handshake has data. The connection takes this payload over. If a connection never comes about, the
 * map drops its element, the oldest first.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct traffic_tuple);
	__type(value, u64);
} early SEC(".maps");

/* Buffers in which a walk copies one socket, by enum walk: one walk may be preempted, and the other go on there. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct traffic_shared_record);
} copies SEC(".maps");

/*
 * Sockets, by serial, that closed without a record though the daemon may list them: they had a record while they were
 * open. Rows contain the rest of their bytes.
 */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1 << 18);
	__type(value, u64);
} unrecorded_ends SEC(".maps");

u64 last_serial = 0;
/*
 * Whether any socket ever failed to get storage: a process can use up the memory that its socket may take (optmem_max).
 * `payers` has whose.
 */
u32 storage_failed = 0;
/* Whether the `early` map was ever used. */
u32 early_used = 0;

/* The daemon changes these while the programs run. */
struct traffic_live_settings live SEC(".data.live") = {};

/* The daemon sets these before it loads the programs. */
const volatile struct traffic_fixed_settings fixed SEC(".rodata.fixed") = {};

static __always_inline struct traffic_loss *loss_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&loss, &zero);
}

#define COUNT_LOSS(field, amount)                                                                                      \
	do {                                                                                                           \
		struct traffic_loss *here = loss_here();                                                               \
		if (here)                                                                                              \
			__sync_fetch_and_add(&here->field, (amount));                                                  \
	} while (0)

#endif
