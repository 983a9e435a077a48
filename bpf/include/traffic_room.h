/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TRAFFIC_ROOM_H
#define TRAFFIC_ROOM_H

/*
 * How much the programs may keep, and which part of it one user may fill. TrafficCapture makes the table for `doctor`
 * and docs/security.md from these numbers. IN_HASH: for method `kprobe`, whose maps are allocated in advance.
 */
enum traffic_room {
	TRAFFIC_RING_BYTES = 4 << 20, /* closed sockets between two drains */
	TRAFFIC_DEFERRED = 131072, /* records and copies of sockets that found no room in the ring, until the next sweep */
	TRAFFIC_DEFERRED_IN_HASH = 4096,
	TRAFFIC_PARTS = 4, /* a user may fill one part of the ring, and one of `deferred` */
	TRAFFIC_PARTS_FOR_UNRECORDED = 32, /* the parts of `deferred` for sockets that have no record yet */
	TRAFFIC_USERS_TOLD_APART = 1024,
	TRAFFIC_IDS_OF_BLOCK = 65536, /* from here on, the ids of each block of so many are one payer */
	TRAFFIC_BLOCKS_TOLD_APART = 256,
	TRAFFIC_ROWS = 32768, /* rows of processes, in two generations */
	TRAFFIC_ROWS_IN_HASH = 8192,
	TRAFFIC_USERS_FOR_ROWS = 16, /* so many users together fill one generation of rows */
	TRAFFIC_USER_ROWS = 2048, /* room kept for rows of users in the same map, in two generations */
	TRAFFIC_SHARED_SOCKETS = 512, /* open sockets with further owners that one payer may pay for */
	TRAFFIC_SHARED_SOCKETS_IN_HASH = 1024, /* of all payers; one may have one of TRAFFIC_PARTS */
	/*
	 * The record of a shared socket takes as many places of its payer's part as so many other records. The maps for
	 * such records are smaller by the same factor.
	 */
	TRAFFIC_PLACES_OF_SHARED = 16,
};

#endif
