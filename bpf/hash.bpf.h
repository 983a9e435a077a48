/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets in a hash, by the address of the struct sock, for programs and kernels without socket storage. Here the kernel frees nothing:
 * the end of a socket (tcp_destroy_sock, inet_release) takes its element away, before its address can be another's. Where the hash is
 * full a socket has no counters, and what it moves is counted as lost.
 */
#ifndef HASH_BPF_H
#define HASH_BPF_H

/* What a new element is a copy of. Nobody writes to it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct traffic_socket);
} blanks SEC(".maps");

/*
 * Where one processor's numbers come from. A softirq may get in while a process takes one (`takers` is 2 then) and takes from the second
 * row: an addition gives no result before Linux 5.12.
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

/* Below 2^53, for readers of JSON: 2^40 sockets on each of 4096 processors. */
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
 * The address of what a program's context is or points to. The verifier tells such pointers from numbers and takes none for a key before
 * it has been copied as memory.
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
/* 0 until somebody asks the kernel for it: see packet_socket() and socket_create(). */
#define cookie_of(sk, named) READ(sk, __sk_common.skc_cookie.counter)

#endif
