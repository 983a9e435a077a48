/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel side and the Swift side agree on: fixed width, 8-aligned, explicit padding, never packed. A test
 * compares every field's offset here with the offset in the BPF object's BTF.
 *
 * The record of a socket is struct traffic_socket. It is the value of the socket storage, the line that a sweep writes,
 * the ring-buffer record of a closed socket and the value of the `deferred` map. Where more than two processes use a
 * socket, all its records are of the larger kind, struct traffic_shared_record. The counters are cumulative, so reading
 * a record twice or late is harmless. If there is no room for the record of a closed socket, the programs add its bytes
 * to the rows of its processes: struct traffic_row.
 */
#ifndef TRAFFIC_ABI_H
#define TRAFFIC_ABI_H

#include "traffic_headers.h"
#include "traffic_room.h"
#include "traffic_settings.h"

#include <linux/types.h>

enum traffic_limit {
	TRAFFIC_NAME_LENGTH = 16, /* TASK_COMM_LEN */
	/* in the ring, of a TCP socket that closes: one at its end, and where leave_totals() runs, one before */
	TRAFFIC_RECORDS_OF_SOCKET = 2,
	TRAFFIC_ADDRESS_LENGTH = 16, /* IPv4 addresses are v4-mapped, RFC 4291 section 2.5.5.2 */
	TRAFFIC_INLINE_OWNERS = 2,
	/*
	 * Of a socket, in a storage of its own: struct traffic_further. A power of two. With the socket's own storage
	 * this is a third of optmem_max before Linux 6.8 (20 KiB), and below the 8 KiB that kmalloc() gives in one
	 * piece.
	 */
	TRAFFIC_FURTHER_OWNERS = 64,
};

enum traffic_role {
	TRAFFIC_ROLE_UNKNOWN = 0,
	TRAFFIC_ROLE_CLIENT = 1,
	TRAFFIC_ROLE_SERVER = 2,
	TRAFFIC_ROLE_LISTENER = 3,
};

enum traffic_socket_flag {
	TRAFFIC_SOCKET_PREEXISTING = 1 << 0, /* older than the capture: counted from its baseline on */
	TRAFFIC_SOCKET_SHARED = 1 << 1, /* only in records: this one is a struct traffic_shared_record */
	TRAFFIC_SOCKET_BUSY = 1 << 2, /* in use while the record was read: counters may be of different moments */
	TRAFFIC_SOCKET_FRAMED = 1 << 3, /* the kernel uses the stream too: kTLS, a sockmap */
	TRAFFIC_SOCKET_PARTIAL = 1 << 4, /* its first packets may have passed before the programs counted packets */
	/* early_bytes may be too small: the `early` map may have dropped an element */
	TRAFFIC_SOCKET_EARLY_UNKNOWN = 1 << 5,
	TRAFFIC_SOCKET_INFERRED = 1 << 6, /* method lifecycle: several processes held the socket, and one has all its bytes */
	TRAFFIC_SOCKET_LEFT_COPY = 1 << 7, /* left a copy in `deferred`: see closing.bpf.h */
};

/* Bits 32 to 63 of a key of `deferred` or `deferred_shared`. The rest of the key is the serial. */
enum traffic_record_key {
	TRAFFIC_KEY_SHARED = 1 << 30, /* in `deferred_shared`, so that one list can hold keys of both maps */
	TRAFFIC_KEY_COPY = 1U << 31, /* a copy of an open socket */
};

/* In traffic_socket.stream_sent, above its 32 bits. */
enum traffic_stream_flag {
	TRAFFIC_STREAM_KNOWN = 1 << 0,
};

enum traffic_owner_flag {
	TRAFFIC_OWNER_KERNEL_THREAD = 1 << 0, /* PF_KTHREAD, or no process at all */
};

/* A process that used a socket. A slot is free while start_boottime_ns is 0. */
struct traffic_owner {
	__u64 start_boottime_ns; /* task_struct.start_boottime of the thread group leader */
	__u64 sent_bytes;
	__u64 received_bytes;
	__u32 tgid; /* in the initial PID namespace */
	__u32 uid;
	__u64 cgroup_id; /* of the cgroup v2 hierarchy */
	__u32 flags; /* enum traffic_owner_flag */
	__u32 pad;
	char name[TRAFFIC_NAME_LENGTH]; /* comm of the thread group leader at its first use of the socket */
};

/*
 * Bytes of IP packets of one direction, by what the packets carry. The four add up to the wire bytes: packet lengths
 * with IP and transport headers, retransmissions too, without link headers. Where packets are not seen, derive_tcp()
 * says what is where.
 */
struct traffic_wire {
	__u64 payload_bytes; /* payload of the transport protocol */
	__u64 header_bytes; /* IP and transport headers of packets with payload */
	__u64 bare_bytes; /* packets without payload: acknowledgements, probes */
	__u64 control_bytes; /* headers of packets with SYN, FIN or RST */
};

/* Payload of one process, or of no known process. */
struct traffic_payload {
	__u64 sent_bytes;
	__u64 received_bytes;
};

/*
 * The totals of a socket in its last record. A closing socket adds to a row only what it moved beyond these totals.
 */
struct traffic_last_record {
	/*
	 * The serial of the socket that these totals belong to. Any other value: this socket has no record yet. A TCP
	 * socket older than the capture has totals without a record: note_earlier_counters() sets TCP's counters at the
	 * baseline.
	 */
	__u64 serial;
	struct traffic_payload owners[TRAFFIC_INLINE_OWNERS];
	struct traffic_payload unowned;
	struct traffic_payload wire; /* IP packets */
	__u64 retransmitted_bytes;
	/* the sweep that reported them; of a record in the ring or a map, an acknowledged one: see outlives_daemon() */
	__u32 sweep;
	__u32 swept; /* the last sweep that reported the socket */
};

/* What the last list of holders has of a socket: see holders.bpf.h. */
struct traffic_held {
	__u32 list; /* live.holder_lists of that list; another number: the list has not come to the socket */
	__u32 by; /* enum traffic_held_by */
	__u32 last; /* the process number of the holder that was listed last */
	__u32 pad;
};

/* Who holds a socket, as far as a list has come. */
enum traffic_held_by {
	TRAFFIC_HELD_BY_FIRST = 1 << 0, /* the process in the first slot */
	TRAFFIC_HELD_BY_OTHERS = 1 << 1,
};

/* A line of the list of holders: a process that has a descriptor of the socket. */
struct traffic_holder {
	__u64 serial;
	__u32 held_by; /* of the socket, up to this line */
	__u32 is_first; /* this is the process in the first slot */
	struct traffic_owner owner; /* without bytes */
};

/*
 * In a cache line the kernel keeps 8 bytes of its own before this struct. The next 48 bytes are what a call reads and
 * writes: the marks, and the key and the counters of the first owner. The first three lines and that of the wire bytes
 * tell whether a socket is idle (iterate.bpf.h). A further line costs a sweep over 100,000 sockets about 1 ms.
 */
struct traffic_socket {
	__u64 receive_mark; /* kernel only: TCP sequence up to which received bytes are counted, see receive.bpf.h */
	__u32 urgent_mark; /* kernel only: sequence number of the last urgent byte that recv() skipped */
	__u32 flags; /* enum traffic_socket_flag */
	struct traffic_owner owners[TRAFFIC_INLINE_OWNERS];
	__u64 swept_mark; /* kernel only: activity() at the last record of a sweep */
	__u64 unowned_sent_bytes; /* bytes of missed calls whose process is not known */
	__u64 unowned_received_bytes;
	__u32 send_start; /* kernel only: where the stream begins, less the bytes counted before; see send.bpf.h */
	__u32 network_namespace; /* inode number, as in /proc/PID/ns/net */
	__u16 protocol; /* IPPROTO_* of the socket, 262 for MPTCP */
	__u8 type; /* SOCK_STREAM, SOCK_DGRAM, SOCK_RAW … */
	__u8 send_phase; /* kernel only: enum send_phase */
	__u8 family; /* AF_INET, AF_INET6, AF_PACKET */
	/*
	 * kernel only: 1 if the socket has a struct traffic_further. Not one of `flags`: with `kprobe`, of two flags that
	 * programs set at once one may be lost. A byte that is only ever set to 1 can't be.
	 */
	__u8 is_shared;
	__u8 state; /* TCP_ESTABLISHED … of net/tcp_states.h, also for protocols without a connection */
	__u8 role; /* enum traffic_role */
	/*
	 * Unique among the sockets of one capture. The cookie is not unique: accepted MPTCP sockets have the cookie of
	 * their listener, because mptcp_sk_clone_init() copies it (seen on 6.18).
	 */
	__u64 serial;
	__u64 cookie; /* SO_COOKIE */
	__u64 opened_boottime_ns; /* 0: before the capture */
	__u64 closed_boottime_ns; /* 0: open */
	/*
	 * kernel only: the sum of all further owners. A send under kprobe and each look of a sweep need it, and neither
	 * must walk through so many slots. 0 unless is_shared.
	 */
	struct traffic_payload further;
	/* bytes of processes without room beside the other owners; rows contain these bytes, see struct traffic_row */
	struct traffic_payload in_rows;
	__u64 retransmitted_bytes; /* tcp_sock.bytes_retrans */
	__u32 segments_sent; /* tcp_sock.segs_out */
	__u32 segments_received; /* tcp_sock.segs_in */
	__u32 smoothed_rtt_us;
	__u32 retransmitted_segments; /* tcp_sock.total_retrans */
	__u32 send_end; /* kernel only: where the stream ended */
	__u16 local_port; /* host byte order */
	__u16 remote_port;
	__u64 stream_sent; /* all bytes that TCP accepted, modulo 2^32, and TRAFFIC_STREAM_KNOWN */
	__u8 local_address[TRAFFIC_ADDRESS_LENGTH];
	__u8 remote_address[TRAFFIC_ADDRESS_LENGTH];
	/*
	 * TCP's own counters of the stream, over all connections of the socket. An audit compares the capture's
	 * counters with these.
	 */
	__u64 tcp_sent_bytes; /* tcp_sock.bytes_sent: payload handed to IP, retransmissions too */
	__u64 tcp_received_bytes; /* tcp_sock.bytes_received without the FIN: payload in sequence, once */
	/* kernel only: tcp_sent_bytes of the connections before the present one; the next two are alike */
	__u64 earlier_sent_bytes;
	__u64 earlier_received_bytes;
	__u64 earlier_retransmitted_bytes;
	/* kernel only, method lifecycle: where in the streams of the present connection counting began, see streams.bpf.h */
	__u64 stream_sent_base;
	__u64 stream_received_base;
	__u32 unsent_bytes; /* payload that the socket accepted but has not handed to IP yet */
	__u32 unread_bytes; /* payload that waits to be read */
	__s32 urgent_bytes; /* urgent bytes that reads of the stream skipped, minus those that recv(MSG_OOB) got */
	/* the number of this record among those of the socket: they come by two ways. 0: not numbered */
	__u32 record;
	__u64 early_bytes; /* payload that arrived during the handshake, in packets for the listener */
	/*
	 * When the last connect() of a client's socket began (SYN_SENT) and when it ended (ESTABLISHED). 0: not seen,
	 * or not reached.
	 */
	__u64 connecting_boottime_ns;
	__u64 established_boottime_ns;
	__u32 uid; /* of the process that created the socket */
	/*
	 * Without packets: whether the wire bytes may differ from those of the packets, see derive.bpf.h. Not one of
	 * `flags`, for the reason at is_shared.
	 */
	__u32 wire_is_estimated;
	__u32 handshake_counted; /* kernel only: whether the wire bytes have the handshake of the present connection */
	__u32 fences; /* kernel only, see records.bpf.h */
	__u64 record_lock; /* kernel only: the serial while a program writes a record of this socket, see records.bpf.h */
	/* softirqs count here too, so these two have a line of their own */
	struct traffic_wire wire_sent;
	struct traffic_wire wire_received;
	struct traffic_last_record last_record; /* kernel only */
	struct traffic_held held; /* kernel only */
};

_Static_assert(__builtin_offsetof(struct traffic_socket, serial) == 3 * 64 - 8, "the fourth line begins here");
_Static_assert(__builtin_offsetof(struct traffic_socket, wire_sent) == 7 * 64 - 8, "wire bytes have a line of their own");

/* The record of a socket with further owners. A slot of `owners` without a process is free, wherever it is. */
struct traffic_shared_record {
	struct traffic_socket socket;
	struct traffic_owner owners[TRAFFIC_FURTHER_OWNERS];
};

/* What a record has of the further owners: with the socket's last_record, the totals of its last record. */
struct traffic_last_further {
	/*
	 * The serial of the socket, once a record had these totals. Any other value: the last record is from before the
	 * socket had further owners, or with `kprobe` of another socket that had this element.
	 */
	__u64 serial;
	struct traffic_payload owners[TRAFFIC_FURTHER_OWNERS];
};

/*
 * The second storage of a socket, made when a third process uses the socket. It is laid out as a record, so that the
 * end of the socket can hand it over in one piece: no program has room for a record on its stack.
 */
struct traffic_further {
	/* The owners are the live slots. `socket` is a copy that is made just before the record is handed over. */
	struct traffic_shared_record record;
	struct traffic_last_further last_record;
	__u64 payer; /* the id of the user who pays for this, and TRAFFIC_PAYER_KNOWN */
	__u64 serial; /* of the socket */
	__u64 address; /* with `kprobe`: the key of this element */
};

/* In traffic_further.payer, above the 32 bits of the id. */
enum traffic_payer_flag {
	TRAFFIC_PAYER_KNOWN = 1 << 0,
};

/*
 * What a payer has filled of its parts of the ring and of `deferred`, and of its places for shared sockets. Users whose
 * ids are equal modulo TRAFFIC_USERS_TOLD_APART share this, and so do blocks whose numbers are equal modulo
 * TRAFFIC_BLOCKS_TOLD_APART.
 */
struct traffic_payer {
	__u32 drains; /* live.drains when ring_bytes was last set to 0 */
	__u32 ring_bytes;
	__u32 acknowledged_sweep; /* live.acknowledged_sweep when `deferred` was last set to 0 */
	__u32 deferred;
	__u32 storage_failed; /* whether any socket of the payer ever failed to get storage */
	__u32 shared_sockets; /* open sockets with a struct traffic_further for which this payer pays */
};

/*
 * Key of the `rows` map. The daemon raises the generation. When no program can still be adding to the rows of the previous
 * generation, the daemon reads and then removes them.
 */
struct traffic_row_key {
	__u64 start_boottime_ns; /* of the process; 0 for the row of a user */
	__u32 id; /* tgid; of a user's row the id of the payer */
	__u32 generation;
};

/*
 * Bytes that no record of a socket reports: of sockets that closed without room for a record, of calls on sockets
 * without storage, and of processes that found no room among a socket's owners. Rows are per process. If a user has too
 * many rows, the bytes go to the user's row. If all rows are full, they go to the generation's row in `common_rows`.
 */
struct traffic_row {
	/* of a user's row only the id of the payer and the bytes; in `common_rows` only the bytes */
	struct traffic_owner owner;
	struct traffic_payload wire;
	__u64 retransmitted_bytes;
	__u64 sockets; /* closed sockets */
	__u64 processes; /* how many rows of processes there are: in a user's row, of the user; in `common_rows`, of all */
};

/* Key of the `executed` map. */
struct traffic_process_key {
	__u64 start_boottime_ns;
	__u32 tgid;
	__u32 pad;
};

/* Value of the `executed` map. */
struct traffic_execution {
	__u64 boottime_ns;
	__u32 uid;
	__u32 pad;
	char name[TRAFFIC_NAME_LENGTH];
};

/* Key of the `interfaces` map. All fields are 0 for packets that found no room in the map. */
struct traffic_interface_key {
	__u32 network_namespace; /* inode number */
	__u32 index; /* ifindex within that namespace, combined with live.interface_mark */
};

/* Key of the `early` map: a connection that is not established yet. The value is a number of bytes. */
struct traffic_tuple {
	__u8 local_address[TRAFFIC_ADDRESS_LENGTH];
	__u8 remote_address[TRAFFIC_ADDRESS_LENGTH];
	__u32 network_namespace;
	__u16 local_port;
	__u16 remote_port;
};

/* Packets that passed an interface in one direction, without link headers. */
struct traffic_interface_bytes {
	__u64 packets; /* skbs: an aggregate of segmentation offload counts once */
	__u64 ip_bytes; /* of IPv4 and IPv6; the headers of an aggregate count once */
	__u64 other_bytes; /* of other protocols, such as ARP */
	__u64 offloaded_packets; /* additional packets that the aggregates stand for */
	__u64 offloaded_bytes; /* headers of the offloaded_packets */
	__u64 fragment_bytes; /* headers of IP fragments, beyond the headers of the whole packet */
	__u64 socket_bytes; /* wire bytes of sockets, as in their struct traffic_wire */
	__u64 no_socket_bytes; /* sent only: wire bytes of packets without a socket */
	/* sent only: SYN-ACKs; some kernels show them to the listener's hook and some do not (IPv6 before 6.7) */
	__u64 answer_bytes;
};

/* Value of the `interfaces` map, per processor. */
struct traffic_interface {
	struct traffic_interface_bytes sent;
	struct traffic_interface_bytes received;
};

/*
 * Conservation: closed_sockets = closed_submitted + closed_deferred + closed_folded + closed_empty. Every byte that a
 * hook saw is in an owner, in a socket's unowned bytes or in a row, except the bytes that sockets_lost and
 * returns_missed count.
 */
struct traffic_loss {
	__u64 closed_sockets;
	__u64 closed_submitted;
	/* no room in the ring or the user's part: the record waits in `deferred` for the next sweep, nothing is lost */
	__u64 closed_deferred;
	__u64 closed_empty; /* moved nothing and has no record yet: nothing to report */
	__u64 closed_folded; /* added to rows; only the totals per socket are lost */
	/* of these, sockets that the daemon may list and whose serial found no room in `unrecorded_ends` */
	__u64 unrecorded_ends_lost;
	__u64 calls_folded; /* calls whose bytes went to a row, because the socket or the process found no room */
	/*
	 * TCP reads on a socket without storage: a row has what recv() returned, not what splice() took. Method
	 * `lifecycle`: sockets that ended without storage, whose bytes are in no sum.
	 */
	__u64 sockets_lost;
	/* packets that passed an interface and were not counted, not even in the element for packets without room */
	__u64 interfaces_lost;
	__u64 returns_missed; /* calls of the `kprobe` method whose entry was seen and whose return was not */
	/* execve(2) calls while `executed` was full: nothing is lost, the daemon reads the names from /proc */
	__u64 executions_missed;
};

#endif
