/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Beginnings and ends of sockets, and new names of processes. Every BPF method uses these programs; `kprobe` has
 * `socket_released` (kprobe.bpf.h) beside `socket_release`. `lifecycle` has only these and iterators (iterate.bpf.h,
 * adopt.bpf.h).
 */
#ifndef LIFETIMES_BPF_H
#define LIFETIMES_BPF_H

#include "account.bpf.h"
#include "closing.bpf.h"
#include "compat.bpf.h"
#include "early.bpf.h"
#include "maps.bpf.h"
#include "receive.bpf.h"
#include "send.bpf.h"
#include "socket.bpf.h"
#include "streams.bpf.h"

/*
 * The role of an SCTP socket. SCTP's sockets of one association go directly from closed to established. A client's
 * socket does so in connect(). A socket that accept() makes has no struct socket yet (sctp_accept()).
 */
static __always_inline u8 sctp_role(const struct sock *sk)
{
	return READ(sk, sk_socket) ? TRAFFIC_ROLE_CLIENT : TRAFFIC_ROLE_SERVER;
}

/*
 * connect(), before the SYN is sent. A socket may connect again after it was disconnected or refused. The times belong
 * to the last connection, and stay when that connection closes. The order of the writes matters: a reader must never
 * combine the end of one connection with the beginning of the next.
 */
static __always_inline void begin_handshake(struct traffic_socket *socket)
{
	socket->established_boottime_ns = 0;
	barrier();
	socket->connecting_boottime_ns = bpf_ktime_get_boot_ns();
}

/*
 * If connect() was not seen, the socket has no time of connecting, so it gets no time of being established either.
 * Accepted sockets have neither time.
 */
static __always_inline void end_handshake(struct traffic_socket *socket)
{
	if (socket->connecting_boottime_ns && !socket->established_boottime_ns)
		socket->established_boottime_ns = bpf_ktime_get_boot_ns();
}

/*
 * connect() and listen() run in the process, so its name is kept even if it never moves a byte. If the peer's packet
 * establishes the connection, no process is known yet.
 */
static __always_inline int state_changed(struct sock *sk, int old_state, int new_state)
{
	struct traffic_socket *socket;
	const struct tcp_sock *tcp;

	/* A server's socket with data of TCP Fast Open may be closed before the handshake ends. */
	if (fixed.counts_streams && old_state == TCP_SYN_RECV && new_state == TCP_FIN_WAIT1)
		new_state = TCP_ESTABLISHED;
	if (new_state != TCP_SYN_SENT && new_state != TCP_ESTABLISHED && new_state != TCP_LISTEN && new_state != TCP_CLOSE)
		return 0;
	tcp = tcp_of(sk);
	/* An MPTCP or SMC subflow: the socket above counts. Only such a subflow has no storage. */
	if (tcp && has_upper_layer(tcp) && !(fixed.counts_streams && new_state == TCP_CLOSE))
		return 0;
	if (!tcp && fixed.counts_streams)
		return 0;
	if (!tcp && READ(sk, sk_protocol) != IPPROTO_MPTCP && READ(sk, sk_protocol) != IPPROTO_SCTP && READ(sk, sk_protocol) != IPPROTO_DCCP)
		return 0;
	if (new_state == TCP_CLOSE) {
		socket = tcp ? storage_of(sk) : NULL;
		if (socket) {
			end_sending(socket, tcp, old_state);
			read_tcp_counters(socket, sk, tcp, old_state);
			if (fixed.derives_wire && is_abort(old_state, new_state))
				socket->wire_is_estimated = 1;
			if (fixed.counts_streams)
				end_streams(socket, sk, tcp);
		}
		return 0;
	}
	socket = find_socket(sk);
	if (!socket)
		return 0;
	/* the first connection of this socket is not older than the capture, even while the baseline is taken */
	if (!socket->receive_mark)
		CLEAR_BITS(socket->flags, TRAFFIC_SOCKET_PREEXISTING);
	if (!socket->opened_boottime_ns)
		socket->opened_boottime_ns = bpf_ktime_get_boot_ns();
	read_addresses(socket, sk);
	socket->state = new_state;
	switch (new_state) {
	case TCP_SYN_SENT:
		socket->role = TRAFFIC_ROLE_CLIENT;
		if (fixed.counts_streams && tcp) {
			note_holder(socket, READ(sk, sk_uid.val), current_task());
			count_streams(socket, sk, tcp); /* of an earlier connection */
		}
		begin_connecting(socket);
		begin_connection(socket, sk);
		begin_streams(socket);
		begin_handshake(socket);
		find_owner(socket, sk, current_task());
		break;
	case TCP_LISTEN:
		socket->role = TRAFFIC_ROLE_LISTENER;
		find_owner(socket, sk, current_task());
		break;
	case TCP_ESTABLISHED:
		/*
		 * Two clients that connect to each other pass through SYN_RECV. MPTCP clones its listener, so the clone
		 * starts in TCP_LISTEN.
		 */
		if (old_state == TCP_SYN_SENT)
			socket->role = TRAFFIC_ROLE_CLIENT;
		else if (socket->role != TRAFFIC_ROLE_CLIENT && (old_state == TCP_SYN_RECV || old_state == TCP_LISTEN))
			socket->role = TRAFFIC_ROLE_SERVER;
		else if (socket->protocol == IPPROTO_SCTP && socket->type == SOCK_STREAM && old_state == TCP_CLOSE)
			socket->role = sctp_role(sk);
		end_handshake(socket);
		/* A socket that was disconnected and connects again starts a new sequence. Its totals go on. */
		if (tcp) {
			socket->receive_mark = RECEIVE_MARK_KNOWN |
					       (fixed.counts_streams ? first_received(tcp) : READ(tcp, copied_seq));
			begin_sending(socket, tcp);
			take_early(socket);
			if (fixed.derives_wire)
				count_handshake(socket, sk, tcp, socket->role == TRAFFIC_ROLE_SERVER);
		}
		break;
	}
	return 0;
}

/* The end of a TCP socket: after close() and after the last acknowledgement. */
static __always_inline int destroyed(struct sock *sk)
{
	struct traffic_socket *socket = storage_of(sk);
	const struct tcp_sock *tcp;

	tcp = tcp_of(sk);
	if (!socket) {
		/* Before the baseline is done, sockets older than the capture have no storage yet, and none is needed. */
		if (live.baseline_done && fixed.counts_streams && tcp && !has_upper_layer(tcp) &&
		    accepted_bytes(tcp) + READ(tcp, bytes_received))
			COUNT_LOSS(sockets_lost, 1);
		return 0;
	}
	if (tcp) {
		/* not socket->state, which may be from before a disconnect */
		read_tcp_counters(socket, sk, tcp, READ(sk, __sk_common.skc_state));
		if (fixed.counts_streams)
			count_streams(socket, sk, tcp);
		else if (live.calls_missed)
			count_missed_bytes(socket, sk, tcp);
		socket->stream_sent = read_stream_sent(socket, sk, tcp);
	}
	socket->state = TCP_CLOSE;
	close_socket(socket, is_shared(socket) ? further_of(sk) : NULL);
	drop_storage(sk);
	return 0;
}

/*
 * The daemon attaches each of these programs twice. While a program runs on a processor, the kernel skips the same
 * program for events that interrupt it there. Example: a softirq ends a connection while a process ends another
 * (200,000 connections: up to 842 times on 6.18). The twin is not running then, so the twin sees the event. Running
 * both changes nothing.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(socket_state, struct sock *sk, int old_state, int new_state)
{
	return state_changed(sk, old_state, new_state);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(socket_state_twin, struct sock *sk, int old_state, int new_state)
{
	return state_changed(sk, old_state, new_state);
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tcp_destroy, struct sock *sk)
{
	return destroyed(sk);
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(tcp_destroy_twin, struct sock *sk)
{
	return destroyed(sk);
}

/*
 * inet_release(): the last reference to the file is gone, so no further call can add bytes. The program is attached to
 * the root of the cgroup hierarchy, and the kernel ignores its return value. A TCP socket goes on after this, and ends
 * in tcp_destroy above. Where that end may be missed, or calls were, this program reports what the calls on a TCP
 * socket have moved. The kernel does not skip this program for the same reason (but see process 1 in
 * TrafficCapture.md).
 */
SEC("cgroup/sock_release")
int socket_release(struct bpf_sock *context)
{
	struct traffic_socket *socket = storage_of_context(context);
	struct traffic_further *further;

	if (!socket)
		return 1;
	if (fixed.counts_streams) {
		note_holder(socket, BPF_CORE_READ((struct sock *)context, sk_uid.val), current_task());
		return 1;
	}
	further = is_shared(socket) ? further_of_context(context) : NULL;
	if (socket->protocol == IPPROTO_TCP && socket->type == SOCK_STREAM) {
		if (live.calls_missed || fixed.leaves_totals)
			leave_totals(socket, further);
		return 1;
	}
	/* The socket may have begun and ended between two sweeps. */
	if (!socket->closed_boottime_ns)
		probe_addresses(socket, context);
	note_left_datagrams(socket, context);
	close_socket(socket, further);
	drop_storage_of_context(context);
	return 1;
}

#ifdef SOCKETS_IN_HASH
/* A new socket may have the address of an earlier socket whose end no program saw. Closes that earlier socket. */
static __always_inline void socket_end_missed(struct bpf_sock *context)
{
	u64 address = address_of(context);
	struct traffic_socket *socket = storage_at(address);

	if (!socket)
		return;
	close_socket(socket, is_shared(socket) ? further_at(address) : NULL);
	drop_storage_at(address);
}
#endif

/*
 * A process creates a socket. The storage is made here for two reasons: packets may arrive before the process moves its
 * first byte, and the process may later use up the memory that the socket may take. This does not run for sockets that
 * the kernel makes for itself, nor for accepted sockets: state_changed() gives those their storage.
 */
SEC("cgroup/sock_create")
int socket_create(struct bpf_sock *context)
{
	struct traffic_socket *socket;

#ifdef SOCKETS_IN_HASH
	bpf_get_socket_cookie(context); /* gives the socket a cookie */
	socket_end_missed(context);
	if (context->protocol == IPPROTO_TCP && context->type == SOCK_STREAM)
		return 1;
#endif
	if (fixed.counts_streams && !(context->protocol == IPPROTO_TCP && context->type == SOCK_STREAM))
		return 1;
	socket = make_storage_of_context(context);
	if (!socket)
		return 1; /* the first call that moves bytes tries again */
	socket->family = context->family;
	socket->protocol = context->protocol;
	socket->type = context->type;
	socket->state = TCP_CLOSE;
	socket->network_namespace = BPF_CORE_READ((struct sock *)context, __sk_common.skc_net.net, ns.inum);
	socket->opened_boottime_ns = bpf_ktime_get_boot_ns();
	if (!live.baseline_done)
		socket->flags = TRAFFIC_SOCKET_PARTIAL;
	socket->cookie = bpf_get_socket_cookie(context);
	socket->uid = BPF_CORE_READ((struct sock *)context, sk_uid.val);
	number_socket(socket);
	return 1;
}

/*
 * A process has called execve(2), so it has a new name. The sockets that the process holds keep the name from their
 * first use, so the daemon gets the new name. If the map is full, a counter says so, and the daemon reads all names
 * from /proc.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_executed, struct task_struct *task)
{
	struct task_struct *leader = READ(task, group_leader);
	struct traffic_process_key key = { .start_boottime_ns = READ(leader, start_boottime) ?: 1, .tgid = READ(task, tgid) };
	struct traffic_execution execution = { .boottime_ns = bpf_ktime_get_boot_ns(), .uid = READ(task, cred, uid.val) };

	bpf_core_read(execution.name, sizeof(execution.name), &leader->comm);
	if (bpf_map_update_elem(&executed, &key, &execution, BPF_ANY))
		COUNT_LOSS(executions_missed, 1);
	return 0;
}

#endif
