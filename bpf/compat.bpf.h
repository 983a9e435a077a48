/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Differences between kernels, each with the commit that made it.
 */
#ifndef COMPAT_BPF_H
#define COMPAT_BPF_H

/* Linux 6.2, a35b9af4ec2c ("bpf: Add a kfunc for generic type cast"). Costs nothing: the verifier only notes the type. */
extern void *bpf_rdonly_cast(const void *object, u32 btf_id) __ksym __weak;

/* The tcp_sock that `sk` is, for reading, where the caller knows that it is one. Before 6.2 a helper does it, a call. */
static __always_inline const struct tcp_sock *read_as_tcp(struct sock *sk)
{
	if (bpf_rdonly_cast)
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
}

/*
 * The same where it may be another protocol's: then NULL. A raw socket of protocol 6 is no TCP socket, though
 * bpf_skc_to_tcp_sock() of some kernels takes it for one.
 */
static __always_inline const struct tcp_sock *tcp_of(struct sock *sk)
{
	return sk->sk_protocol == IPPROTO_TCP && sk->sk_type == SOCK_STREAM ? read_as_tcp(sk) : NULL;
}

/* Whether the IP packet that begins there is a fragment of a larger one. */
static __always_inline bool is_fragment(void *start, bool is_ipv4)
{
	struct iphdr *v4 = start;
	struct ipv6hdr *v6 = start;

	if (is_ipv4) {
		if (bpf_rdonly_cast)
			v4 = bpf_rdonly_cast(start, bpf_core_type_id_kernel(struct iphdr));
		return (bpf_rdonly_cast ? v4->frag_off : BPF_CORE_READ(v4, frag_off)) & bpf_htons(0x3fff);
	}
	if (bpf_rdonly_cast)
		v6 = bpf_rdonly_cast(start, bpf_core_type_id_kernel(struct ipv6hdr));
	return (bpf_rdonly_cast ? v6->nexthdr : BPF_CORE_READ(v6, nexthdr)) == IPPROTO_FRAGMENT;
}

/* skb_shinfo(): gso_size (0: one packet) and gso_type of an skb, as one number. */
static __always_inline u64 offload_of(const struct sk_buff *skb)
{
	struct skb_shared_info *shared = (void *)(skb->head + skb->end);

	if (bpf_rdonly_cast) {
		shared = bpf_rdonly_cast(shared, bpf_core_type_id_kernel(struct skb_shared_info));
		return shared->gso_size ? (u64)shared->gso_type << 32 | shared->gso_size : 0;
	}
	return (u64)BPF_CORE_READ(shared, gso_type) << 32 | BPF_CORE_READ(shared, gso_size);
}

#endif
