/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls between entry and return. A probe at the entry and a probe at the return are two separate programs.
 */
#ifndef CALLS_IN_PROGRESS_BPF_H
#define CALLS_IN_PROGRESS_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

enum call_kind { CALL_SEND, CALL_SENDPAGE, CALL_RECEIVE, CALL_SPLICE };

/* A call in progress, by its thread. Within one call a thread may make a call of another kind. */
struct call_key {
	u64 thread;
	u64 kind; /* enum call_kind */
};

struct call {
	u64 sk;
	u32 flags;
	u32 counted; /* 1: datagram_consumed() has counted this call */
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

/* `sk`: NULL for a call that is not counted at its return. */
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

/* Returns whether the call that returns is to be counted, and fills in `call`. */
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
