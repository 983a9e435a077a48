/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets in a hash, by the address of the struct sock. This is for programs and kernels without socket storage. The
 * kernel does not free an element of the hash. So the program that sees the end of a socket (tcp_destroy_sock,
 * inet_release) removes the element, before the address can belong to another socket. If the hash is full, a socket has
 * no counters, and the bytes of its calls go to rows (account.bpf.h).
 */
#ifndef HASH_BPF_H
#define HASH_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

/* A new element is a copy of this one. No program writes to it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct traffic_socket);
} blanks SEC(".maps");

/*
 * The numbers of one processor. A softirq may interrupt a process while the process takes a number. Then `takers` is 2,
 * and the softirq takes its number from the second row. Two rows are needed because an addition gives no result before
 * Linux 5.12.
 */
struct numbering {
	u64 takers;
	u64 taken[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct numbering);
} numberings SEC(".maps");

/* The serial stays below 2^53 for readers of JSON: 2^40 sockets on each of 4096 processors. */
static __always_inline void number_socket(struct traffic_socket *socket)
{
	volatile struct numbering *numbering;
	u32 zero = 0, row;
	u64 number;

	numbering = bpf_map_lookup_elem(&numberings, &zero);
	if (!numbering || socket->serial)
		return;
	__sync_fetch_and_add(&numbering->takers, 1);
	row = numbering->takers > 1;
	number = row ? ++numbering->taken[1] : ++numbering->taken[0];
	__sync_fetch_and_add(&numbering->takers, -1);
	socket->serial = number << 13 | (bpf_get_smp_processor_id() & 0xfff) << 1 | row;
}

static __always_inline struct traffic_socket *storage_at(u64 address)
{
	return bpf_map_lookup_elem(&sockets, &address);
}

static __always_inline struct traffic_socket *make_storage_at(u64 address)
{
	struct traffic_socket *blank;
	u32 zero = 0;

	blank = bpf_map_lookup_elem(&blanks, &zero);
	if (blank)
		bpf_map_update_elem(&sockets, &address, blank, BPF_NOEXIST);
	return storage_at(address);
}

static __always_inline void drop_storage_at(u64 address)
{
	bpf_map_delete_elem(&sockets, &address);
}

/*
 * The address of a program's context, or of what `pointer` points to. The verifier distinguishes such pointers from
 * numbers. It accepts the address as a key only after the program has copied the pointer as memory.
 */
static __always_inline u64 address_of(const void *pointer)
{
	const void *volatile spilled = pointer;
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), (const void *)&spilled);
	return address;
}

#define storage_of(sk) storage_at((u64)(sk))
#define storage_of_context(sk) storage_at(address_of(sk))
#define make_storage(sk) make_storage_at((u64)(sk))
#define make_storage_of_context(sk) make_storage_at(address_of(sk))
#define drop_storage_of_context(sk) drop_storage_at(address_of(sk))
#define drop_storage(sk) drop_storage_at((u64)(sk))
/* 0 until a program or process asks the kernel for the cookie: see packet_socket() and socket_create(). */
#define cookie_of(sk, named) READ(sk, __sk_common.skc_cookie.counter)

#endif
