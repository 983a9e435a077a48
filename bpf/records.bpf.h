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
 * A user may fill one of TRAFFIC_PARTS parts of the ring, and one of TRAFFIC_PARTS parts of `deferred`. For sockets
 * without a record so far, `deferred` is divided into TRAFFIC_PARTS_FOR_UNRECORDED smaller parts: such a part holds
 * about as many sockets as the daemon lists for a user.
 */

/* Wakes the daemon before the next sweep only if the records in the ring take half of one user's part. */
static __always_inline u64 ring_flags(void)
{
	u64 half = bpf_ringbuf_query(&closed, BPF_RB_RING_SIZE) / (2 * TRAFFIC_PARTS);

	return bpf_ringbuf_query(&closed, BPF_RB_AVAIL_DATA) >= half ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline struct traffic_payer *payer_of(const struct traffic_socket *socket)
{
	const struct traffic_owner *first = &socket->owners[0];
	struct traffic_payer *payer = find_payer(first->start_boottime_ns ? first->uid : socket->uid);

	if (payer && payer->drains != live.drains) {
		payer->drains = live.drains;
		payer->ring_bytes = 0;
	}
	if (payer && payer->acknowledged_sweep != live.acknowledged_sweep) {
		payer->acknowledged_sweep = live.acknowledged_sweep;
		payer->deferred = payer->released = 0;
	}
	return payer;
}

/* Returns NULL if the ring is full, or the payer's part of the ring. */
static __always_inline struct traffic_socket *reserve_record(struct traffic_payer *payer)
{
	struct traffic_socket *record;

	if (!payer || payer->ring_bytes >= bpf_ringbuf_query(&closed, BPF_RB_RING_SIZE) / TRAFFIC_PARTS)
		return NULL;
	record = bpf_ringbuf_reserve(&closed, sizeof(*record), 0);
	if (record)
		__sync_fetch_and_add(&payer->ring_bytes, sizeof(*record));
	return record;
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
	return serial | 1ULL << 63; /* not the serial, which is the key for owners' slots */
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

/*
 * Bytes of IP packets in both directions. Where packets are not seen: an estimate for TCP, from TCP's own counters and
 * the usual header sizes.
 */
static __always_inline struct traffic_payload wire_of(const struct traffic_socket *socket)
{
	u32 headers = TRAFFIC_TCP_HEADER + TRAFFIC_TIMESTAMPS_OPTION +
		      (*(u32 *)&socket->remote_address[8] == bpf_htonl(0xffff) ? TRAFFIC_IPV4_HEADER : TRAFFIC_IPV6_HEADER);

	if (!fixed.estimates_wire)
		return (struct traffic_payload){ wire_sum(&socket->wire_sent), wire_sum(&socket->wire_received) };
	return (struct traffic_payload){
		socket->tcp_sent_bytes + (u64)socket->segments_sent * headers,
		socket->tcp_received_bytes + (u64)socket->segments_received * headers,
	};
}

/*
 * Hides slots that were taken but not yet described when the record was copied. The daemon would skip them, and
 * note_last_record() would note their bytes all the same. Hidden, these bytes come with the next record.
 */
static __always_inline void hide_unfinished_owners(struct traffic_socket *record)
{
#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++) {
		struct traffic_owner *owner = &record->owners[i];

		/*
		 * The kernel's own slot has no number, and starts at 1. A kernel thread gets its flag before its
		 * number.
		 */
		if (owner->start_boottime_ns &&
		    (owner->tgid || (owner->start_boottime_ns == 1 && owner->flags & TRAFFIC_OWNER_KERNEL_THREAD)))
			continue;
		owner->start_boottime_ns = 0;
		owner->sent_bytes = owner->received_bytes = 0;
	}
}

/*
 * Call this only between trylock_record() and unlock_record().
 *
 * sweep: the sweep that writes the record; live.acknowledged_sweep for a record in the ring or in a map, which stays
 * there until the daemon acknowledges it
 */
static __always_inline void note_last_record(struct traffic_socket *socket, const struct traffic_socket *record,
					     u32 sweep)
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
	barrier();
	last->serial = record->serial;
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
