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
#include "payer.bpf.h"

/* A new element of `sharers` is a copy of this one, and one of `sockets` of its beginning. No program writes to it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct traffic_further);
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
	struct traffic_further *blank;
	u32 zero = 0;

	blank = bpf_map_lookup_elem(&blanks, &zero);
	if (blank)
		bpf_map_update_elem(&sockets, &address, blank, BPF_NOEXIST);
	return storage_at(address);
}

static __always_inline struct traffic_further *further_at(u64 address)
{
	return bpf_map_lookup_elem(&sharers, &address);
}

/* The key in `locks` for a part of a socket. Serials are below 2^53. record_lock_key() has the last bit. */
static __always_inline u64 lock_key(u64 serial, u32 part)
{
	return serial | (u64)(part + 1) << 54;
}

/* Parts of a socket: the slots of its owners, the inline ones first, and this. */
enum { FURTHER_STORAGE = TRAFFIC_INLINE_OWNERS + TRAFFIC_FURTHER_OWNERS };

/* Whether the element belongs to another socket. While it is being made, it has no serial yet. */
static __always_inline bool is_of_another(const struct traffic_further *further, u64 serial)
{
	return further->serial && further->serial != serial;
}

/*
 * Removes the element of an earlier socket with this address: a program may have made it just when the socket ended.
 * With the lock no program can remove what another one has just put in its place, and the payer gets one place back.
 */
static __noinline int drop_earlier_further(u64 address, u64 serial)
{
	u64 key = lock_key(serial, FURTHER_STORAGE);
	struct traffic_further *further;
	u8 taken = 1;

	if (bpf_map_update_elem(&locks, &key, &taken, BPF_NOEXIST))
		return 0;
	further = further_at(address);
	if (further && is_of_another(further, serial)) {
		give_back_place(further);
		bpf_map_delete_elem(&sharers, &address);
	}
	bpf_map_delete_elem(&locks, &key);
	return 0;
}

/* As make_further() in socket.bpf.h. Whoever comes here first has made the element, and each of them writes the key. */
static __always_inline struct traffic_further *make_further_at(u64 address, u64 serial, u64 payer, bool *is_new)
{
	struct traffic_further *blank, *further;
	u32 zero = 0;

	further = further_at(address);
	if (further && is_of_another(further, serial))
		drop_earlier_further(address, serial);
	blank = bpf_map_lookup_elem(&blanks, &zero);
	*is_new = blank && !bpf_map_update_elem(&sharers, &address, blank, BPF_NOEXIST);
	further = further_at(address);
	if (!further || is_of_another(further, serial))
		return NULL;
	further->address = address;
	further->serial = serial;
	if (*is_new)
		further->payer = payer;
	return further;
}

/*
 * `sharers` first, and whatever the socket says of it: a later socket must not find the element of an earlier one.
 */
static __always_inline void drop_storage_at(u64 address)
{
	struct traffic_further *further = further_at(address);

	if (further) {
		give_back_place(further);
		bpf_map_delete_elem(&sharers, &address);
	}
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
#define further_of(sk) further_at((u64)(sk))
#define make_further(sk, serial, payer, is_new) make_further_at((u64)(sk), serial, payer, is_new)
#define further_of_context(sk) further_at(address_of(sk))
#define make_storage(sk) make_storage_at((u64)(sk))
#define make_storage_of_context(sk) make_storage_at(address_of(sk))
#define drop_storage_of_context(sk) drop_storage_at(address_of(sk))
#define drop_storage(sk) drop_storage_at((u64)(sk))
/* 0 until a program or process asks the kernel for the cookie: see packet_socket() and socket_create(). */
#define cookie_of(sk, named) READ(sk, __sk_common.skc_cookie.counter)

#endif
