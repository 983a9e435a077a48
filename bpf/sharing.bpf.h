/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets that more than two processes use. The third process makes a second storage, struct traffic_further. A user
 * pays for it until the socket ends. Bytes of processes that find no room there go to their rows.
 */
#ifndef SHARING_BPF_H
#define SHARING_BPF_H

#include "compat.bpf.h"
#include "maps.bpf.h"
#include "payer.bpf.h"
#include "socket.bpf.h"

/*
 * Functions with a loop over the further owners are not static. The verifier looks at such a function once, by itself,
 * and its callers do not get a path more for each turn of the loop. Before Linux 5.12 (e5069b9c23b3) such a function
 * takes no pointers, so it looks the storage up by its key.
 */
#ifdef SOCKETS_IN_HASH
typedef u64 further_reference;

static __always_inline further_reference refer(const struct traffic_further *further)
{
	return further->address;
}

static __always_inline struct traffic_further *further_referred(further_reference reference)
{
	return further_at(reference);
}
#else
typedef struct traffic_further *further_reference;

static __always_inline further_reference refer(struct traffic_further *further)
{
	return further;
}

static __always_inline struct traffic_further *further_referred(further_reference reference)
{
	return reference;
}
#endif

static __always_inline bool is_shared(const struct traffic_socket *socket)
{
	return socket->is_shared;
}

/* Beginning and end ------------------------------------------------------------------------------------------------ */

/*
 * Whether a program will see the end of the socket, where the payer gets its place back. All protocols of the internet
 * families but TCP end in inet_release(), where socket_release runs (UDP-Lite, SCTP, raw and ping sockets, too), except
 * for sockets of the kernel. No program sees the end of AF_PACKET sockets, nor of SMC, which has a smc_release() of its
 * own.
 */
static __always_inline bool may_be_shared(const struct traffic_socket *socket, const struct sock *sk)
{
	if (socket->family == AF_PACKET)
		return false;
	if (socket->protocol == IPPROTO_TCP && socket->type == SOCK_STREAM)
		return true;
	return socket->protocol != PROTOCOL_SMC && fixed.sees_releases && !READ_BITS(sk, sk_kern_sock);
}

static __always_inline bool has_place(const struct traffic_payer *payer)
{
	return payer && (s32)payer->shared_sockets < SHARED_LIMIT;
}

/*
 * The user who pays for the socket pays for this, too, because the third process may have had no choice. If that user
 * has no place left, the user of the third process pays: else one user's logins, which root's sshd uses first, would
 * take the places of everybody's. Several processors at once may exceed the limit by a few sockets.
 *
 * uid: of the third process
 */
static __always_inline struct traffic_further *begin_sharing(struct traffic_socket *socket, struct sock *sk, u32 uid)
{
	u32 paying = paying_user(socket);
	struct traffic_payer *payer = find_payer(paying);
	struct traffic_further *further;
	bool is_new;

	if (!has_place(payer)) {
		paying = uid;
		payer = find_payer(paying);
	}
	if (!has_place(payer) || !may_be_shared(socket, sk))
		return NULL;
	further = make_further(sk, socket->serial, (u64)TRAFFIC_PAYER_KNOWN << 32 | paying, &is_new);
	if (!further)
		return NULL;
	if (is_new)
		__sync_fetch_and_add(&payer->shared_sockets, 1);
	socket->is_shared = 1;
	return further;
}

/* Slots ------------------------------------------------------------------------------------------------------------ */

/*
 * Whether the slot is the process's, also if one of its threads has taken it and not written the number yet: no two
 * processes start at the same nanosecond. Only the kernel's own slot, which starts at 1, never gets a number.
 */
static __always_inline bool is_slot_of(const struct traffic_owner *owner, u64 start_boottime_ns, u32 tgid)
{
	return owner->start_boottime_ns == start_boottime_ns &&
	       (owner->tgid == tgid || (!owner->tgid && start_boottime_ns != 1));
}

/* Where step `step` of a process's search looks. */
static __always_inline u64 further_slot(u32 tgid, u64 step)
{
	return (tgid + step) % TRAFFIC_FURTHER_OWNERS;
}

/*
 * Searches the slot of a process, or else a free one, from step `from` on. Returns the step that found it.
 * TRAFFIC_FURTHER_OWNERS: there is none.
 *
 * The search begins at a place that depends on the process, so it is short even where there are many owners. Slots are
 * never freed, so a free one ends the search.
 */
__noinline u64 find_further_slot(further_reference reference, u64 start_boottime_ns, u32 tgid, u64 from)
{
	struct traffic_further *further = further_referred(reference);

	if (!further)
		return TRAFFIC_FURTHER_OWNERS;
#pragma clang loop unroll(disable)
	for (u64 i = from; i < TRAFFIC_FURTHER_OWNERS; i++) {
		struct traffic_owner *owner = &further->record.owners[further_slot(tgid, i)];

		if (!owner->start_boottime_ns || is_slot_of(owner, start_boottime_ns, tgid))
			return i;
		barrier_var(i); /* else clang counts another variable, whose end the verifier does not see */
	}
	return TRAFFIC_FURTHER_OWNERS;
}

#endif
