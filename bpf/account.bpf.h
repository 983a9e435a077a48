/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The accounting: which bytes a call adds, and to which process.
 *
 * The counters are in socket storage, one slot per owning process, and only grow. A call that moved bytes costs one
 * storage look-up, one comparison and one atomic add; calls of a third and later process on a socket cost more
 * (sharing.bpf.h). The call takes no timestamp and writes no record. The daemon learns the volume from a sweep over the
 * storage (iterate.bpf.h). The storage goes away when the socket closes, so a closing socket leaves a record with its
 * final totals, or adds to the rows of its processes (closing.bpf.h).
 */
#ifndef ACCOUNT_BPF_H
#define ACCOUNT_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"
#include "rows.bpf.h"
#include "sharing.bpf.h"
#include "socket.bpf.h"

/* Whether the task is the walk over network namespaces, which locks sockets and makes no call on them. */
static __always_inline bool is_walker(const struct task_struct *task)
{
	return live.walker && READ(task, tgid) == live.walker;
}

/* The process that an owner slot stands for. */
struct caller {
	struct task_struct *leader; /* NULL: no process, but the kernel's own receive path */
	struct task_struct *task;
	u64 start_boottime_ns;
	u32 tgid;
};

/*
 * A start time of 0 marks a free slot. init may have started at 0, before the clock ran, so its start time becomes 1.
 */
static __always_inline struct caller caller_of(struct task_struct *task)
{
	struct task_struct *leader = READ(task, group_leader);

	return (struct caller){
		.leader = leader,
		.task = task,
		.start_boottime_ns = READ(leader, start_boottime) ?: 1,
		.tgid = READ(task, tgid),
	};
}

/* The owner that stands for the kernel. Its tgid is 0, that of the idle task, for which no process reads or writes. */
static __always_inline struct caller kernel_caller(void)
{
	return (struct caller){ .leader = NULL, .start_boottime_ns = 1 };
}

/*
 * Writes all of a slot except the start time and the counters. Only the program that took the slot calls this, once.
 * The last write is the process's number, or the flag in the kernel's own slot. Readers take the last write as the sign
 * that the slot is complete (hide_unfinished_owners() in records.bpf.h). That holds on processors that keep the order of
 * stores, as x86 does. On other processors a reader may see a number before a name.
 */
static __always_inline void describe_owner(struct traffic_owner *owner, const struct caller *caller)
{
	struct task_struct *leader = caller->leader, *task = caller->task;

	if (!leader) {
		__builtin_memcpy(owner->name, "kernel", sizeof("kernel"));
		barrier();
		owner->flags = TRAFFIC_OWNER_KERNEL_THREAD;
		return;
	}
	owner->uid = READ(task, cred, uid.val);
	owner->cgroup_id = READ(leader, cgroups, dfl_cgrp, kn, id);
	bpf_core_read(owner->name, sizeof(owner->name), &leader->comm);
	barrier();
	if (READ(leader, flags) & PF_KTHREAD)
		owner->flags = TRAFFIC_OWNER_KERNEL_THREAD;
	owner->tgid = caller->tgid;
}

/* `slot`: the number of the slot among all of the socket. */
#ifdef SOCKETS_IN_HASH
/*
 * There is no atomic exchange here. Only one program at a time can insert the element, so the element is a lock. A
 * program that cannot insert the element does not wait: it tries another slot.
 */
static __always_inline bool take_slot(struct traffic_socket *socket, struct traffic_owner *owner, u32 slot,
				      const struct caller *caller)
{
	u64 key = lock_key(socket->serial, slot);
	u8 taken = 1;
	bool is_free;

	if (bpf_map_update_elem(&locks, &key, &taken, BPF_NOEXIST))
		return false;
	is_free = !*(volatile u64 *)&owner->start_boottime_ns;
	if (is_free) {
		describe_owner(owner, caller);
		barrier();
		owner->start_boottime_ns = caller->start_boottime_ns;
	}
	bpf_map_delete_elem(&locks, &key);
	return is_free;
}
#else
static __always_inline bool take_slot(struct traffic_socket *socket, struct traffic_owner *owner, u32 slot,
				      const struct caller *caller)
{
	if (__sync_val_compare_and_swap(&owner->start_boottime_ns, 0, caller->start_boottime_ns))
		return false;
	describe_owner(owner, caller);
	return true;
}
#endif

/* Whether the process has the slot now, of itself or of another thread. */
static __always_inline bool has_slot(struct traffic_socket *socket, struct traffic_owner *owner, u32 slot,
				     const struct caller *caller)
{
	if (is_slot_of(owner, caller->start_boottime_ns, caller->tgid))
		return true;
	if (owner->start_boottime_ns)
		return false;
	return take_slot(socket, owner, slot, caller) || is_slot_of(owner, caller->start_boottime_ns, caller->tgid);
}

/*
 * Returns the slot of a process that does not own the first slot, if one of the inline slots is its own or free. A
 * program takes a slot by swapping the start time in, and another thread that comes meanwhile sees its own start time.
 * With SOCKETS_IN_HASH it sees only the lock, so one process may take two slots; the daemon adds the two up. A slot is
 * never freed: a reader must not see a counter fall.
 */
static __noinline struct traffic_owner *find_or_take_slot(struct traffic_socket *socket, struct task_struct *task,
							  u32 kernel)
{
	struct caller caller = kernel ? kernel_caller() : caller_of(task);
	struct traffic_owner *owner;

#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++) {
		owner = &socket->owners[i];
		if (has_slot(socket, owner, i, &caller))
			return owner;
	}
	return NULL;
}

/* So many times a process may find a slot free that another one is just taking. Then the call counts in a row. */
enum { FURTHER_TRIES = 4 };

/*
 * Returns the slot of a process for which find_or_take_slot() has none: one of the further owners. If another process
 * takes the slot that this one has found free, the search goes on behind it.
 */
static __noinline struct traffic_owner *find_or_take_further(struct traffic_socket *socket, struct sock *sk,
							     struct task_struct *task, u32 kernel)
{
	struct caller caller = kernel ? kernel_caller() : caller_of(task);
	struct traffic_further *further;
	struct traffic_owner *owner;
	u32 uid = socket->uid;
	u64 step = 0;

	barrier_var(uid); /* else clang reads one uid or the other in one place, which the verifier refuses */
	if (!kernel)
		uid = READ(task, cred, uid.val);
	if (is_shared(socket))
		further = further_of(sk);
	else
		further = begin_sharing(socket, sk, uid);
	if (!further)
		return NULL;
#pragma unroll
	for (int i = 0; i < FURTHER_TRIES; i++) {
		u64 slot;

		step = find_further_slot(refer(further), caller.start_boottime_ns, caller.tgid, step);
		if (step >= TRAFFIC_FURTHER_OWNERS)
			return NULL;
		slot = further_slot(caller.tgid, step);
		owner = &further->record.owners[slot];
		if (has_slot(socket, owner, TRAFFIC_INLINE_OWNERS + slot, &caller))
			return owner;
		step++;
	}
	return NULL;
}

static __always_inline struct traffic_owner *find_or_take_any_slot(struct traffic_socket *socket, struct sock *sk,
								   struct task_struct *task, u32 kernel)
{
	struct traffic_owner *owner = find_or_take_slot(socket, task, kernel);

	return owner ? owner : find_or_take_further(socket, sk, task, kernel);
}

/*
 * Adds the bytes of a call to the row of its process. This is for a socket without storage, and for a process that
 * found no room beside the socket's other owners.
 */
static __noinline int fold_call(struct task_struct *task, u32 kernel, u64 sent, u64 received)
{
	struct caller caller = kernel ? kernel_caller() : caller_of(task);
	struct traffic_owner owner = { .start_boottime_ns = caller.start_boottime_ns };
	struct amounts amounts = { .payload = { .sent_bytes = sent, .received_bytes = received } };

	describe_owner(&owner, &caller);
	fold(&owner, &amounts);
	COUNT_LOSS(calls_folded, 1);
	return 0;
}

/* `socket`: NULL where the socket could get no storage. */
static __always_inline void count_in_row(struct traffic_socket *socket, struct task_struct *task, u32 kernel, u64 sent, u64 received)
{
	if (socket && sent)
		__sync_fetch_and_add(&socket->in_rows.sent_bytes, sent);
	if (socket && received)
		__sync_fetch_and_add(&socket->in_rows.received_bytes, received);
	fold_call(task, kernel, sent, received);
}

static __always_inline struct traffic_owner *find_owner(struct traffic_socket *socket, struct sock *sk, struct task_struct *task)
{
	struct traffic_owner *first = &socket->owners[0];

	if (first->start_boottime_ns == READ(task, group_leader, start_boottime) && first->tgid == READ(task, tgid))
		return first;
	return find_or_take_any_slot(socket, sk, task, 0);
}

static __always_inline bool is_further(const struct traffic_socket *socket, const struct traffic_owner *owner)
{
	return owner != &socket->owners[0] && owner != &socket->owners[1];
}

static __always_inline void count_sent(struct sock *sk, u64 bytes)
{
	struct traffic_socket *socket = find_socket(sk);
	struct task_struct *task = current_task();
	struct traffic_owner *owner = socket ? find_owner(socket, sk, task) : NULL;

	if (!owner) {
		count_in_row(socket, task, 0, bytes, 0);
		return;
	}
	if (is_further(socket, owner))
		__sync_fetch_and_add(&socket->further.sent_bytes, bytes);
	__sync_fetch_and_add(&owner->sent_bytes, bytes);
}

static __always_inline void count_received(struct sock *sk, u64 bytes)
{
	struct traffic_socket *socket = find_socket(sk);
	struct task_struct *task = current_task();
	struct traffic_owner *owner = socket ? find_owner(socket, sk, task) : NULL;

	if (!owner) {
		count_in_row(socket, task, 0, 0, bytes);
		return;
	}
	if (is_further(socket, owner))
		__sync_fetch_and_add(&socket->further.received_bytes, bytes);
	__sync_fetch_and_add(&owner->received_bytes, bytes);
}

#endif
