/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Differences between kernels, each with the commit that made the difference.
 */
#ifndef COMPAT_BPF_H
#define COMPAT_BPF_H

#include "kernel_types.h"

#ifdef SOCKETS_IN_HASH
#include <asm/ptrace.h>
#endif
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifdef SOCKETS_IN_HASH
/*
 * For kernels whose tracing programs have no socket storage (before 5.11), and for kprobes, which have none on any
 * kernel: see hash.bpf.h. Where a function's arguments come in registers the verifier knows no types. So the programs
 * copy the kernel's memory field by field.
 */
#define READ(source, ...)                                                                                              \
	({                                                                                                             \
		__typeof__(((void)0, ___arrow(source, __VA_ARGS__))) read_value; /* the comma removes `const` */       \
		BPF_CORE_READ_INTO(&read_value, source, __VA_ARGS__);                                                  \
		read_value;                                                                                            \
	})
#define READ_BITS(source, field) BPF_CORE_READ_BITFIELD_PROBED(source, field)

/* bpf_get_current_task_btf(): Linux 5.11, 3ca1032ab7ab. */
static __always_inline struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

static __always_inline struct socket *socket_of(struct file *file)
{
	if ((READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	return READ(file, private_data);
}

static __always_inline const struct tcp_sock *read_as_tcp(struct sock *sk)
{
	return (const struct tcp_sock *)sk;
}

/*
 * Before Linux 5.12 (5ffa25502b5a "bpf: Add instructions for atomic_[cmp]xchg") the only atomic operation is an
 * addition, and the program does not get its result. So every program that uses these macros holds the socket's lock,
 * or writes the same value as any other program would.
 */
#define SET_BITS(field, bits) ((field) |= (bits))
#define CLEAR_BITS(field, bits) ((field) &= ~(bits))
#define SET_ONCE(field, fresh)                                                                                         \
	do {                                                                                                           \
		if (!(field))                                                                                          \
			(field) = (fresh);                                                                             \
	} while (0)
#else
#define READ(source, ...) ___arrow(source, __VA_ARGS__)
#define READ_BITS(source, field) BPF_CORE_READ_BITFIELD(source, field)
#define SET_BITS(field, bits) __sync_fetch_and_or(&(field), (bits))
#define CLEAR_BITS(field, bits) __sync_fetch_and_and(&(field), ~(bits))
#define SET_ONCE(field, fresh) __sync_val_compare_and_swap(&(field), 0, (fresh))

static __always_inline struct task_struct *current_task(void)
{
	return bpf_get_current_task_btf();
}

static __always_inline struct socket *socket_of(struct file *file)
{
	return bpf_sock_from_file(file);
}

/*
 * Linux 6.2, a35b9af4ec2c ("bpf: Add a kfunc for generic type cast"). The cast costs nothing: the verifier only notes
 * the type.
 */
extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym __weak;

/*
 * `sk` as a tcp_sock, for reading. The caller must know that `sk` is a tcp_sock. Before 6.2 this costs the call of a
 * helper.
 */
static __always_inline const struct tcp_sock *read_as_tcp(struct sock *sk)
{
	if (bpf_rdonly_cast)
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
}
#endif

/*
 * `sk` as a tcp_sock, or NULL where `sk` is of another protocol. A raw socket of protocol 6 is not a TCP socket, but
 * bpf_skc_to_tcp_sock() of some kernels treats such a socket as TCP.
 */
static __always_inline const struct tcp_sock *tcp_of(struct sock *sk)
{
	return READ(sk, sk_protocol) == IPPROTO_TCP && READ(sk, sk_type) == SOCK_STREAM ? read_as_tcp(sk) : NULL;
}

/* Whether the IP packet that begins at `start` is a fragment of a larger packet. */
static __always_inline bool is_fragment(void *start, bool is_ipv4)
{
	const __be16 more_or_offset = bpf_htons(0x3fff);
	struct iphdr *v4 = start;
	struct ipv6hdr *v6 = start;

#ifndef SOCKETS_IN_HASH
	if (bpf_rdonly_cast && is_ipv4) {
		v4 = bpf_rdonly_cast(start, bpf_core_type_id_kernel(struct iphdr));
		return v4->frag_off & more_or_offset;
	}
	if (bpf_rdonly_cast) {
		v6 = bpf_rdonly_cast(start, bpf_core_type_id_kernel(struct ipv6hdr));
		return v6->nexthdr == IPPROTO_FRAGMENT;
	}
#endif
	return is_ipv4 ? BPF_CORE_READ(v4, frag_off) & more_or_offset : BPF_CORE_READ(v6, nexthdr) == IPPROTO_FRAGMENT;
}

/* skb_shinfo(): gso_size (0: one packet) and gso_type of an skb, as one number. */
static __always_inline u64 offload_of(const struct sk_buff *skb)
{
	struct skb_shared_info *shared = (void *)(skb->head + skb->end);

#ifndef SOCKETS_IN_HASH
	if (bpf_rdonly_cast) {
		shared = bpf_rdonly_cast(shared, bpf_core_type_id_kernel(struct skb_shared_info));
		return shared->gso_size ? (u64)shared->gso_type << 32 | shared->gso_size : 0;
	}
#endif
	return (u64)BPF_CORE_READ(shared, gso_type) << 32 | BPF_CORE_READ(shared, gso_size);
}

#endif
