/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The accounting itself: what a call adds, and to whom.
 *
 * Counters live in socket storage, one slot per owning process, and only grow. The path of a call that moved bytes is
 * one storage look-up, one comparison and one atomic add; it takes no timestamp and writes no record. User space learns
 * of the volume by sweeping the storage (sweep.bpf.h) and of a closed socket by a ring-buffer record with its final
 * totals, because then the storage goes away.
 */
#ifndef ACCOUNT_BPF_H
#define ACCOUNT_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct traffic_socket);
} sockets SEC(".maps");

/* Owners of a socket beyond the slots in its storage. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct traffic_owner_key);
	__type(value, struct traffic_owner);
} owners SEC(".maps");

/* Final totals of closed sockets: struct traffic_socket. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} closed SEC(".maps");

/* Where a closed socket waits for the next sweep when the ring is full. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct traffic_socket);
} deferred SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct traffic_loss);
} loss SEC(".maps");

u64 last_serial = 0;

/* Set by user space when every socket older than the capture has its storage. */
volatile u32 baseline_done SEC(".data.baseline") = 0;

const volatile u64 ring_wakeup_bytes = 256 << 10;

static __always_inline struct traffic_loss *loss_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&loss, &zero);
}

#define COUNT_LOSS(field, amount)                                                                                      \
	do {                                                                                                           \
		struct traffic_loss *here = loss_here();                                                               \
		if (here)                                                                                              \
			__sync_fetch_and_add(&here->field, (amount));                                                  \
	} while (0)

static __always_inline bool is_internet(const struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;

	return family == AF_INET || family == AF_INET6;
}

/*
 * The addresses as the socket has them now. An unconnected UDP socket has no remote address; an IPv4 address is stored
 * v4-mapped whichever family the socket has, so that a v4 client of a server on :: is the same address on both ends.
 */
static __always_inline void read_addresses(struct traffic_socket *socket, const struct sock *sk)
{
	const struct sock_common *common = &sk->__sk_common;

	socket->family = common->skc_family;
	socket->state = common->skc_state;
	socket->local_port = common->skc_num;
	socket->remote_port = bpf_ntohs(common->skc_dport);
	if (common->skc_family == AF_INET6) {
		u32 *local = (u32 *)socket->local_address, *remote = (u32 *)socket->remote_address;

		local[0] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[0];
		local[1] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[1];
		local[2] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[2];
		local[3] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[3];
		remote[0] = common->skc_v6_daddr.in6_u.u6_addr32[0];
		remote[1] = common->skc_v6_daddr.in6_u.u6_addr32[1];
		remote[2] = common->skc_v6_daddr.in6_u.u6_addr32[2];
		remote[3] = common->skc_v6_daddr.in6_u.u6_addr32[3];
	} else {
		*(u32 *)&socket->local_address[8] = bpf_htonl(0xffff);
		*(u32 *)&socket->local_address[12] = common->skc_rcv_saddr;
		*(u32 *)&socket->remote_address[8] = bpf_htonl(0xffff);
		*(u32 *)&socket->remote_address[12] = common->skc_daddr;
	}
}

static __always_inline void read_tcp_counters(struct traffic_socket *socket, const struct tcp_sock *tcp)
{
	socket->retransmitted_bytes = tcp->bytes_retrans;
	socket->retransmitted_segments = tcp->total_retrans;
	socket->segments_sent = tcp->segs_out;
	socket->segments_received = tcp->segs_in;
	socket->smoothed_rtt_us = tcp->srtt_us >> 3;
}

/*
 * Storage for a socket seen for the first time. Two processors may do this at once for one socket: both write the same
 * values, one of them gives the number, and the counters start at the zero that the storage came with.
 */
static __noinline struct traffic_socket *open_socket(struct sock *sk)
{
	struct traffic_socket *socket = bpf_sk_storage_get(&sockets, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	/* Who comes second while the storage is being made gets nothing (EEXIST), and then finds it. */
	if (!socket)
		socket = bpf_sk_storage_get(&sockets, sk, NULL, 0);
	if (!socket || socket->serial)
		return socket;
	socket->protocol = sk->sk_protocol;
	socket->type = sk->sk_type;
	socket->network_namespace = sk->__sk_common.skc_net.net->ns.inum;
	read_addresses(socket, sk);
	if (baseline_done)
		socket->opened_boottime_ns = bpf_ktime_get_boot_ns();
	else
		socket->flags |= TRAFFIC_SOCKET_PREEXISTING;
	socket->cookie = bpf_get_socket_cookie(sk);
	__sync_val_compare_and_swap(&socket->serial, 0, __sync_fetch_and_add(&last_serial, 1) + 1);
	return socket;
}

static __always_inline struct traffic_socket *find_socket(struct sock *sk)
{
	struct traffic_socket *socket = bpf_sk_storage_get(&sockets, sk, NULL, 0);

	return socket ? socket : open_socket(sk);
}

/* The process that an owner slot stands for. */
struct caller {
	struct task_struct *leader; /* NULL: no process, the kernel's own receive path */
	struct task_struct *task;
	u64 start_boottime_ns;
	u32 tgid;
};

/* init may have started at 0, before the clock ran; 0 marks a free slot. */
static __always_inline struct caller caller_of(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	return (struct caller){
		.leader = leader,
		.task = task,
		.start_boottime_ns = leader->start_boottime ?: 1,
		.tgid = task->tgid,
	};
}

/* tgid 0 is the idle task: no process reads or writes on its behalf, so it stands for the kernel itself. */
static __always_inline struct caller kernel_caller(void)
{
	return (struct caller){ .leader = NULL, .start_boottime_ns = 1 };
}

/* Everything but the key and the counters. Written once, by whoever claimed the slot. */
static __always_inline void describe_owner(struct traffic_owner *owner, const struct caller *caller)
{
	struct task_struct *leader = caller->leader;

	owner->tgid = caller->tgid;
	if (!leader) {
		owner->flags = TRAFFIC_OWNER_KERNEL_THREAD;
		__builtin_memcpy(owner->name, "kernel", sizeof("kernel"));
		return;
	}
	owner->uid = caller->task->cred->uid.val;
	owner->cgroup_id = leader->cgroups->dfl_cgrp->kn->id;
	if (leader->flags & PF_KTHREAD)
		owner->flags = TRAFFIC_OWNER_KERNEL_THREAD;
	bpf_core_read(owner->name, sizeof(owner->name), &leader->comm);
}

/*
 * The slot of a process that is not in the first one. A slot is claimed by swapping its start time in; two threads of one
 * process that meet here may claim two slots, which user space adds up. Slots are never given back: a reader must not
 * see a counter fall.
 */
static __noinline struct traffic_owner *claim_owner(struct traffic_socket *socket, struct task_struct *task, u32 kernel)
{
	struct caller caller = kernel ? kernel_caller() : caller_of(task);
	struct traffic_owner_key key = {};
	struct traffic_owner fresh = {}, *owner;

#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++) {
		owner = &socket->owners[i];
		if (owner->start_boottime_ns == caller.start_boottime_ns && owner->tgid == caller.tgid)
			return owner;
		if (!owner->start_boottime_ns &&
		    !__sync_val_compare_and_swap(&owner->start_boottime_ns, 0, caller.start_boottime_ns)) {
			describe_owner(owner, &caller);
			return owner;
		}
	}
	key.serial = socket->serial;
	key.start_boottime_ns = caller.start_boottime_ns;
	key.tgid = caller.tgid;
	owner = bpf_map_lookup_elem(&owners, &key);
	if (owner)
		return owner;
	socket->flags |= TRAFFIC_SOCKET_SHARED;
	fresh.start_boottime_ns = caller.start_boottime_ns;
	describe_owner(&fresh, &caller);
	bpf_map_update_elem(&owners, &key, &fresh, BPF_NOEXIST);
	owner = bpf_map_lookup_elem(&owners, &key);
	if (!owner)
		COUNT_LOSS(owners_lost, 1);
	return owner;
}

static __always_inline struct traffic_owner *find_owner(struct traffic_socket *socket, struct task_struct *task)
{
	struct traffic_owner *first = &socket->owners[0];

	if (first->start_boottime_ns == task->group_leader->start_boottime && first->tgid == task->tgid)
		return first;
	return claim_owner(socket, task, 0);
}

static __always_inline void count_sent(struct sock *sk, u64 bytes)
{
	struct traffic_socket *socket = find_socket(sk);
	struct traffic_owner *owner;

	if (!socket) {
		COUNT_LOSS(sockets_lost, 1);
		COUNT_LOSS(lost_sent_bytes, bytes);
		return;
	}
	owner = find_owner(socket, bpf_get_current_task_btf());
	__sync_fetch_and_add(owner ? &owner->sent_bytes : &socket->unowned_sent_bytes, bytes);
}

static __always_inline void count_received(struct sock *sk, u64 bytes)
{
	struct traffic_socket *socket = find_socket(sk);
	struct traffic_owner *owner;

	if (!socket) {
		COUNT_LOSS(sockets_lost, 1);
		COUNT_LOSS(lost_received_bytes, bytes);
		return;
	}
	owner = find_owner(socket, bpf_get_current_task_btf());
	__sync_fetch_and_add(owner ? &owner->received_bytes : &socket->unowned_received_bytes, bytes);
}

/*
 * TCP receive, by sequence number: copied_seq is how far the stream has been handed over, whichever call did it (recv,
 * splice, TCP_ZEROCOPY_RECEIVE), and MSG_PEEK leaves it alone. Its growth since the last look is what was received.
 *
 * A socket with an upper-layer protocol (kTLS, an MPTCP subflow, SMC) hands its stream to that protocol and not to the
 * process: there the return value of the receive call counts, and this one must not.
 */
static __always_inline bool received_by_sequence(const struct tcp_sock *tcp)
{
	return !tcp->inet_conn.icsk_ulp_ops;
}

/* enum sock_flags: SOCK_DONE is set by tcp_fin() when the peer's FIN is in sequence. */
enum { SOCK_DONE = 1, SOCK_URGINLINE = 2 };
#define RECEIVE_MARK_KNOWN (1ULL << 32)

/* A FIN takes one number of the sequence space and is not payload. It is the last one: consumed when nothing is unread. */
static __always_inline u32 delivered_sequence(const struct sock *sk, const struct tcp_sock *tcp)
{
	u32 sequence = tcp->copied_seq;

	if (sk->__sk_common.skc_flags & (1UL << SOCK_DONE) && sequence == tcp->rcv_nxt)
		sequence--;
	return sequence;
}

/*
 * Bytes that went from `mark` to `sequence`. An urgent byte (RFC 9293 section 3.8.5) in between was passed over and not
 * handed out: recv(MSG_OOB) does that, and counts there.
 */
static __always_inline u32 delivered_since(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp,
					   u32 mark, u32 sequence)
{
	u32 grown = sequence - mark, urgent = tcp->urg_seq;

	if (urgent != socket->urgent_mark && urgent - mark < grown) {
		socket->urgent_mark = urgent;
		if (!(sk->__sk_common.skc_flags & (1UL << SOCK_URGINLINE)))
			grown--;
	}
	return grown;
}

/*
 * Marks where counting starts. Without the socket lock (the baseline sweep) the hook may get there first: its mark is
 * then the newer one and stays.
 */
static __always_inline void start_receive(struct traffic_socket *socket, u32 sequence)
{
	__sync_val_compare_and_swap(&socket->receive_mark, 0, RECEIVE_MARK_KNOWN | sequence);
}

/* Runs under the socket lock, and nothing else counts receives of such a socket: no atomics here. */
static __always_inline void count_sequence(struct sock *sk, const struct tcp_sock *tcp)
{
	struct traffic_socket *socket = find_socket(sk);
	u32 sequence = delivered_sequence(sk, tcp);
	struct traffic_owner *owner;
	struct task_struct *task;
	u32 grown;

	/* Without storage nothing is known of earlier reads either. If it comes later, it starts at the first byte. */
	if (!socket) {
		COUNT_LOSS(sockets_lost, 1);
		return;
	}
	/*
	 * First seen here: before the baseline is done, counting starts now. After it, the socket waited unaccepted in
	 * a listener's queue and nothing of it had been read: start at its first byte.
	 */
	if (!socket->receive_mark)
		start_receive(socket, baseline_done ? tcp->rcv_nxt - (u32)tcp->bytes_received : sequence);
	if (sequence == (u32)socket->receive_mark)
		return;
	grown = delivered_since(socket, sk, tcp, socket->receive_mark, sequence);
	socket->receive_mark = RECEIVE_MARK_KNOWN | sequence;
	task = bpf_get_current_task_btf();
	/* Nobody holds the socket: the softirq reads it for a kernel consumer, and `current` is whom it interrupted. */
	owner = sk->sk_lock.owned ? find_owner(socket, task) : claim_owner(socket, task, 1);
	if (owner)
		owner->received_bytes += grown;
	else
		socket->unowned_received_bytes += grown;
}

/* The final totals, before the storage goes away. */
static __always_inline void close_socket(struct traffic_socket *socket)
{
	struct traffic_socket *record;
	u64 serial = socket->serial, flags;

	if (!serial || socket->closed_boottime_ns)
		return;
	socket->closed_boottime_ns = bpf_ktime_get_boot_ns();
	COUNT_LOSS(closed_sockets, 1);
	record = bpf_ringbuf_reserve(&closed, sizeof(*record), 0);
	if (record) {
		__builtin_memcpy(record, socket, sizeof(*record));
		flags = bpf_ringbuf_query(&closed, BPF_RB_AVAIL_DATA) >= ring_wakeup_bytes ? BPF_RB_FORCE_WAKEUP :
											     BPF_RB_NO_WAKEUP;
		bpf_ringbuf_submit(record, flags);
		COUNT_LOSS(closed_submitted, 1);
		return;
	}
	if (!bpf_map_update_elem(&deferred, &serial, socket, BPF_ANY)) {
		COUNT_LOSS(closed_deferred, 1);
		return;
	}
	COUNT_LOSS(closed_lost, 1);
#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++) {
		COUNT_LOSS(lost_sent_bytes, socket->owners[i].sent_bytes);
		COUNT_LOSS(lost_received_bytes, socket->owners[i].received_bytes);
	}
}

#endif
