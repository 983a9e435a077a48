/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who pays for what the programs keep and do. Users of a server are strangers to each other: each has room of its own, and
 * what a user's sockets cost more than others costs that user alone.
 */
#ifndef PAYER_BPF_H
#define PAYER_BPF_H

#include "compat.bpf.h"
#include "include/traffic_abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TRAFFIC_USERS_TOLD_APART + TRAFFIC_BLOCKS_TOLD_APART);
	__type(key, u32);
	__type(value, struct traffic_payer);
} payers SEC(".maps");

/*
 * The id under which a user pays: the user's own, or of subordinate ids (subuid(5)) the first one of the block, because one
 * user may have a whole block. PayingUser in the daemon has the same rule.
 */
static __always_inline u32 payer_id(u32 uid)
{
	return uid < TRAFFIC_IDS_OF_BLOCK ? uid : uid & ~(u32)(TRAFFIC_IDS_OF_BLOCK - 1);
}

static __always_inline struct traffic_payer *find_payer(u32 uid)
{
	u32 slot = uid & (TRAFFIC_USERS_TOLD_APART - 1);

	if (uid >= TRAFFIC_IDS_OF_BLOCK)
		slot = TRAFFIC_USERS_TOLD_APART + ((uid / TRAFFIC_IDS_OF_BLOCK) & (TRAFFIC_BLOCKS_TOLD_APART - 1));
	return bpf_map_lookup_elem(&payers, &slot);
}

/* The user has a place for a shared socket again. A second call changes nothing. */
static __always_inline void give_back_place(struct traffic_further *further)
{
	u64 uid = further->payer;
	struct traffic_payer *payer;

	if (!(uid >> 32 & TRAFFIC_PAYER_KNOWN))
		return;
	further->payer = 0;
	payer = find_payer(uid);
	if (payer)
		__sync_fetch_and_add(&payer->shared_sockets, -1);
}

/*
 * The user who pays for the records of a socket, and for its further owners: who used it first, because that user has let
 * the others use it. Where the kernel used it first, the user who made it: else root would pay for the sockets of others.
 * A slot has no number yet if its process is just taking it.
 */
static __always_inline u32 paying_user(const struct traffic_socket *socket)
{
	const struct traffic_owner *first = &socket->owners[0];

	return first->tgid && !(first->flags & TRAFFIC_OWNER_KERNEL_THREAD) ? first->uid : socket->uid;
}

#endif
