/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Since Linux 7.0 a task may be preempted inside a program of a tracepoint, too. Until the task goes on, the kernel skips that program for
 * every other call on the processor. bpf_preempt_disable() does not help: the task is then preempted at the program's end, where the kernel
 * still takes the program to be running. So each hook of a call has two programs: the twin counts the calls that the first one was
 * skipped for.
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

/* Known when the program is loaded: the verifier removes the code that this kernel does not need. */
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
