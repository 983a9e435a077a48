/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a closing socket leaves.
 *
 *   closes ─┬─ nothing moved, no record so far ─► nothing
 *           ├─ room in the ring ────────────────► record
 *           ├─ else room in `deferred` ─────────► record, which the next sweep reads
 *           └─ else ────────────────────────────► rows (rows.bpf.h), where there is always room;
 *                                                 if the daemon may list the socket: serial in `unrecorded_ends`
 *
 * Room: each user may fill a part of the ring until the daemon empties it, and a part of `deferred` until the daemon
 * acknowledges a sweep. A socket whose last record may be lost with the daemon (`!outlives_daemon()`) has more room in
 * `deferred`.
 *
 * Possibly no program runs at the end of a TCP socket, or no walk lists the socket between close(2) and that end
 * (`leaves_totals`). There a socket leaves its totals when its last file is gone: in the ring, or else as a copy in
 * `deferred`, and never in rows.
 *
 * A socket with further owners leaves a larger record with all of them: in `deferred_shared` in place of `deferred`.
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
		  socket->in_rows.received_bytes + socket->further.sent_bytes + socket->further.received_bytes +
		  socket->segments_sent + socket->segments_received + wire_sum(&socket->wire_sent) +
		  wire_sum(&socket->wire_received);

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
	u64 part = second->sent_bytes + second->received_bytes;
	u64 unlisted = socket->in_rows.sent_bytes + socket->in_rows.received_bytes;
	u64 whole = part + unlisted + first->sent_bytes + first->received_bytes;
	const struct traffic_last_record *last = &socket->last_record;
	bool has_record = has_last_record(socket);
	struct traffic_payload wire = wire_of(socket);
	struct amounts amounts = {};
	int folded = 1;

	wire = payload_since(wire.sent_bytes, wire.received_bytes, &last->wire, has_record);
	/* Packets of processes that have no slot count for no process: the other processes have not moved them. */
	amounts.wire.sent_bytes = share(wire.sent_bytes, unlisted, whole);
	amounts.wire.received_bytes = share(wire.received_bytes, unlisted, whole);
	amounts.payload = payload_since(socket->unowned_sent_bytes, socket->unowned_received_bytes, &last->unowned, has_record);
	whole -= unlisted;
	wire.sent_bytes -= amounts.wire.sent_bytes;
	wire.received_bytes -= amounts.wire.received_bytes;
	if (amounts.payload.sent_bytes || amounts.payload.received_bytes || amounts.wire.sent_bytes ||
	    amounts.wire.received_bytes)
		fold(&nobody, &amounts);
	amounts = (struct amounts){};
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
	/* else clang omits the result, and the verifier refuses the value that is left in the register */
	barrier_var(folded);
	return folded;
}

/*
 * Adds to the row of a further owner what it moved since the last record, and notes in the record's copy of the socket
 * that its part of the wire bytes has been given away. A function of its own, because the verifier would look at the
 * work for a row again in each turn of the loop below.
 *
 * wire_sent, wire_received: of the socket since its last record
 * whole: what all processes have moved over the socket
 */
__noinline u64 fold_further_owner(further_reference reference, u64 slot, u64 wire_sent, u64 wire_received, u64 whole)
{
	struct traffic_further *further = further_referred(reference);
	const struct traffic_payload *last;
	struct traffic_socket *socket;
	struct traffic_owner *owner;
	struct amounts amounts = {};
	u64 part;

	if (!further || slot >= TRAFFIC_FURTHER_OWNERS)
		return 0;
	socket = &further->record.socket;
	owner = &further->record.owners[slot];
	last = &further->last_record.owners[slot];
	part = owner->sent_bytes + owner->received_bytes;
	/* The last record may be from before the socket had further owners. */
	amounts.payload = payload_since(owner->sent_bytes, owner->received_bytes, last,
					has_last_record(socket) && further->last_record.serial == socket->serial);
	amounts.wire.sent_bytes = share(wire_sent, part, whole);
	amounts.wire.received_bytes = share(wire_received, part, whole);
	/* A row that gets nothing would only take the room of another process. A free slot has moved nothing. */
	if (amounts.payload.sent_bytes || amounts.payload.received_bytes || amounts.wire.sent_bytes ||
	    amounts.wire.received_bytes)
		fold(owner, &amounts);
	socket->last_record.wire.sent_bytes += amounts.wire.sent_bytes;
	socket->last_record.wire.received_bytes += amounts.wire.received_bytes;
	return 0;
}

/* Adds to the rows of the further owners what they moved since the last record: fold_socket() of the copy does the rest. */
__noinline u64 fold_further(further_reference reference)
{
	struct traffic_further *further = further_referred(reference);
	struct traffic_payload wire;
	struct traffic_socket *socket;
	u64 whole;

	if (!further)
		return 0;
	socket = &further->record.socket;
	if (!has_last_record(socket)) {
		socket->last_record = (struct traffic_last_record){ .serial = socket->serial };
		further->last_record.serial = 0;
	}
	wire = wire_of(socket);
	wire = payload_since(wire.sent_bytes, wire.received_bytes, &socket->last_record.wire, true);
	whole = socket->further.sent_bytes + socket->further.received_bytes + socket->in_rows.sent_bytes +
		socket->in_rows.received_bytes + socket->owners[0].sent_bytes + socket->owners[0].received_bytes +
		socket->owners[1].sent_bytes + socket->owners[1].received_bytes;
#pragma clang loop unroll(disable)
	for (u64 i = 0; i < TRAFFIC_FURTHER_OWNERS; i++) {
		fold_further_owner(reference, i, wire.sent_bytes, wire.received_bytes, whole);
		barrier_var(i);
	}
	return 0;
}

/* No serial has this bit, nor TRAFFIC_KEY_COPY. */
static __always_inline u64 record_key(u64 serial, const struct traffic_further *further)
{
	return further ? serial | (u64)TRAFFIC_KEY_SHARED << 32 : serial;
}

static __always_inline u32 places_of(const struct traffic_further *further)
{
	return further ? TRAFFIC_PLACES_OF_SHARED : 1;
}

/*
 * Puts the socket in `deferred`, or its record in `deferred_shared`; returns false if there is no room. `limit`: how many
 * places of the maps the payer may fill; 0: all.
 */
static __always_inline bool put_in_deferred(u64 key, const struct traffic_socket *socket, const struct traffic_further *further,
				      struct traffic_payer *payer, u32 limit)
{
	u32 places = places_of(further);

	if (limit && (!payer || payer->deferred + places > limit))
		return false;
	if (further ? bpf_map_update_elem(&deferred_shared, &key, &further->record, BPF_ANY) :
		      bpf_map_update_elem(&deferred, &key, socket, BPF_ANY))
		return false;
	if (payer)
		__sync_fetch_and_add(&payer->deferred, places);
	return true;
}

/*
 * How many places of `deferred` a payer may fill before such a socket is refused. If its last record may be lost with the
 * daemon, a socket needs another one: fold_socket() subtracts what that one reported.
 */
static __always_inline u32 places_for(const struct traffic_socket *socket, bool is_listed)
{
	u32 part = fixed.deferred_limit / TRAFFIC_PARTS;

	if (has_last_record(socket) && !outlives_daemon(&socket->last_record))
		return part;
	return is_listed ? part / 2 : fixed.deferred_limit / TRAFFIC_PARTS_FOR_UNRECORDED;
}

#ifndef SOCKETS_IN_HASH /* with SOCKETS_IN_HASH no socket leaves its totals early */
/*
 * Puts a copy of the socket in `deferred`. The final record will have all that the copy has, and its flag tells the daemon
 * to pass over the copy. No program removes or replaces the copy, which has a key of its own: the daemon may be reading it.
 * If there is no room, the socket leaves no copy. Call this between trylock_record() and unlock_record(). No program has
 * room for a record on its stack, so the map takes the socket as it is. Its `stream_sent` is from the last sweep, and the
 * counters have grown since; the next sweep, or the end, sets it again.
 */
static __always_inline void leave_copy(struct traffic_socket *socket, struct traffic_further *further,
				       struct traffic_payer *payer)
{
	u64 key = record_key(socket->serial, further) | (u64)TRAFFIC_KEY_COPY << 32;
	struct traffic_socket *copy;

	socket->stream_sent = 0;
	socket->record++;
	if (further)
		complete_record(further, socket);
	if (!put_in_deferred(key, socket, further, payer, places_for(socket, true)))
		return;
	SET_BITS(socket->flags, TRAFFIC_SOCKET_LEFT_COPY);
	/*
	 * Packets may have changed the socket meanwhile, so the totals of this record are read from the copy, if the
	 * daemon has not removed it already.
	 */
	copy = further ? bpf_map_lookup_elem(&deferred_shared, &key) : bpf_map_lookup_elem(&deferred, &key);
	if (copy && copy->serial == socket->serial) {
		hide_unfinished_owners(copy);
		if (further)
			finish_further((struct traffic_shared_record *)copy);
	} else {
		copy = further ? &further->record.socket : socket;
	}
	note_last_record(socket, further, copy, 0, live.acknowledged_sweep);
}

/*
 * Puts the socket's totals in the ring; returns false if there is no room. Call this between trylock_record() and
 * unlock_record(). The record is made where it stays: put_in_ring() would leave nothing to note the totals from.
 */
static __always_inline bool submit_totals(struct traffic_socket *socket, struct traffic_payer *payer)
{
	struct traffic_socket *record = reserve_record(payer);

	if (!record)
		return false;
	copy_record(record, socket);
	record->record = ++socket->record;
	note_last_record(socket, NULL, record, 0, live.acknowledged_sweep);
	bpf_ringbuf_submit(record, ring_flags());
	return true;
}

/* The same for a socket with further owners. */
static __always_inline bool submit_shared_totals(struct traffic_socket *socket, struct traffic_further *further,
						 struct traffic_payer *payer)
{
	struct traffic_shared_record *record = reserve_shared_record(payer);

	if (!record)
		return false;
	copy_record(&record->socket, socket);
	copy_further(record, further, 0);
	record->socket.record = ++socket->record;
	note_last_record(socket, further, &record->socket, 0, live.acknowledged_sweep);
	bpf_ringbuf_submit(record, ring_flags());
	return true;
}

/*
 * The last file of a TCP socket is gone, so no call can add bytes. If there is no room, or if a walk is just writing a
 * record of this socket, its bytes come with the next sweep that lists it, or with its end. If neither comes, what it
 * moved since its last record is lost.
 */
static __always_inline void leave_totals(struct traffic_socket *socket, struct traffic_further *further)
{
	struct traffic_payer *payer;

	if ((!has_last_record(socket) && moved_nothing(socket)) || !trylock_record(socket, socket->serial))
		return;
	payer = payer_of(socket);
	if (!(further ? submit_shared_totals(socket, further, payer) : submit_totals(socket, payer)))
		leave_copy(socket, further, payer);
	unlock_record(socket, socket->serial);
}
#else
static __always_inline void leave_totals(struct traffic_socket *socket, struct traffic_further *further)
{
}
#endif

/*
 * Puts the final record in `deferred`; returns false if there is no room. With `must_have_record` only the room in
 * the map counts, not the payer's part.
 */
static __always_inline bool defer(struct traffic_socket *socket, struct traffic_further *further,
				  struct traffic_payer *payer, bool is_recorded, bool must_have_record)
{
	bool was_listed = is_recorded && !(socket->flags & TRAFFIC_SOCKET_LEFT_COPY);
	u32 limit = must_have_record ? 0 : places_for(socket, was_listed);

	if (!put_in_deferred(record_key(socket->serial, further), socket, further, payer, limit))
		return false;
	COUNT_LOSS(closed_deferred, 1);
	return true;
}

/* Puts the final record in the ring; returns false if there is no room. */
static __always_inline bool submit(struct traffic_socket *socket, struct traffic_further *further,
				   struct traffic_payer *payer)
{
	struct traffic_socket *record;

	if (further)
		return put_in_ring(payer, &further->record, sizeof(further->record));
	record = reserve_record(payer);
	if (!record)
		return false;
	__builtin_memcpy(record, socket, sizeof(*record));
	bpf_ringbuf_submit(record, ring_flags());
	return true;
}

/* Reports the final totals before the storage goes away. `further`: NULL where the socket has no further owners. */
static __noinline int close_socket(struct traffic_socket *socket, struct traffic_further *further)
{
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
	if (further)
		give_back_place(further);
	if (!is_recorded && moved_nothing(socket)) {
		COUNT_LOSS(closed_empty, 1);
		return 0;
	}
	payer = payer_of(socket);
	if (further)
		complete_record(further, socket);
	if (submit(socket, further, payer)) {
		COUNT_LOSS(closed_submitted, 1);
		return 0;
	}
	if (defer(socket, further, payer, is_recorded, is_being_recorded))
		return 0;
	if (further)
		fold_further(refer(further));
	COUNT_LOSS(closed_folded, fold_socket(further ? &further->record.socket : socket));
	if (is_recorded && bpf_map_push_elem(&unrecorded_ends, &serial, BPF_ANY))
		COUNT_LOSS(unrecorded_ends_lost, 1);
	return 0;
}

#endif
