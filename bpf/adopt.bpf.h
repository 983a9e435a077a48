/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sockets that are older than the capture, and those that no process has used yet. The daemon runs these programs.
 */
#ifndef ADOPT_BPF_H
#define ADOPT_BPF_H

#include "account.bpf.h"
#include "compat.bpf.h"
#include "maps.bpf.h"
#include "receive.bpf.h"
#include "records.bpf.h"
#include "send.bpf.h"
#include "socket.bpf.h"
#include "streams.bpf.h"

/* Gives storage to a socket older than the capture, or to a socket that no process has used yet. */
static __always_inline struct traffic_socket *adopt(struct sock *sk)
{
	struct traffic_socket *socket = find_socket(sk);

	if (socket && READ(sk, __sk_common.skc_state) == TCP_LISTEN)
		socket->role = TRAFFIC_ROLE_LISTENER;
	return socket;
}

/*
 * TCP's counters began with the connection. Notes them as if a record had them, so that no row gets bytes from before
 * the capture.
 */
static __always_inline void note_earlier_counters(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	read_tcp_counters(socket, sk, tcp, socket->state);
	socket->last_record.retransmitted_bytes = socket->retransmitted_bytes;
	if (fixed.derives_wire)
		socket->last_record.wire = wire_of(socket);
	barrier();
	socket->last_record.serial = socket->serial;
}

static __always_inline void start_counting(struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp)
{
	if (fixed.counts_streams)
		adopt_streams(socket, sk, tcp);
	else
		start_receive(socket, delivered_sequence(sk, tcp));
}

/*
 * Passes over the sockets that processes hold. Gives storage to the sockets older than the capture, and an owner to the
 * sockets that no process has used yet (an idle accepted connection).
 */
SEC("iter/task_file")
int adopt_held_sockets(struct bpf_iter__task_file *context)
{
	struct task_struct *task = context->task;
	struct sock *sk = counted_sock_of(context->file);
	struct traffic_socket *storage;
	const struct tcp_sock *tcp;

	if (!task || !sk)
		return 0;
	tcp = tcp_of(sk);
	if (fixed.counts_streams && !tcp)
		return 0;
	storage = adopt(sk);
	if (!storage)
		return 0;
	if (tcp && !live.baseline_done) {
		start_counting(storage, sk, tcp);
		adopt_sending(storage, sk, tcp);
		note_earlier_counters(storage, sk, tcp);
	}
	if (fixed.counts_streams)
		note_holder(storage, READ(sk, sk_uid.val), task);
	else if (!storage->owners[0].start_boottime_ns)
		find_or_take_slot(storage, task, 0);
	return 0;
}

/*
 * Passes over the TCP sockets of the reader's network namespace. This also finds the sockets that no process holds:
 * sockets that wait to be accepted, that are in flight in an SCM_RIGHTS message, or that are registered with io_uring.
 * The kernel holds the socket lock meanwhile.
 */
SEC("iter/tcp")
int adopt_tcp_sockets(struct bpf_iter__tcp *context)
{
	struct sock_common *common = context->sk_common;
	struct traffic_socket *storage;
	struct tcp_sock *tcp;

	if (!common || live.baseline_done)
		return 0;
	tcp = bpf_skc_to_tcp_sock(common);
	if (!tcp || !received_by_sequence(tcp))
		return 0;
	storage = adopt((struct sock *)tcp);
	if (storage) {
		start_counting(storage, (struct sock *)tcp, tcp);
		adopt_sending(storage, (struct sock *)tcp, tcp);
		note_earlier_counters(storage, (struct sock *)tcp, tcp);
	}
	return 0;
}

#endif
