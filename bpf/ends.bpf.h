/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space is told of a socket, and the socket's end.
 *
 * A closing socket leaves a record in the ring, of which each user may fill a part between two drains. Where that part is full the record
 * goes to the map `deferred`, of which each user may fill a part between two sweeps. Beyond that the programs add what the socket moved to
 * its processes' rows (rows.bpf.h), where there is always room. A socket that moved nothing and that user space has not seen leaves nothing.
 *
 * What user space has seen of a socket must not be added to a row, so each record that is written is noted in the socket (`seen`).
 * A socket may close on one processor while another one writes a record of it. The writer sets `teller` and looks whether the socket
 * is closed; the end sets `closed_boottime_ns` and looks for a teller. One of them sees the other: then the writer gives up, or the
 * end does not rely on `seen`. report_now() need not look: it runs only in a call on the socket, or before TCP ends it.
 */
#ifndef ENDS_BPF_H
#define ENDS_BPF_H

/*
 * A user may fill one part of the ring, and one of `deferred`. For sockets that user space has not seen, the parts of `deferred` are
 * smaller: with 65,536 elements about as many as the daemon lists for a user.
 */
enum { PARTS = 4, PARTS_FOR_UNSEEN = 32, USERS_TOLD_APART = 1024 };

/* How much of its part a user has filled. Users whose ids are equal modulo USERS_TOLD_APART have one part together. */
struct user_part {
	u32 drains; /* since when, as in struct traffic_told */
	u32 ring_bytes;
	u32 sweeps;
	u32 deferred;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, USERS_TOLD_APART);
	__type(key, u32);
	__type(value, struct user_part);
} user_parts SEC(".maps");

/* The daemon sleeps until the next sweep, unless the records in the ring take half of one user's part. */
static __always_inline u64 ring_flags(void)
{
	u64 half = bpf_ringbuf_query(&closed, BPF_RB_RING_SIZE) / (2 * PARTS);

	return bpf_ringbuf_query(&closed, BPF_RB_AVAIL_DATA) >= half ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline struct user_part *part_of(const struct traffic_socket *socket)
{
	const struct traffic_owner *first = &socket->owners[0];
	u32 slot = (first->start_boottime_ns ? first->uid : socket->uid) & (USERS_TOLD_APART - 1);
	struct user_part *part = bpf_map_lookup_elem(&user_parts, &slot);

	if (part && part->drains != told.drains) {
		part->drains = told.drains;
		part->ring_bytes = 0;
	}
	if (part && part->sweeps != told.sweeps) {
		part->sweeps = told.sweeps;
		part->deferred = 0;
	}
	return part;
}

/* NULL: the ring is full, or the user's part of it is. */
static __always_inline struct traffic_socket *reserve_record(struct user_part *part)
{
	struct traffic_socket *record;

	if (!part || part->ring_bytes >= bpf_ringbuf_query(&closed, BPF_RB_RING_SIZE) / PARTS)
		return NULL;
	record = bpf_ringbuf_reserve(&closed, sizeof(*record), 0);
	if (record)
		__sync_fetch_and_add(&part->ring_bytes, sizeof(*record));
	return record;
}

/* Telling user space ---------------------------------------------------------------------------------------------- */

#ifdef SOCKETS_IN_HASH
/*
 * Before Linux 5.12 no atomic operation has a result: an addition that nobody reads is the barrier. Only the sweep tells here. The
 * element may become another socket's meanwhile, hence the serials.
 */
static __always_inline bool begin_telling(struct traffic_socket *socket, u64 serial)
{
	socket->teller = serial;
	__sync_fetch_and_add(&socket->fences, 1);
	return true;
}

static __always_inline void end_telling(struct traffic_socket *socket)
{
	barrier();
	socket->teller = 0;
}

static __always_inline bool is_being_told(struct traffic_socket *socket)
{
	__sync_fetch_and_add(&socket->fences, 1);
	return *(volatile u64 *)&socket->teller == socket->serial;
}
#else
/* False: another processor is at it. */
static __always_inline bool begin_telling(struct traffic_socket *socket, u64 serial)
{
	return !__sync_val_compare_and_swap(&socket->teller, 0, serial);
}

static __always_inline void end_telling(struct traffic_socket *socket)
{
	__sync_fetch_and_and(&socket->teller, 0);
}

static __always_inline bool is_being_told(struct traffic_socket *socket)
{
	return __sync_fetch_and_or(&socket->teller, 0);
}
#endif

static __always_inline bool was_seen(const struct traffic_socket *socket)
{
	return socket->seen.serial == socket->serial;
}

/* IP packets, both ways; of TCP, where packets are not seen, by its own counters and usual headers. */
static __always_inline struct traffic_payload wire_of(const struct traffic_socket *socket)
{
	u32 headers = TRAFFIC_TCP_HEADER + TRAFFIC_TIMESTAMPS_OPTION +
		      (*(u32 *)&socket->remote_address[8] == bpf_htonl(0xffff) ? TRAFFIC_IPV4_HEADER : TRAFFIC_IPV6_HEADER);

	if (!told.estimates_wire)
		return (struct traffic_payload){ wire_sum(&socket->wire_sent), wire_sum(&socket->wire_received) };
	return (struct traffic_payload){
		socket->tcp_sent_bytes + (u64)socket->segments_sent * headers,
		socket->tcp_received_bytes + (u64)socket->segments_received * headers,
	};
}

/*
 * A slot may have been claimed and not yet described when the record was copied. Its bytes come with the next record: user space would
 * skip them in this one, and note_seen() would mark them as seen.
 */
static __always_inline void hide_unfinished_owners(struct traffic_socket *record)
{
#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++) {
		struct traffic_owner *owner = &record->owners[i];

		/* The kernel's own slot has no number, and starts at 1. A thread of the kernel gets its flag before its number. */
		if (owner->start_boottime_ns &&
		    (owner->tgid || (owner->start_boottime_ns == 1 && owner->flags & TRAFFIC_OWNER_KERNEL_THREAD)))
			continue;
		owner->start_boottime_ns = 0;
		owner->sent_bytes = owner->received_bytes = 0;
	}
}

/* Between begin_telling() and end_telling(). */
static __always_inline void note_seen(struct traffic_socket *socket, const struct traffic_socket *record)
{
	struct traffic_seen *seen = &socket->seen;

	seen->serial = 0;
	barrier();
#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++) {
		seen->owners[i].sent_bytes = record->owners[i].sent_bytes;
		seen->owners[i].received_bytes = record->owners[i].received_bytes;
	}
	seen->unowned.sent_bytes = record->unowned_sent_bytes;
	seen->unowned.received_bytes = record->unowned_received_bytes;
	seen->wire = wire_of(record);
	seen->retransmitted_bytes = record->retransmitted_bytes;
	barrier();
	seen->serial = record->serial;
}

#ifndef SOCKETS_IN_HASH /* there a probe sees the end */
/* NULL: the ring has no room, or another processor is writing a record of this socket. */
static __always_inline struct traffic_socket *begin_record(struct traffic_socket *socket)
{
	struct traffic_socket *record;

	if (!socket || !begin_telling(socket, socket->serial))
		return NULL;
	record = reserve_record(part_of(socket));
	if (!record)
		end_telling(socket);
	return record;
}

static __always_inline void end_record(struct traffic_socket *socket, struct traffic_socket *record)
{
	__builtin_memcpy(record, socket, sizeof(*record));
	record->stream_sent = 0; /* of the last sweep: the counters went on */
	hide_unfinished_owners(record);
	note_seen(socket, record);
	bpf_ringbuf_submit(record, ring_flags());
	end_telling(socket);
}
#endif

/*
 * Writes a record of an open socket now, because perhaps no program sees that socket end. Where the ring has no room the next sweep
 * tells.
 */
static __always_inline void report_now(struct traffic_socket *socket)
{
#ifndef SOCKETS_IN_HASH
	struct traffic_socket *record = begin_record(socket);

	if (record)
		end_record(socket, record);
#endif
}

/*
 * A frame of an AF_PACKET socket. No program sees such a socket end, so each frame's bytes are told at once. Where that can't be they go to
 * the process's row.
 */
static __always_inline void count_frame(struct sock *sk, u64 sent, u64 received)
{
#ifndef SOCKETS_IN_HASH
	struct traffic_socket *socket = find_socket(sk), *record = begin_record(socket);

	if (!record) {
		count_in_row(socket, current_task(), 0, sent, received);
		return;
	}
#endif
	if (sent)
		count_sent(sk, sent);
	if (received)
		count_received(sk, received);
#ifndef SOCKETS_IN_HASH
	end_record(socket, record);
#endif
}

/* The end ---------------------------------------------------------------------------------------------------------- */

static __always_inline bool moved_nothing(const struct traffic_socket *socket)
{
	u64 sum = socket->unowned_sent_bytes + socket->unowned_received_bytes + socket->in_rows.sent_bytes +
		  socket->in_rows.received_bytes + socket->overflow_sent_bytes + socket->segments_sent + socket->segments_received +
		  wire_sum(&socket->wire_sent) + wire_sum(&socket->wire_received);

#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++)
		sum += socket->owners[i].sent_bytes + socket->owners[i].received_bytes;
	return !sum;
}

static __always_inline u64 since(u64 now, u64 before)
{
	return now > before ? now - before : 0;
}

static __always_inline struct traffic_payload payload_since(u64 sent, u64 received, const struct traffic_payload *seen, bool is_seen)
{
	return (struct traffic_payload){
		since(sent, is_seen ? seen->sent_bytes : 0),
		since(received, is_seen ? seen->received_bytes : 0),
	};
}

/* `amount` times `part` / `whole`, about: the numbers are made small enough to multiply. */
static __always_inline u64 share(u64 amount, u64 part, u64 whole)
{
	if (whole >> 32) {
		part >>= 32;
		whole >>= 32;
	}
	if (!whole)
		return 0;
	return amount / whole * part + amount % whole * part / whole;
}

/* Adds what a socket moved, beyond what user space has seen of it, to the rows of its processes. Returns 1, to be counted. */
static __noinline int fold_socket(struct traffic_socket *socket)
{
	struct traffic_owner *first = &socket->owners[0], *second = &socket->owners[1], nobody = { .uid = socket->uid };
	u64 part = second->sent_bytes + second->received_bytes, whole = part + first->sent_bytes + first->received_bytes;
	const struct traffic_seen *seen = &socket->seen;
	bool is_seen = was_seen(socket);
	struct traffic_payload wire = wire_of(socket);
	struct amounts amounts = {};
	int folded = 1;

	wire = payload_since(wire.sent_bytes, wire.received_bytes, &seen->wire, is_seen);
	if (second->start_boottime_ns) {
		amounts.payload = payload_since(second->sent_bytes, second->received_bytes, &seen->owners[1], is_seen);
		amounts.wire.sent_bytes = share(wire.sent_bytes, part, whole);
		amounts.wire.received_bytes = share(wire.received_bytes, part, whole);
		wire.sent_bytes -= amounts.wire.sent_bytes;
		wire.received_bytes -= amounts.wire.received_bytes;
		fold(second, &amounts);
	}
	amounts.payload = payload_since(first->sent_bytes, first->received_bytes, &seen->owners[0], is_seen);
	amounts.wire = wire;
	amounts.retransmitted_bytes = since(socket->retransmitted_bytes, is_seen ? seen->retransmitted_bytes : 0);
	amounts.sockets = 1;
	if (first->start_boottime_ns) {
		fold(first, &amounts);
	} else {
		/* Nobody has used it: a connection that was never accepted. Its packets are the kernel's. */
		struct caller kernel = kernel_caller();

		nobody.start_boottime_ns = kernel.start_boottime_ns;
		describe_owner(&nobody, &kernel);
		fold(&nobody, &amounts);
	}
	amounts = (struct amounts){
		.payload = payload_since(socket->unowned_sent_bytes, socket->unowned_received_bytes, &seen->unowned, is_seen),
	};
	if (amounts.payload.sent_bytes || amounts.payload.received_bytes) {
		nobody.start_boottime_ns = 0;
		nobody.uid = socket->uid;
		fold(&nobody, &amounts);
	}
	barrier_var(folded); /* else clang leaves the result out, and the verifier refuses what stands in its register */
	return folded;
}

/* `ignores_limit`: where the map has room, however much of it the user has filled. */
static __always_inline bool defer(struct traffic_socket *socket, struct user_part *part, bool is_told, bool ignores_limit)
{
	/* fold_socket() does not reach a socket's owners in the `owners` map: half of all, so that their sockets have room. */
	u32 limit = DEFERRED_LIMIT / (socket->flags & TRAFFIC_SOCKET_SHARED ? 2 : is_told ? PARTS : PARTS_FOR_UNSEEN);
	u64 serial = socket->serial;

	if (!ignores_limit && (!part || part->deferred >= limit))
		return false;
	if (bpf_map_update_elem(&deferred, &serial, socket, BPF_ANY))
		return false;
	if (part)
		__sync_fetch_and_add(&part->deferred, 1);
	COUNT_LOSS(closed_deferred, 1);
	return true;
}

/* The final totals, before the storage goes away. */
static __noinline int close_socket(struct traffic_socket *socket)
{
	struct traffic_socket *record;
	u64 serial = socket->serial;
	struct user_part *part;
	bool is_told_now, is_told, ignores_limit;

	if (!serial || socket->closed_boottime_ns)
		return 0;
	socket->closed_boottime_ns = bpf_ktime_get_boot_ns();
	is_told_now = is_being_told(socket);
	is_told = is_told_now || was_seen(socket);
	/*
	 * A socket that a record is being written of: what user space sees of it is not known, so it can't be subtracted from a row; there is one
	 * such socket to a processor at most.
	 */
	ignores_limit = is_told_now;
	COUNT_LOSS(closed_sockets, 1);
	if (!is_told && moved_nothing(socket)) {
		COUNT_LOSS(closed_empty, 1);
		return 0;
	}
	part = part_of(socket);
	record = reserve_record(part);
	if (record) {
		__builtin_memcpy(record, socket, sizeof(*record));
		bpf_ringbuf_submit(record, ring_flags());
		COUNT_LOSS(closed_submitted, 1);
		return 0;
	}
	if (defer(socket, part, is_told, ignores_limit))
		return 0;
	if (socket->flags & TRAFFIC_SOCKET_SHARED)
		COUNT_LOSS(shared_lost, 1);
	COUNT_LOSS(closed_folded, fold_socket(socket));
	if ((is_told || socket->flags & TRAFFIC_SOCKET_SHARED) && bpf_map_push_elem(&gone, &serial, BPF_ANY))
		COUNT_LOSS(gone_lost, 1);
	return 0;
}

#endif
