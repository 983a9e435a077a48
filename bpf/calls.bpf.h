/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls between their entry and their return, for probes, which see the two apart.
 */
#ifndef CALLS_BPF_H
#define CALLS_BPF_H

enum call_kind { CALL_SEND, CALL_SENDPAGE, CALL_RECEIVE, CALL_SPLICE };

/* A call at work, by its thread: one may make another one of another kind. */
struct call_key {
	u64 thread;
	u64 kind; /* enum call_kind */
};

struct call {
	u64 sk;
	u32 flags;
	u32 counted; /* by skb_consume_udp */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct call_key);
	__type(value, struct call);
} calls SEC(".maps");

static __always_inline struct call_key call_of(u64 kind)
{
	return (struct call_key){ .thread = bpf_get_current_pid_tgid(), .kind = kind };
}

/* `sk` NULL: a call that is not counted by its return. */
static __always_inline int called(u64 kind, struct sock *sk, u32 flags)
{
	struct call_key key = call_of(kind);
	struct call call = { .sk = (u64)sk, .flags = flags };
	struct call *before = bpf_map_lookup_elem(&calls, &key);

	if (before) {
		if (!before->counted)
			COUNT_LOSS(returns_missed, 1);
		bpf_map_delete_elem(&calls, &key);
	}
	if (sk && bpf_map_update_elem(&calls, &key, &call, BPF_ANY))
		COUNT_LOSS(returns_missed, 1);
	return 0;
}

/* Whether the call that returns is one to be counted. */
static __always_inline bool returned(u64 kind, struct call *call)
{
	struct call_key key = call_of(kind);
	struct call *found = bpf_map_lookup_elem(&calls, &key);

	if (!found)
		return false;
	*call = *found;
	bpf_map_delete_elem(&calls, &key);
	return true;
}

#endif
