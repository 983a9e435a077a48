/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sweep and the walk over network namespaces, which report open sockets. The daemon runs these programs, and those
 * of adopt.bpf.h. The kernel runs all other programs (the hooks).
 */
#ifndef ITERATE_BPF_H
#define ITERATE_BPF_H

#include "account.bpf.h"
#include "closing.bpf.h"
#include "compat.bpf.h"
#include "maps.bpf.h"
#include "receive.bpf.h"
#include "records.bpf.h"
#include "send.bpf.h"
#include "socket.bpf.h"
#include "streams.bpf.h"

/* The part of activity() that the programs count. */
static __always_inline u64 counted_activity(const struct traffic_socket *socket)
{
	u64 sum = socket->unowned_sent_bytes + socket->unowned_received_bytes + wire_sum(&socket->wire_sent) +
		  wire_sum(&socket->wire_received);

	if (is_shared(socket))
		sum += socket->further.sent_bytes + socket->further.received_bytes;
#pragma unroll
	for (int i = 0; i < TRAFFIC_INLINE_OWNERS; i++)
		sum += socket->owners[i].sent_bytes + socket->owners[i].received_bytes + socket->owners[i].tgid;
	return sum;
}

/*
 * The part of activity() that the kernel counts. The lengths of the two streams go on through all connections of the
 * socket: nobody can move bytes and then, with TCP_REPAIR, make these numbers what they were.
 */
static __always_inline u64 kernel_activity(const struct traffic_socket *socket, const struct sock *sk,
					   const struct tcp_sock *tcp)
{
	u64 sum = ((u64)READ(sk, __sk_common.skc_state) << 56) + ((u64)READ(sk, __sk_common.skc_dport) << 40) + 1;

	if (tcp) {
		sum += (u64)READ(tcp, segs_out) + READ(tcp, segs_in);
		if (socket->send_phase == SEND_OPEN)
			sum += (u32)(READ(tcp, write_seq) - socket->send_start);
		if (fixed.counts_streams)
			sum += (u32)(READ(tcp, copied_seq) - (u32)socket->receive_mark);
	}
	return sum;
}

/*
 * A number that changes whenever any counter or state of the socket changes. Read kernel_activity() first: what moves
 * after that changes the number of the next sweep.
 */
static __always_inline u64 activity(const struct traffic_socket *socket, u64 of_kernel)
{
	return counted_activity(socket) + of_kernel;
}

/*
 * Who walks. The sweep is the daemon's thread that counts, and reads the records from the iterator. The walk over
 * network namespaces is a process of its own, so what it finds goes to the ring, in order with the ends of sockets.
 */
enum walk { SWEEP = 0, NAMESPACE_WALK = 1 };

/* Whether the walk is to report the socket. `mark` is the activity() of the record. */
static __always_inline bool is_news(const struct traffic_socket *socket, u64 mark, enum walk walk)
{
	if (mark != socket->swept_mark)
		return true;
	if (walk == SWEEP)
		return live.report_all;
	return live.report_unacknowledged && has_last_record(socket) && !outlives_daemon(&socket->last_record);
}

/*
 * Hands over a record with this activity(). Call this between trylock_record() and unlock_record(). Returns false if
 * there is no room.
 */
static __always_inline bool hand_over(struct traffic_socket *socket, struct traffic_further *further,
				      struct traffic_shared_record *copy, u64 mark, struct seq_file *seq, enum walk walk)
{
	struct traffic_socket *record = &copy->socket;
	struct traffic_payer *payer;

	record->record = socket->record + 1;
	if (walk == SWEEP) {
		/* If the reader's buffer is full, the kernel drops this record and calls the program again for the socket. */
		if (further ? bpf_seq_write(seq, copy, sizeof(*copy)) : bpf_seq_write(seq, record, sizeof(*record)))
			return false;
	} else {
		payer = payer_of(record);
		if (!(further ? put_in_ring(payer, copy, sizeof(*copy)) : put_in_ring(payer, record, sizeof(*record))))
			return false; /* the next walk reports this socket */
	}
	socket->record++;
	note_last_record(socket, further, record, walk, walk == SWEEP ? live.sweeps : live.acknowledged_sweep);
	if (walk == SWEEP)
		socket->last_record.swept = live.sweeps;
	socket->swept_mark = mark;
	return true;
}

#ifdef SOCKETS_IN_HASH
/*
 * Reports a socket if it changed. Meanwhile the socket may end, and its element may become another socket's. So the
 * function reads everything into the copy, and hands the copy over only if the element still belongs to the same socket.
 * The function copies the counters after reading the length of the stream.
 */
static __always_inline int sweep_socket(struct sock *sk, struct traffic_socket *socket, struct seq_file *seq, enum walk walk)
{
	struct traffic_shared_record *buffer;
	struct traffic_further *further;
	struct traffic_socket *copy;
	const struct tcp_sock *tcp;
	u64 before, of_kernel, mark, serial;
	u32 key = walk;

	buffer = bpf_map_lookup_elem(&copies, &key);
	if (!socket || !buffer || !socket->serial || socket->closed_boottime_ns)
		return 0;
	copy = &buffer->socket;
	before = *(volatile u64 *)&socket->swept_mark;
	tcp = tcp_of(sk);
	of_kernel = kernel_activity(socket, sk, tcp);
	barrier();
	__builtin_memcpy(copy, socket, sizeof(*copy));
	barrier();
	read_addresses(copy, sk);
	if (!copy->cookie)
		copy->cookie = cookie_of(sk, sk);
	if (tcp) {
		read_tcp_counters(copy, sk, tcp, copy->state);
		copy->stream_sent = read_stream_sent(copy, sk, tcp);
	} else {
		note_lost_datagrams(copy, sk);
	}
	barrier();
	copy->unowned_sent_bytes = socket->unowned_sent_bytes;
	copy->unowned_received_bytes = socket->unowned_received_bytes;
	__builtin_memcpy(copy->owners, socket->owners, sizeof(copy->owners));
	further = is_shared(copy) ? further_of(sk) : NULL;
	copy_further(buffer, further, walk);
	if (tcp && (READ(sk, sk_lock.owned) ||
		    copy->tcp_sent_bytes != copy->earlier_sent_bytes + READ(tcp, bytes_sent) ||
		    copy->unread_bytes != unread_bytes(sk, tcp)))
		copy->flags |= TRAFFIC_SOCKET_BUSY;
	hide_unfinished_owners(copy);
	serial = copy->serial;
	mark = activity(copy, of_kernel);
	if (!is_news(socket, mark, walk) || !trylock_record(socket, serial))
		return 0;
	if (copy->wire_is_estimated && socket->serial == serial)
		socket->wire_is_estimated = 1;
	/* If the other walk has reported the socket since, its record may be newer than this copy. */
	if (socket->serial == serial && !socket->closed_boottime_ns && socket->swept_mark == before)
		hand_over(socket, further, buffer, mark, seq, walk);
	unlock_record(socket, serial);
	return 0;
}

/* One pass over the hash. */
SEC("iter/bpf_map_elem")
int sweep_sockets(struct bpf_iter__bpf_map_elem *context)
{
	u64 *key = context->key, address;

	if (!key)
		return 0;
	address = *key;
	return sweep_socket((struct sock *)address, storage_at(address), context->meta->seq, SWEEP);
}
#else
/* Method lifecycle: bytes that only TCP's numbers have. */
static __always_inline u64 uncounted_bytes(struct traffic_socket *socket, const struct sock *sk,
					   const struct tcp_sock *tcp)
{
	if (fixed.counts_streams && tcp) {
		struct traffic_payload moved = streams_moved(socket, socket, sk, tcp);

		return moved.sent_bytes + moved.received_bytes;
	}
	return 0;
}

/*
 * The sweep has no socket lock. Between two writes of count_streams(), or after close(2) or shutdown(2) has set the state
 * and before it has sent the FIN, the sweep finds too few bytes. A counter never falls, so the copy gets at least what
 * the last record had.
 */
static __always_inline void raise_to_last_record(struct traffic_socket *copy, const struct traffic_last_record *last)
{
	const struct traffic_payload *known = &last->owners[0];
	struct traffic_owner *owner = &copy->owners[0];

	if (last->serial != copy->serial)
		return;
	if (owner->sent_bytes < known->sent_bytes)
		owner->sent_bytes = known->sent_bytes;
	if (owner->received_bytes < known->received_bytes)
		owner->received_bytes = known->received_bytes;
}

/* tcp_of() from our storage, which saves one of the kernel's cache lines. */
static __always_inline const struct tcp_sock *tcp_of_stored(const struct traffic_socket *socket, struct sock *sk)
{
	return socket->protocol == IPPROTO_TCP && socket->type == SOCK_STREAM ? read_as_tcp(sk) : NULL;
}

/*
 * Whether the socket has moved nothing since its last record. Most of many sockets are idle. For an idle socket the
 * sweep does only this, which reads few cache lines. With a sk_user_data no socket is idle until stream_length() has set
 * SEND_FOREIGN.
 */
static __always_inline bool is_idle(const struct traffic_socket *socket, const struct sock *sk, const struct tcp_sock *tcp,
				    u64 of_kernel)
{
	if (tcp && !fixed.counts_streams && socket->send_phase != SEND_FOREIGN && READ(sk, sk_user_data))
		return false;
	return activity(socket, of_kernel) == socket->swept_mark;
}

/* Reports a socket if it changed since its last record. */
static __always_inline int sweep_socket(struct sock *sk, struct traffic_socket *socket, struct seq_file *seq, enum walk walk)
{
	bool is_asked = walk == SWEEP ? live.report_all : live.report_unacknowledged;
	struct traffic_shared_record *buffer;
	struct traffic_further *further;
	struct traffic_socket *copy;
	const struct tcp_sock *tcp = tcp_of_stored(socket, sk);
	u64 of_kernel = kernel_activity(socket, sk, tcp), mark;
	bool is_whole = true;
	u32 key = walk;

	barrier();
	/*
	 * No hook sees the end of an AF_PACKET socket. The daemon notices the end when the sweep no longer lists the
	 * socket.
	 */
	if (!is_asked && !is_packet(sk) && is_idle(socket, sk, tcp, of_kernel))
		return 0;
	if (!socket->serial || socket->closed_boottime_ns)
		return 0;
	tcp = tcp_of(sk); /* the storage may have been in the making */
	buffer = bpf_map_lookup_elem(&copies, &key);
	if (!buffer || !trylock_record(socket, socket->serial))
		return 0; /* the other walk is reporting this socket */
	copy = &buffer->socket;
	read_addresses(socket, sk);
	if (tcp) {
		read_tcp_counters(socket, sk, tcp, socket->state);
		socket->stream_sent = read_stream_sent(socket, sk, tcp);
	} else {
		note_lost_datagrams(socket, sk);
	}
	/* The socket was created but is not connected yet. */
	if (tcp && socket->state == TCP_CLOSE && !has_last_record(socket) && moved_nothing(socket) &&
	    !uncounted_bytes(socket, sk, tcp))
		goto end;
	/*
	 * The walk over network namespaces has locked the socket; the sweep has not. If bytes moved during the copy, TCP's
	 * own counters show that.
	 */
	barrier();
	__builtin_memcpy(copy, socket, sizeof(*copy));
	further = is_shared(copy) ? further_of(sk) : NULL;
	copy_further(buffer, further, walk);
	barrier();
	if (tcp && ((walk == SWEEP && sk->sk_lock.owned) ||
		    copy->tcp_sent_bytes != copy->earlier_sent_bytes + tcp->bytes_sent ||
		    copy->unread_bytes != unread_bytes(sk, tcp)))
		copy->flags |= TRAFFIC_SOCKET_BUSY;
	hide_unfinished_owners(copy);
	mark = activity(copy, of_kernel);
	/* Without an owner the bytes come with a later sweep. */
	if (fixed.counts_streams && tcp && copy->owners[0].start_boottime_ns) {
		struct traffic_payload moved = streams_moved_unlocked(socket, copy, sk, tcp, &is_whole);

		copy->owners[0].sent_bytes += moved.sent_bytes;
		copy->owners[0].received_bytes += moved.received_bytes;
		raise_to_last_record(copy, &socket->last_record);
		if (!is_whole)
			mark = ~mark; /* so the next sweep looks again */
	}
	if (!socket->closed_boottime_ns && (is_packet(sk) || is_news(socket, mark, walk)))
		hand_over(socket, further, buffer, mark, seq, walk);
end:
	unlock_record(socket, socket->serial);
	return 0;
}

/* One pass over the storage of all sockets, in every network namespace. 100,000 sockets take about 25 ms (Linux 6.18). */
SEC("iter/bpf_sk_storage_map")
int sweep_sockets(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct sock *sk = context->sk;
	struct traffic_socket *socket = context->value;

	return sk && socket ? sweep_socket(sk, socket, context->meta->seq, SWEEP) : 0;
}
#endif

/*
 * The substitute for the pass above, where the kernel refuses that one or where it is not safe: one pass over the
 * sockets that processes hold. The pass over the storage is not safe since 5d800f87d0a5 ("bpf: Support lockless unlink
 * when freeing map or local storage", Linux 7.0). If a socket is freed while that pass looks at its storage, the kernel
 * follows a null pointer in __bpf_sk_storage_map_seq_show(). Any user who closes sockets could cause that. In this pass
 * the file keeps the socket alive.
 *
 * The pass comes to a socket once for each descriptor. It reports the socket once: else one user's descriptors of a busy
 * socket would keep everybody's numbers waiting.
 */
SEC("iter/task_file")
int sweep_held_sockets(struct bpf_iter__task_file *context)
{
	struct sock *sk = counted_sock_of(context->file);
	struct traffic_socket *storage;

	if (!sk)
		return 0;
	storage = storage_of(sk);
	if (!storage || storage->last_record.swept == live.sweeps)
		return 0;
	return sweep_socket(sk, storage, context->meta->seq, SWEEP);
}

/*
 * Beside the pass above: passes over the TCP and the UDP sockets of the reader's network namespace. They find the
 * sockets that no process holds: those that wait to be accepted, that are in flight in an SCM_RIGHTS message, that are
 * registered with io_uring, or that TCP still works for after the process has closed them. Their output is the serials
 * of all sockets with storage. Since Linux 5.15 (TCP) and 6.5 (UDP) the kernel locks each socket meanwhile, so whoever
 * keeps a socket's lock keeps this walk waiting.
 */
static __always_inline int visit_of_namespace(struct sock *sk, struct seq_file *seq)
{
	struct traffic_socket *socket = storage_of(sk);
	u64 serial;

	if (!socket || socket->closed_boottime_ns)
		return 0;
	serial = socket->serial;
	/* If the reader's buffer is full, the kernel calls the program again for this socket. */
	if (!serial || bpf_seq_write(seq, &serial, sizeof(serial)))
		return 0;
	return sweep_socket(sk, socket, seq, NAMESPACE_WALK);
}

SEC("iter/tcp")
int sweep_tcp_sockets(struct bpf_iter__tcp *context)
{
	struct sock_common *common = context->sk_common;
	struct tcp_sock *tcp = common ? bpf_skc_to_tcp_sock(common) : NULL;

	return tcp ? visit_of_namespace((struct sock *)tcp, context->meta->seq) : 0;
}

SEC("iter/udp")
int sweep_udp_sockets(struct bpf_iter__udp *context)
{
	struct udp_sock *udp = context->udp_sk;

	return udp ? visit_of_namespace((struct sock *)udp, context->meta->seq) : 0;
}

#endif
