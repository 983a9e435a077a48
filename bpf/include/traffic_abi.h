/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel side and the Swift side agree on: fixed width, 8-aligned, explicit padding, never packed.
 * A test compares every field's offset here with the offset in the BPF object's BTF.
 *
 * There is one record of a socket, struct traffic_socket. It is the value of the socket storage, the line the sweep writes,
 * the ring-buffer record of a closed socket and the value of the `deferred` map. Its counters are cumulative, so
 * reading one twice or late is harmless. A closed socket that finds no room for such a record adds its bytes to its
 * processes' rows instead: struct traffic_row.
 */
#ifndef TRAFFIC_ABI_H
#define TRAFFIC_ABI_H

#ifndef __bpf__
#include <linux/types.h>
#endif

enum traffic_limit {
	TRAFFIC_NAME_LENGTH = 16, /* TASK_COMM_LEN */
	TRAFFIC_ADDRESS_LENGTH = 16, /* an IPv4 address is written v4-mapped, RFC 4291 section 2.5.5.2 */
	TRAFFIC_INLINE_OWNERS = 2, /* further owners of one socket go to the `owners` map */
};

/* What packets of a TCP connection have for headers, as a rule: bytes (RFC 791, RFC 8200, RFC 9293, RFC 7323 with padding). */
enum traffic_header {
	TRAFFIC_IPV4_HEADER = 20,
	TRAFFIC_IPV6_HEADER = 40,
	TRAFFIC_TCP_HEADER = 20,
	TRAFFIC_TIMESTAMPS_OPTION = 12,
};

enum traffic_role {
	TRAFFIC_ROLE_UNKNOWN = 0,
	TRAFFIC_ROLE_CLIENT = 1,
	TRAFFIC_ROLE_SERVER = 2,
	TRAFFIC_ROLE_LISTENER = 3,
};

enum traffic_socket_flag {
	TRAFFIC_SOCKET_PREEXISTING = 1 << 0, /* older than the capture: counted from its baseline on */
	TRAFFIC_SOCKET_SHARED = 1 << 1, /* has owners in the `owners` map */
	TRAFFIC_SOCKET_BUSY = 1 << 2, /* in use while this was read: its counters may be of different moments */
	TRAFFIC_SOCKET_FRAMED = 1 << 3, /* the kernel uses the stream too: kTLS, a sockmap */
	TRAFFIC_SOCKET_PARTIAL = 1 << 4, /* its first packets may have passed before packets were counted */
	TRAFFIC_SOCKET_EARLY_UNKNOWN = 1 << 5, /* what came for it before it was established may have been forgotten: early_bytes may lack it */
};

/* In traffic_socket.stream_sent, above its 32 bits. */
enum traffic_stream_flag {
	TRAFFIC_STREAM_KNOWN = 1 << 0,
};

enum traffic_owner_flag {
	TRAFFIC_OWNER_KERNEL_THREAD = 1 << 0, /* PF_KTHREAD, or no process at all */
	TRAFFIC_OWNER_IN_MAP = 1 << 1, /* in the `owners` map and not in the socket's storage */
};

/* One process that used a socket. A slot is free while start_boottime_ns is 0. */
struct traffic_owner {
	__u64 start_boottime_ns; /* task_struct.start_boottime of the thread group leader */
	__u64 sent_bytes;
	__u64 received_bytes;
	__u32 tgid; /* in the initial PID namespace */
	__u32 uid;
	__u64 cgroup_id; /* of the cgroup v2 hierarchy */
	__u32 flags; /* enum traffic_owner_flag */
	__u32 pad;
	char name[TRAFFIC_NAME_LENGTH]; /* comm of the thread group leader when it first used the socket */
};

/*
 * IP packets of one direction by what they carry. The four add up to the wire bytes: packet lengths with IP and transport headers,
 * retransmissions too, without link headers.
 */
struct traffic_wire {
	__u64 payload_bytes; /* what the transport protocol carried */
	__u64 header_bytes; /* IP and transport headers of packets with payload */
	__u64 bare_bytes; /* packets without payload: acknowledgements, probes */
	__u64 control_bytes; /* headers of packets with SYN, FIN or RST */
};

/* Payload of one process, or of none. */
struct traffic_payload {
	__u64 sent_bytes;
	__u64 received_bytes;
};

/* Totals of a socket that user space has seen in a record. What a closing socket adds to a row is what it has beyond them. */
struct traffic_seen {
	__u64 serial; /* of the socket that they are of; another one's, or 0: user space has seen no record */
	struct traffic_payload owners[TRAFFIC_INLINE_OWNERS];
	struct traffic_payload unowned;
	struct traffic_payload wire; /* IP packets */
	__u64 retransmitted_bytes;
};

/*
 * The kernel keeps 8 bytes of its own before this in a cache line. What a call reads and writes stands in the next 48: the marks,
 * and the key and the counters of the first owner.
 */
struct traffic_socket {
	__u64 receive_mark; /* kernel only: TCP sequence up to which received bytes are counted, see receive.bpf.h */
	__u32 urgent_mark; /* kernel only: sequence number of the last urgent byte that was passed over */
	__u32 flags; /* enum traffic_socket_flag */
	struct traffic_owner owners[TRAFFIC_INLINE_OWNERS];
	/*
	 * Unique among the sockets of one capture. The cookie is not: accepted MPTCP sockets have that of their listener, because
	 * mptcp_sk_clone_init() copies it (seen on 6.18).
	 */
	__u64 serial;
	__u64 cookie; /* SO_COOKIE */
	__u64 swept_mark; /* kernel only: what the last sweep reported */
	__u64 opened_boottime_ns; /* 0: before the capture */
	__u64 closed_boottime_ns; /* 0: open */
	__u64 unowned_sent_bytes; /* whose they are is not known: calls were missed */
	__u64 unowned_received_bytes;
	__u64 overflow_sent_bytes; /* what owners in the `owners` map sent */
	struct traffic_payload in_rows; /* what processes moved that found no room in that map: rows have it, see struct traffic_row */
	__u64 retransmitted_bytes; /* tcp_sock.bytes_retrans */
	__u32 segments_sent; /* tcp_sock.segs_out */
	__u32 segments_received; /* tcp_sock.segs_in */
	__u32 smoothed_rtt_us;
	__u32 retransmitted_segments; /* tcp_sock.total_retrans */
	__u32 send_start; /* kernel only: the stream's sequence numbers, see send.bpf.h */
	__u32 send_end;
	__u64 stream_sent; /* all that TCP took, modulo 2^32, and TRAFFIC_STREAM_KNOWN */
	__u32 network_namespace; /* inode number, as in /proc/PID/ns/net */
	__u16 family; /* AF_INET, AF_INET6 */
	__u16 protocol; /* IPPROTO_* of the socket, 262 for MPTCP */
	__u16 local_port; /* host byte order */
	__u16 remote_port;
	__u8 state; /* TCP_ESTABLISHED … of net/tcp_states.h, also for protocols without a connection */
	__u8 role; /* enum traffic_role */
	__u8 type; /* SOCK_STREAM, SOCK_DGRAM, SOCK_RAW … */
	__u8 send_phase; /* kernel only: enum send_phase */
	__u8 local_address[TRAFFIC_ADDRESS_LENGTH];
	__u8 remote_address[TRAFFIC_ADDRESS_LENGTH];
	/* TCP's own account of the stream, over all connections of the socket: what a capture's counters are audited against. */
	__u64 tcp_sent_bytes; /* tcp_sock.bytes_sent: payload handed to IP, retransmissions too */
	__u64 tcp_received_bytes; /* tcp_sock.bytes_received without the FIN: payload in sequence, once */
	__u64 earlier_sent_bytes; /* kernel only: those of connections before the present one; retransmitted ones likewise */
	__u64 earlier_received_bytes;
	__u64 earlier_retransmitted_bytes;
	__u32 unsent_bytes; /* payload that the socket accepted and has not handed to IP */
	__u32 unread_bytes; /* payload that waits to be read */
	__s32 urgent_bytes; /* urgent bytes that the stream passed over, less those that recv(MSG_OOB) got */
	__u32 pad;
	__u64 early_bytes; /* payload that came in the handshake, in packets for the listener */
	/* The last connection that a client's socket began, from SYN_SENT to ESTABLISHED; 0: not seen, or not come to that. */
	__u64 connecting_boottime_ns;
	__u64 established_boottime_ns;
	struct traffic_wire wire_sent; /* counted by softirqs too: in cache lines of their own */
	struct traffic_wire wire_received;
	struct traffic_seen seen; /* kernel only, like what follows */
	__u64 teller; /* the serial while a program is writing a record of this socket, see ends.bpf.h */
	__u32 uid; /* of the process that made the socket */
	__u32 fences;
};

/*
 * Key of the `rows` and `user_rows` maps. User space raises the generation and reads the rows of the one before when no program can
 * be adding to them any more; then it removes them.
 */
struct traffic_row_key {
	__u64 start_boottime_ns; /* of the process; 0 in `user_rows` */
	__u32 id; /* tgid; in `user_rows` the uid */
	__u32 generation;
};

/*
 * What moved that no record of a socket tells: bytes of sockets that closed and found no room for a record, of calls on sockets
 * that could get no storage, and of owners beyond the `owners` map. By process; beyond what one user may have of such rows, by
 * user; beyond all rows, in the only element of `rest` of that generation.
 */
struct traffic_row {
	struct traffic_owner owner; /* in `user_rows` only the uid and the bytes, in `rest` only the bytes */
	struct traffic_payload wire;
	__u64 retransmitted_bytes;
	__u64 sockets; /* closed ones */
	__u64 processes; /* in `user_rows`: how many rows of `rows` are this user's */
};

/* Value of the `executed` map. */
struct traffic_name {
	char text[TRAFFIC_NAME_LENGTH];
};

/* Key of the `interfaces` map. All 0: whatever found no room. */
struct traffic_interface_key {
	__u32 network_namespace; /* inode number */
	__u32 index; /* ifindex, within that namespace, and traffic_told.interface_mark */
};

/* Key of the `early` map: a connection that a listener has not made yet. Its value is a number of bytes. */
struct traffic_tuple {
	__u8 local_address[TRAFFIC_ADDRESS_LENGTH];
	__u8 remote_address[TRAFFIC_ADDRESS_LENGTH];
	__u32 network_namespace;
	__u16 local_port;
	__u16 remote_port;
};

/* What passed an interface in one direction, without link headers. */
struct traffic_interface_bytes {
	__u64 packets; /* skbs: an aggregate of segmentation offload is one */
	__u64 ip_bytes; /* of IPv4 and IPv6, an aggregate with its headers once */
	__u64 other_bytes; /* of other protocols, such as ARP */
	__u64 offloaded_packets; /* how many more packets the aggregates stand for */
	__u64 offloaded_bytes; /* the headers of those */
	__u64 fragment_bytes; /* headers of IP fragments beyond those that the whole packet had */
	__u64 socket_bytes; /* wire bytes of sockets, as in their struct traffic_wire */
	__u64 no_socket_bytes; /* sent only: wire bytes of packets that are no socket's */
	__u64 answer_bytes; /* sent only: SYN-ACKs, which some kernels show to the listener's hook and some don't (IPv6 before 6.7) */
};

/* Value of the `interfaces` map, per processor. */
struct traffic_interface {
	struct traffic_interface_bytes sent;
	struct traffic_interface_bytes received;
};

/* Key of the `owners` map; its value is a struct traffic_owner. */
struct traffic_owner_key {
	__u64 serial; /* of the socket */
	__u64 start_boottime_ns;
	__u32 tgid;
	__u32 pad;
};

/* What user space tells the programs. */
struct traffic_told {
	__u32 baseline_done; /* every socket older than the capture has its storage; packets are counted from then on */
	__u32 calls_missed; /* this kernel leaves our programs out of calls now and then: see send.bpf.h */
	__u32 report_all; /* the sweep reports every socket, changed or not */
	__u32 interface_mark; /* 0 or 1 << 31: in which of two generations of elements packets of interfaces count */
	__u32 home_namespace; /* inode number of the daemon's network namespace */
	__u32 stranger_limit; /* how many interfaces of others a generation takes */
	__u32 generation; /* of the rows */
	__u32 drains; /* how often the ring was emptied: each time every user may fill his part of it again */
	__u32 sweeps; /* how many there were: each time every user may fill his part of the map `deferred` again */
	__u32 estimates_wire; /* packets are not seen: wire bytes of TCP are estimated from its counters */
	__u32 early_trust; /* with so many elements that nobody took, the `early` map has forgotten none */
	__u32 pad;
};

/*
 * Conservation: closed_sockets = closed_submitted + closed_deferred + closed_folded + closed_empty, and every byte that a hook saw
 * is in an owner, in a socket's unowned bytes or in a row, but for what shared_lost, sockets_lost and returns_missed count.
 */
struct traffic_loss {
	__u64 closed_sockets;
	__u64 closed_submitted;
	__u64 closed_deferred; /* the ring, or the user's part of it, had no room: waits in the `deferred` map for the next sweep, nothing lost */
	__u64 closed_empty; /* moved nothing, and user space has not seen it: nothing to tell */
	__u64 closed_folded; /* added to rows, nothing lost but the socket's own totals */
	__u64 gone_lost; /* of those, sockets that user space has seen and for whose serial the `gone` queue had no room */
	__u64 calls_folded; /* calls whose bytes a row has, because their socket or their process found no room */
	__u64 shared_lost; /* closed sockets of more than two processes that found no room: what the further ones moved is in no sum */
	__u64 sockets_lost; /* times TCP data was read from a socket without storage: a row has what recv() returned, nothing what splice() took */
	__u64 interfaces_lost; /* times a packet passed an interface and counted nowhere: not even in the element for what finds no room */
	__u64 returns_missed; /* calls of the `kprobe` rung that were begun and whose return was not seen */
	__u64 names_untold; /* times a process ran another program and the `executed` map was full: nothing is lost, user space asks /proc */
};

#endif
