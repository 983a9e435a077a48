/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Some kernels may preempt a task inside a program of a tracepoint (Linux 7.0 and later; KernelFacts.swift finds out). Until
 * the task goes on, the kernel skips that program for every other call on the processor. bpf_preempt_disable() does not
 * help: the kernel then preempts the task at the end of the program, where the kernel still takes the program to be
 * running. So each hook of a call has two programs. The second one, the twin, counts the calls for which the kernel
 * skipped the first one.
 */
#ifndef PREEMPT_BPF_H
#define PREEMPT_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"

enum counted_call { COUNTED_SEND = 1, COUNTED_RECEIVE = 2 };

#ifdef SOCKETS_IN_HASH /* no twins */
static __always_inline bool is_first_to_count(enum counted_call call, bool is_twin)
{
	return !is_twin;
}
#else
/* By task: bits of enum counted_call. The first program sets a bit, and its twin clears the bit in the same call. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} counted_calls SEC(".maps");

/* The daemon must attach the first program before its twin, so that the first program runs first. */
static __always_inline bool is_first_to_count(enum counted_call call, bool is_twin)
{
	u32 *counted;

	if (!fixed.tracepoints_preempted)
		return !is_twin;
	counted = bpf_task_storage_get(&counted_calls, bpf_get_current_task_btf(), NULL,
				       is_twin ? 0 : BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!counted)
		return is_twin; /* the first program had no room for its bit, so it did not count */
	if (!is_twin) {
		*counted |= call;
		return true;
	}
	if (!(*counted & call))
		return true;
	*counted &= ~call;
	return false;
}
#endif

#endif
