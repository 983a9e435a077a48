/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Since Linux 7.0 a task may be preempted inside a program of a tracepoint, too. Until it is back, the kernel leaves that program out of
 * every other call on the processor: it asks whether the program is at work there, not for whom. (To keep the processor by
 * bpf_preempt_disable() does not help: who has to go then goes at the program's end, and is still inside.) So each hook of a call has two
 * programs, a first one and its twin, which counts what the first one was left out of.
 */
#ifndef PREEMPT_BPF_H
#define PREEMPT_BPF_H

enum counted_call { COUNTED_SEND = 1, COUNTED_RECEIVE = 2 };

#ifdef SOCKETS_IN_HASH /* no twins */
#define TRACEPOINTS_ARE_PREEMPTED false /* a probe sees the end */

static __always_inline bool is_first_to_count(enum counted_call call, bool is_twin)
{
	return !is_twin;
}
#else
extern int LINUX_KERNEL_VERSION __kconfig;

/* Known when the program is loaded: elsewhere nothing is left of what stands behind it. */
#define TRACEPOINTS_ARE_PREEMPTED (LINUX_KERNEL_VERSION >= KERNEL_VERSION(7, 0, 0))

/* By task, enum counted_call: set by the first program, taken back by its twin, in the same call. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} counted_calls SEC(".maps");

/* A first program must have been attached before its twin, so that it runs first. */
static __always_inline bool is_first_to_count(enum counted_call call, bool is_twin)
{
	u32 *counted;

	if (!TRACEPOINTS_ARE_PREEMPTED)
		return !is_twin;
	counted = bpf_task_storage_get(&counted_calls, bpf_get_current_task_btf(), NULL,
				       is_twin ? 0 : BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!counted)
		return is_twin; /* the first one had no room to say that it counted, and did not */
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
