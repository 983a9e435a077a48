/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TRAFFIC_SETTINGS_H
#define TRAFFIC_SETTINGS_H

#include <linux/types.h>

/* The settings that the daemon changes while the programs run. */
struct traffic_live_settings {
	__u32 baseline_done; /* every socket older than the capture has its storage; packets are counted from then on */
	__u32 calls_missed; /* this kernel sometimes skips our programs: see send.bpf.h */
	__u32 report_all; /* a sweep reports every socket, changed or not */
	__u32 interface_mark; /* 0 or 1 << 31: the generation of elements in which packets of interfaces count */
	__u32 home_namespace; /* inode number of the daemon's network namespace */
	__u32 stranger_limit; /* how many interfaces of other network namespaces a generation may hold */
	__u32 generation; /* of the rows */
	__u32 drains; /* how often the daemon emptied the ring: then each user may fill its part of the ring again */
	__u32 sweeps; /* how many sweeps there were */
	__u32 early_trust; /* up to this many elements that no connection took, the `early` map has dropped none */
	/*
	 * The last sweep whose output is in a checkpoint: from then on every user may fill its part of `deferred` again.
	 * Equal to `sweeps` where nothing outlives the daemon.
	 */
	__u32 acknowledged_sweep;
	/* the walk over network namespaces reports every socket whose last record may be lost with a daemon */
	__u32 report_unacknowledged;
	__u32 walker; /* process number of that walk, which locks the sockets: it is in no call on them */
	__u32 holder_lists; /* how many lists of holders were begun */
	__u64 capture; /* a random number: which capture these maps belong to */
};

/*
 * The settings that the daemon chooses before it loads the programs. The verifier knows these values and removes the
 * code that they switch off.
 */
struct traffic_fixed_settings {
	__u32 derives_wire; /* packets are not seen: wire bytes are derived from TCP's counters and calls of UDP */
	__u32 counts_interfaces; /* packets are also counted at the interface that they pass, for the audit */
	__u32 counts_streams; /* method lifecycle: no program sees a call, see streams.bpf.h */
	/* the kernel may preempt a task inside a program of a tracepoint: see preempt.bpf.h */
	__u32 tracepoints_preempted;
	/* a TCP socket leaves its totals when its last file is gone: see closing.bpf.h and CapturePlan.swift */
	__u32 leaves_totals;
	__u32 sees_releases; /* a program sees the end of sockets other than TCP */
	__u32 deferred_limit; /* so many places of `deferred` are divided among the payers: its capacity, or less */
	__u32 pad;
};

#endif
