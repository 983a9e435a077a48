/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The list of holders: which processes have a descriptor of a socket now. The daemon runs this program.
 *
 * A slot of a socket says who used the socket, and stays when that process ends. A server that goes into the background
 * leaves its listener to children that no call on it may ever name.
 */
#ifndef HOLDERS_BPF_H
#define HOLDERS_BPF_H

#include "account.bpf.h"
#include "compat.bpf.h"
#include "maps.bpf.h"
#include "socket.bpf.h"

/*
 * Whether this holder gets a line. Of most sockets the process in the first slot is the only holder, and those get none.
 * A holder of several descriptors gets one line, unless other holders come in between.
 */
static __always_inline bool is_listed(const struct traffic_held *held, bool is_first, u32 tgid)
{
	if (is_first)
		return held->by == TRAFFIC_HELD_BY_OTHERS;
	return !(held->by & TRAFFIC_HELD_BY_OTHERS) || held->last != tgid;
}

/* A function of its own, so that the object's type information has the struct. */
static __noinline long write_holder(struct seq_file *seq, struct traffic_holder *line)
{
	return bpf_seq_write(seq, line, sizeof(*line));
}

SEC("iter/task_file")
int list_holders(struct bpf_iter__task_file *context)
{
	struct traffic_holder line = {};
	struct task_struct *task = context->task;
	struct sock *sk = counted_sock_of(context->file);
	struct traffic_socket *storage;
	struct traffic_held held = {};
	struct caller caller;
	bool is_first;

	if (!task || !sk)
		return 0;
	storage = storage_of(sk);
	if (!storage || !storage->serial)
		return 0;
	caller = caller_of(task);
	is_first = is_slot_of(&storage->owners[0], caller.start_boottime_ns, caller.tgid);
	if (storage->held.list == live.holder_lists)
		held = storage->held;
	held.list = live.holder_lists;
	if (is_listed(&held, is_first, caller.tgid)) {
		line.serial = storage->serial;
		line.held_by = held.by | (is_first ? TRAFFIC_HELD_BY_FIRST : TRAFFIC_HELD_BY_OTHERS);
		line.is_first = is_first;
		line.owner.start_boottime_ns = caller.start_boottime_ns;
		describe_owner(&line.owner, &caller);
		/* If the reader's buffer is full, the kernel calls the program again for this file. */
		if (write_holder(context->meta->seq, &line))
			return 0;
		held.last = caller.tgid;
	}
	held.by |= is_first ? TRAFFIC_HELD_BY_FIRST : TRAFFIC_HELD_BY_OTHERS;
	storage->held = held;
	return 0;
}

#endif
