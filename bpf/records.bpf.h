/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records: what the programs tell the daemon about a socket.
 *
 * A record of a closed socket, or of one whose end no program may see, goes to the ring. Each user may fill a part of
 * the ring between two drains. What becomes of a socket without room is in closing.bpf.h.
 *
 * Bytes that a record has must not be added to a row. So each program that writes a record notes the totals of that
 * record in the socket (`last_record`). A socket may close on one processor while another processor writes a record of
 * the socket. The writer takes `record_lock` and then looks whether the socket is closed. The program at the end sets
 * `closed_boottime_ns` and then looks at `record_lock`. At least one of the two sees the other: either the writer gives
 * up, or the program at the end does not rely on `last_record`. leave_totals() need not look: it runs before TCP ends
 * the socket.
 */
#ifndef RECORDS_BPF_H
#define RECORDS_BPF_H

#include "account.bpf.h"
#include "compat.bpf.h"
#include "maps.bpf.h"
#include "payer.bpf.h"
#include "socket.bpf.h"

/*
 * A user may fill one of TRAFFIC_PARTS parts of the ring, and one of TRAFFIC_PARTS parts of `deferred` (places_for()). For
 * sockets without a record so far, `deferred` is divided into TRAFFIC_PARTS_FOR_UNRECORDED smaller parts: such a part
 * holds about as many sockets as the daemon lists for a user.
 */

/* Wakes the daemon before the next sweep only if the records in the ring take half of one user's part. */
static __always_inline u64 ring_flags(void)
{
	u64 half = bpf_ringbuf_query(&closed, BPF_RB_RING_SIZE) / (2 * TRAFFIC_PARTS);

	return bpf_ringbuf_query(&closed, BPF_RB_AVAIL_DATA) >= half ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline struct traffic_payer *payer_of(const struct traffic_socket *socket)
{
	struct traffic_payer *payer = find_payer(paying_user(socket));

	if (payer && payer->drains != live.drains) {
		payer->drains = live.drains;
		payer->ring_bytes = 0;
	}
	if (payer && payer->acknowledged_sweep != live.acknowledged_sweep) {
		payer->acknowledged_sweep = live.acknowledged_sweep;
		payer->deferred = 0;
	}
	return payer;
}

static __always_inline bool has_room_in_ring(const struct traffic_payer *payer)
{
	return payer && payer->ring_bytes < bpf_ringbuf_query(&closed, BPF_RB_RING_SIZE) / TRAFFIC_PARTS;
}

/* Returns NULL if the ring is full, or the payer's part of the ring. `bytes` must be a constant. */
static __always_inline void *reserve(struct traffic_payer *payer, u64 bytes)
{
	void *record;

	if (!has_room_in_ring(payer))
		return NULL;
	record = bpf_ringbuf_reserve(&closed, bytes, 0);
	if (record)
		__sync_fetch_and_add(&payer->ring_bytes, bytes);
	return record;
}

static __always_inline struct traffic_socket *reserve_record(struct traffic_payer *payer)
{
	return reserve(payer, sizeof(struct traffic_socket));
}

static __always_inline struct traffic_shared_record *reserve_shared_record(struct traffic_payer *payer)
{
	return reserve(payer, sizeof(struct traffic_shared_record));
}

/* Returns false likewise. `bytes` must be a constant. */
static __always_inline bool put_in_ring(struct traffic_payer *payer, void *record, u64 bytes)
{
	if (!has_room_in_ring(payer) || bpf_ringbuf_output(&closed, record, bytes, ring_flags()))
		return false;
	__sync_fetch_and_add(&payer->ring_bytes, bytes);
	return true;
}

/* The lock of a record --------------------------------------------------------------------------------------------- */

/*
 * The walks (iterate.bpf.h) and leave_totals() write a record of a socket only with this lock: one program at a time,
 * and nobody waits. close_socket() and count_frame() write records without it.
 *
 * trylock_record() returns false if another processor is writing a record of this socket.
 */
#ifdef SOCKETS_IN_HASH
/*
 * Before Linux 5.12 no atomic operation has a result. Here an atomic addition to `fences`, which no program reads, is
 * the memory barrier. With this object only walks write records of open sockets, and an element of `locks` keeps two
 * walks apart. Meanwhile the element of `sockets` may become another socket's, so the functions compare serials.
 */
static __always_inline u64 record_lock_key(u64 serial)
{
	return serial | 1ULL << 63; /* lock_key() never has this bit */
}

static __always_inline bool trylock_record(struct traffic_socket *socket, u64 serial)
{
	u64 key = record_lock_key(serial);
	u8 taken = 1;

	if (bpf_map_update_elem(&locks, &key, &taken, BPF_NOEXIST))
		return false;
	socket->record_lock = serial;
	__sync_fetch_and_add(&socket->fences, 1);
	return true;
}

static __always_inline void unlock_record(struct traffic_socket *socket, u64 serial)
{
	u64 key = record_lock_key(serial);

	barrier();
	if (socket->record_lock == serial)
		socket->record_lock = 0;
	bpf_map_delete_elem(&locks, &key);
}

static __always_inline bool is_record_locked(struct traffic_socket *socket)
{
	__sync_fetch_and_add(&socket->fences, 1);
	return *(volatile u64 *)&socket->record_lock == socket->serial;
}
#else
static __always_inline bool trylock_record(struct traffic_socket *socket, u64 serial)
{
	return !__sync_val_compare_and_swap(&socket->record_lock, 0, serial);
}

static __always_inline void unlock_record(struct traffic_socket *socket, u64 serial)
{
	__sync_fetch_and_and(&socket->record_lock, 0);
}

static __always_inline bool is_record_locked(struct traffic_socket *socket)
{
	return __sync_fetch_and_or(&socket->record_lock, 0);
}
#endif

static __always_inline bool has_last_record(const struct traffic_socket *socket)
{
	return socket->last_record.serial == socket->serial;
}

/*
 * Whether the last record is not lost if the daemon is killed now. A record in the ring or in a map stays there until
 * the daemon acknowledges it. The output of a sweep is lost with the daemon that read it, until that daemon has
 * acknowledged the sweep.
 */
static __always_inline bool outlives_daemon(const struct traffic_last_record *last)
{
	return (s32)(last->sweep - live.acknowledged_sweep) <= 0;
}

/* Bytes of IP packets in both directions. */
static __always_inline struct traffic_payload wire_of(const struct traffic_socket *socket)
{
	return (struct traffic_payload){ wire_sum(&socket->wire_sent), wire_sum(&socket->wire_received) };
}

/*
 * Hides a slot that was taken but not yet described when the record was copied. The daemon would skip it, and
 * note_last_record() would note its bytes all the same. Hidden, these bytes come with the next record.
 */
static __always_inline void hide_if_unfinished(struct traffic_owner *owner)
{
	/* The kernel's own slot has no number, and starts at 1. A kernel thread gets its flag before its number. */
	if (owner->start_boottime_ns &&
	    (owner->tgid || (owner->start_boottime_ns == 1 && owner->flags & TRAFFIC_OWNER_KERNEL_THREAD)))
		return;
	owner->start_boottime_ns = 0;
	owner->sent_bytes = owner->received_bytes = 0;
	owner->tgid = 0; /* it may have been written just after the start time was read */
}

static __always_inline void hide_unfinished_owners(struct traffic_socket *record)
{
#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++)
		hide_if_unfinished(&record->owners[i]);
}

/* As further_reference in sharing.bpf.h. With SOCKETS_IN_HASH all records of shared sockets are buffers of walks. */
#ifdef SOCKETS_IN_HASH
typedef u32 record_reference;

static __always_inline record_reference refer_record(const struct traffic_shared_record *record, u32 buffer)
{
	return buffer;
}

static __always_inline struct traffic_shared_record *record_referred(record_reference reference)
{
	return bpf_map_lookup_elem(&copies, &reference);
}
#else
typedef struct traffic_shared_record *record_reference;

static __always_inline record_reference refer_record(struct traffic_shared_record *record, u32 buffer)
{
	return record;
}

static __always_inline struct traffic_shared_record *record_referred(record_reference reference)
{
	return reference;
}
#endif

/* Hides unfinished further owners, and makes the sum of these owners that of the others. */
__noinline u64 finish_further(record_reference reference)
{
	struct traffic_shared_record *record = record_referred(reference);
	struct traffic_payload sum = {};

	if (!record)
		return 0;
#pragma clang loop unroll(disable)
	for (u64 i = 0; i < TRAFFIC_FURTHER_OWNERS; i++) {
		struct traffic_owner *owner = &record->owners[i];

		hide_if_unfinished(owner);
		sum.sent_bytes += owner->sent_bytes;
		sum.received_bytes += owner->received_bytes;
		barrier_var(i);
	}
	record->socket.further = sum;
	return 0;
}

/* The part of note_last_record() for the further owners. */
__noinline u64 note_further(further_reference reference, record_reference noted)
{
	struct traffic_shared_record *record = record_referred(noted);
	struct traffic_further *further = further_referred(reference);

	/* With SOCKETS_IN_HASH the element may have become another socket's. */
	if (!further || !record || further->serial != record->socket.serial)
		return 0;
	further->last_record.serial = 0;
	barrier();
#pragma clang loop unroll(disable)
	for (u64 i = 0; i < TRAFFIC_FURTHER_OWNERS; i++) {
		further->last_record.owners[i].sent_bytes = record->owners[i].sent_bytes;
		further->last_record.owners[i].received_bytes = record->owners[i].received_bytes;
		barrier_var(i);
	}
	barrier();
	further->last_record.serial = record->socket.serial;
	return 0;
}

/*
 * Call this only between trylock_record() and unlock_record().
 *
 * further: NULL if the record is no traffic_shared_record
 * buffer: where a walk made the record
 * sweep: the sweep that writes the record; live.acknowledged_sweep for a record in the ring or in a map, which stays
 * there until the daemon acknowledges it
 */
static __always_inline void note_last_record(struct traffic_socket *socket, struct traffic_further *further,
					     struct traffic_socket *record, u32 buffer, u32 sweep)
{
	struct traffic_last_record *last = &socket->last_record;

	last->serial = 0;
	barrier();
#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++) {
		last->owners[i].sent_bytes = record->owners[i].sent_bytes;
		last->owners[i].received_bytes = record->owners[i].received_bytes;
	}
	last->unowned.sent_bytes = record->unowned_sent_bytes;
	last->unowned.received_bytes = record->unowned_received_bytes;
	last->wire = wire_of(record);
	last->retransmitted_bytes = record->retransmitted_bytes;
	last->sweep = sweep;
	if (further)
		note_further(refer(further), refer_record((struct traffic_shared_record *)record, buffer));
	barrier();
	last->serial = record->serial;
}

/*
 * Completes a copy of the socket: after this it is a record of the one kind or the other, with the sum of the further
 * owners that it has. The socket may have got its first further owner while it was copied.
 */
static __always_inline void copy_further(struct traffic_shared_record *copy, const struct traffic_further *further,
					 u32 buffer)
{
	if (!further) {
		copy->socket.further = (struct traffic_payload){};
		return;
	}
	copy->socket.flags |= TRAFFIC_SOCKET_SHARED;
	bpf_probe_read_kernel(copy->owners, sizeof(copy->owners), further->record.owners);
	finish_further(refer_record(copy, buffer));
}

/* Makes the second storage a record. */
static __always_inline void complete_record(struct traffic_further *further, const struct traffic_socket *socket)
{
	further->record.socket = *socket;
	further->record.socket.flags |= TRAFFIC_SOCKET_SHARED;
}

#ifndef SOCKETS_IN_HASH /* with SOCKETS_IN_HASH no socket leaves its totals early */
static __always_inline void copy_record(struct traffic_socket *record, const struct traffic_socket *socket)
{
	__builtin_memcpy(record, socket, sizeof(*record));
	record->stream_sent = 0; /* the value is from the last sweep, and the counters have grown since */
	hide_unfinished_owners(record);
}
#endif

/*
 * Counts a frame of an AF_PACKET socket. No program sees the end of such a socket, so each frame is reported at once.
 * If there is no room for a record, the bytes go to the row of the process.
 *
 * Such a socket is never folded into rows, so nothing depends on `last_record` and no program has to wait for another
 * one's record: each call copies the socket after its own addition, and the daemon takes the largest counters of all
 * records.
 */
static __always_inline void count_frame(struct sock *sk, u64 sent, u64 received)
{
#ifndef SOCKETS_IN_HASH
	struct traffic_socket *socket = find_socket(sk), *record = socket ? reserve_record(payer_of(socket)) : NULL;

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
	copy_record(record, socket);
	record->record = 0;
	bpf_ringbuf_submit(record, ring_flags());
#endif
}

#endif
