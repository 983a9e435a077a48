/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rows count the bytes that no record of a socket can report, because a ring or a map has no room. Then only detail is
 * lost, and only the detail of the user who needs the room. Each user has a limited number of rows for processes, and
 * one row for all other bytes of that user. Only if there are too many users for a row each do `common_rows` take the
 * remaining bytes.
 */
#ifndef ROWS_BPF_H
#define ROWS_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"
#include "payer.bpf.h"

/*
 * By process, and by payer. There is room for two generations, because the daemon may take long to read the previous one:
 * the programs add to one, and the daemon reads the other.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, SHARED_MAP_FLAGS);
	__uint(max_entries, ROWS_LIMIT + TRAFFIC_USER_ROWS);
	__type(key, struct traffic_row_key);
	__type(value, struct traffic_row);
} rows SEC(".maps");

/* Of all users whose row found no room. One for each of two generations, whose rows of processes it counts, too. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct traffic_row);
} common_rows SEC(".maps");

/* Rows of processes, per generation. They leave the room of the users' rows free. */
enum { PROCESS_ROWS = ROWS_LIMIT / 2, PROCESS_ROWS_OF_A_USER = PROCESS_ROWS / TRAFFIC_USERS_FOR_ROWS };

/* What is added to a row. */
struct amounts {
	struct traffic_payload payload;
	struct traffic_payload wire;
	u64 retransmitted_bytes;
	u64 sockets;
};

static __noinline struct traffic_row *find_user_row(u32 uid, u32 generation)
{
	struct traffic_row_key key = { .id = payer_id(uid), .generation = generation };
	struct traffic_row fresh = { .owner.uid = key.id }, *row = bpf_map_lookup_elem(&rows, &key);

	if (row)
		return row;
	bpf_map_update_elem(&rows, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&rows, &key);
}

/*
 * Returns the row of a process. Returns NULL if there is no room, or if the user or all users together have reached
 * their limit of rows. Several processors at once may exceed a limit by a few rows.
 */
static __noinline struct traffic_row *find_process_row(const struct traffic_owner *owner, struct traffic_row *user_row,
						       struct traffic_row *common_row, u32 generation)
{
	struct traffic_row_key key = {
		.start_boottime_ns = owner->start_boottime_ns,
		.id = owner->tgid,
		.generation = generation,
	};
	struct traffic_row fresh = {}, *row = bpf_map_lookup_elem(&rows, &key);

	if (row)
		return row;
	if (!user_row || user_row->processes >= PROCESS_ROWS_OF_A_USER || !common_row || common_row->processes >= PROCESS_ROWS)
		return NULL;
	fresh.owner = *owner;
	fresh.owner.sent_bytes = fresh.owner.received_bytes = 0;
	if (!bpf_map_update_elem(&rows, &key, &fresh, BPF_NOEXIST)) {
		__sync_fetch_and_add(&user_row->processes, 1);
		__sync_fetch_and_add(&common_row->processes, 1);
	}
	return bpf_map_lookup_elem(&rows, &key);
}

static __noinline int add_to_row(struct traffic_row *row, const struct amounts *amounts)
{
	__sync_fetch_and_add(&row->owner.sent_bytes, amounts->payload.sent_bytes);
	__sync_fetch_and_add(&row->owner.received_bytes, amounts->payload.received_bytes);
	__sync_fetch_and_add(&row->wire.sent_bytes, amounts->wire.sent_bytes);
	__sync_fetch_and_add(&row->wire.received_bytes, amounts->wire.received_bytes);
	__sync_fetch_and_add(&row->retransmitted_bytes, amounts->retransmitted_bytes);
	__sync_fetch_and_add(&row->sockets, amounts->sockets);
	return 0;
}

/* `owner` without a start time: it is not known which of the user's processes moved the bytes. */
static __noinline int fold(const struct traffic_owner *owner, const struct amounts *amounts)
{
	u32 generation = live.generation, element = generation & 1;
	struct traffic_row *common_row = bpf_map_lookup_elem(&common_rows, &element);
	struct traffic_row *user_row = find_user_row(owner->uid, generation), *row = NULL;

	if (owner->start_boottime_ns)
		row = find_process_row(owner, user_row, common_row, generation);
	if (!row)
		row = user_row ? user_row : common_row;
	if (row)
		add_to_row(row, amounts);
	return 0;
}

#endif
