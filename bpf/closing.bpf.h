/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a closing socket leaves.
 *
 *   closes ─┬─ nothing moved, no record so far ─► nothing
 *           ├─ room in the ring ────────────────► record
 *           ├─ else room in `deferred` ─────────► record at the next sweep
 *           └─ else ────────────────────────────► rows (rows.bpf.h), where there is always room;
 *                                                 if the daemon may list the socket: serial in `unrecorded_ends`
 *
 * Room: each user may fill a part of the ring until the daemon empties it, and a part of `deferred` until the daemon
 * acknowledges a sweep. A socket whose last record may be lost with the daemon (`!outlives_daemon()`) has more room in
 * `deferred`.
 *
 * Possibly no program runs at the end of a TCP socket, or no walk lists the socket between close(2) and that end
 * (`leaves_totals`). There a socket leaves its totals when its last file is gone: in the ring, or else as a copy in
 * the map `released`, and never in rows.
 */
#ifndef CLOSING_BPF_H
#define CLOSING_BPF_H

#include "account.bpf.h"
#include "compat.bpf.h"
#include "maps.bpf.h"
#include "records.bpf.h"
#include "rows.bpf.h"
#include "socket.bpf.h"

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

static __always_inline struct traffic_payload payload_since(u64 sent, u64 received,
							    const struct traffic_payload *before, bool has_record)
{
	return (struct traffic_payload){
		since(sent, has_record ? before->sent_bytes : 0),
		since(received, has_record ? before->received_bytes : 0),
	};
}

/* About `amount` times `part` / `whole`. The function first makes the numbers small enough to multiply. */
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

/*
 * Adds to the rows of a socket's processes the bytes that the socket moved since its last record. Returns 1, for the
 * counter of folded sockets.
 */
static __noinline int fold_socket(struct traffic_socket *socket)
{
	struct traffic_owner *first = &socket->owners[0], *second = &socket->owners[1], nobody = { .uid = socket->uid };
	u64 part = second->sent_bytes + second->received_bytes, whole = part + first->sent_bytes + first->received_bytes;
	const struct traffic_last_record *last = &socket->last_record;
	bool has_record = has_last_record(socket);
	struct traffic_payload wire = wire_of(socket);
	struct amounts amounts = {};
	int folded = 1;

	wire = payload_since(wire.sent_bytes, wire.received_bytes, &last->wire, has_record);
	if (second->start_boottime_ns) {
		amounts.payload =
			payload_since(second->sent_bytes, second->received_bytes, &last->owners[1], has_record);
		amounts.wire.sent_bytes = share(wire.sent_bytes, part, whole);
		amounts.wire.received_bytes = share(wire.received_bytes, part, whole);
		wire.sent_bytes -= amounts.wire.sent_bytes;
		wire.received_bytes -= amounts.wire.received_bytes;
		fold(second, &amounts);
	}
	amounts.payload = payload_since(first->sent_bytes, first->received_bytes, &last->owners[0], has_record);
	amounts.wire = wire;
	amounts.retransmitted_bytes = since(socket->retransmitted_bytes, has_record ? last->retransmitted_bytes : 0);
	amounts.sockets = 1;
	if (first->start_boottime_ns) {
		fold(first, &amounts);
	} else {
		/*
		 * No process has used this socket: the connection was never accepted. Its packets count for the kernel.
		 */
		struct caller kernel = kernel_caller();

		nobody.start_boottime_ns = kernel.start_boottime_ns;
		describe_owner(&nobody, &kernel);
		fold(&nobody, &amounts);
	}
	amounts = (struct amounts){
		.payload = payload_since(socket->unowned_sent_bytes, socket->unowned_received_bytes, &last->unowned,
					 has_record),
	};
	if (amounts.payload.sent_bytes || amounts.payload.received_bytes) {
		nobody.start_boottime_ns = 0;
		nobody.uid = socket->uid;
		fold(&nobody, &amounts);
	}
	/* else clang omits the result, and the verifier refuses the value that is left in the register */
	barrier_var(folded);
	return folded;
}

#ifndef SOCKETS_IN_HASH /* with SOCKETS_IN_HASH no socket leaves its totals early */
/*
 * The key of a socket's copy: no serial, so that one list has the keys of both maps. The final record of the socket has
 * all that the copy has, and its flag tells the daemon to pass over the copy. No program removes a copy: the daemon may
 * be reading it.
 */
static __always_inline u64 copy_key(u64 serial)
{
	return serial | 1ULL << 63;
}

/*
 * If there is no room, the socket leaves no copy. Call this between trylock_record() and unlock_record().
 *
 * A program has no room for a record on its stack, so the map takes the socket as it is. Its `stream_sent` is from the
 * last sweep, and the counters have grown since; the next sweep, or the end, sets it again.
 */
static __always_inline void leave_copy(struct traffic_socket *socket, struct traffic_payer *payer)
{
	u64 key = copy_key(socket->serial);
	struct traffic_socket *copy;

	if (!payer || payer->released >= DEFERRED_LIMIT / TRAFFIC_PARTS)
		return;
	socket->stream_sent = 0;
	socket->record++;
	if (bpf_map_update_elem(&released, &key, socket, BPF_ANY))
		return;
	__sync_fetch_and_add(&payer->released, 1);
	SET_BITS(socket->flags, TRAFFIC_SOCKET_LEFT_COPY);
	/*
	 * Packets may have changed the socket meanwhile, so the totals of this record are read from the copy, if the
	 * daemon has not removed it already.
	 */
	copy = bpf_map_lookup_elem(&released, &key);
	if (!copy || copy->serial != socket->serial)
		copy = socket;
	else
		hide_unfinished_owners(copy);
	note_last_record(socket, copy, live.acknowledged_sweep);
}

/*
 * The last file of a TCP socket is gone, so no call can add bytes. If there is no room, or if a walk is just writing a
 * record of this socket, its bytes come with the next sweep that lists it, or with its end. If neither comes, what it
 * moved since its last record is lost.
 */
static __always_inline void leave_totals(struct traffic_socket *socket)
{
	struct traffic_payer *payer;
	struct traffic_socket *record;

	if ((!has_last_record(socket) && moved_nothing(socket)) || !trylock_record(socket, socket->serial))
		return;
	payer = payer_of(socket);
	record = reserve_record(payer);
	if (record) {
		copy_record(record, socket);
		record->record = ++socket->record;
		note_last_record(socket, record, live.acknowledged_sweep);
		bpf_ringbuf_submit(record, ring_flags());
	} else {
		leave_copy(socket, payer);
	}
	unlock_record(socket, socket->serial);
}
#else
static __always_inline void leave_totals(struct traffic_socket *socket)
{
}
#endif

/*
 * Puts the socket in `deferred`; returns false if there is no room. With `must_have_record` only the room in the map
 * counts, not the payer's part.
 */
static __always_inline bool defer(struct traffic_socket *socket, struct traffic_payer *payer, bool is_recorded,
				  bool must_have_record)
{
	/*
	 * fold_socket() does not reach owners in the `owners` map, and subtracts what a sweep reported: bytes that are
	 * lost if the daemon is killed before it acknowledges that report. So a user's sockets of these kinds may fill
	 * half of the map.
	 */
	bool rows_may_lack_bytes = socket->flags & TRAFFIC_SOCKET_SHARED ||
				   (has_last_record(socket) && !outlives_daemon(&socket->last_record));
	bool was_listed = is_recorded && !(socket->flags & TRAFFIC_SOCKET_LEFT_COPY);
	u32 limit = DEFERRED_LIMIT /
		    (rows_may_lack_bytes ? 2 : was_listed ? TRAFFIC_PARTS : TRAFFIC_PARTS_FOR_UNRECORDED);
	u64 serial = socket->serial;

	if (!must_have_record && (!payer || payer->deferred >= limit))
		return false;
	if (bpf_map_update_elem(&deferred, &serial, socket, BPF_ANY))
		return false;
	if (payer)
		__sync_fetch_and_add(&payer->deferred, 1);
	COUNT_LOSS(closed_deferred, 1);
	return true;
}

/* Reports the final totals before the storage goes away. */
static __noinline int close_socket(struct traffic_socket *socket)
{
	struct traffic_socket *record;
	u64 serial = socket->serial;
	struct traffic_payer *payer;
	bool is_being_recorded, is_recorded;

	if (!serial || socket->closed_boottime_ns)
		return 0;
	socket->closed_boottime_ns = bpf_ktime_get_boot_ns();
	/*
	 * If another processor is writing a record of this socket, it is not known how many of its bytes that record
	 * will have, so no amount can be subtracted for a row. At most one socket per processor is in this state.
	 */
	is_being_recorded = is_record_locked(socket);
	is_recorded = is_being_recorded || has_last_record(socket);
	socket->record++;
	COUNT_LOSS(closed_sockets, 1);
	if (!is_recorded && moved_nothing(socket)) {
		COUNT_LOSS(closed_empty, 1);
		return 0;
	}
	payer = payer_of(socket);
	record = reserve_record(payer);
	if (record) {
		__builtin_memcpy(record, socket, sizeof(*record));
		bpf_ringbuf_submit(record, ring_flags());
		COUNT_LOSS(closed_submitted, 1);
		return 0;
	}
	if (defer(socket, payer, is_recorded, is_being_recorded))
		return 0;
	if (socket->flags & TRAFFIC_SOCKET_SHARED)
		COUNT_LOSS(shared_lost, 1);
	COUNT_LOSS(closed_folded, fold_socket(socket));
	if ((is_recorded || socket->flags & TRAFFIC_SOCKET_SHARED) &&
	    bpf_map_push_elem(&unrecorded_ends, &serial, BPF_ANY))
		COUNT_LOSS(unrecorded_ends_lost, 1);
	return 0;
}

#endif
