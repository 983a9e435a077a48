// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that trafficd's programs are compared with in the same run (scripts/bench), on the hooks of method
 * `tracepoint`:
 *
 * bump_*  the cheapest program that counts anything: shows what the kernel charges for any call of a program;
 * find_*  the least program that can count per {socket, process}: the kernel's two helpers that find the socket's
 *         storage and the process, and one addition;
 * floor_* what else must be called to count every receive (UDP has no other hook, and the hook is called for TCP too)
 *         and every packet of a socket: nothing for receives, storage and one addition for packets.
 * walk    the least that a sweep can do: it reads one word of each socket and one of its storage.
 * walk_counters
 *         the least that a sweep can do which must not miss a byte: it reads one word of each cache line that has
 *         counters or a state.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sock_common {
	unsigned char skc_state;
};
struct sock {
	struct sock_common __sk_common;
	void *sk_user_data;
};
struct tcp_sock {
	unsigned int segs_out, segs_in;
};
struct task_struct {
	int tgid;
};
struct bpf_iter__bpf_sk_storage_map {
	struct sock *sk;
	void *value;
};
#pragma clang attribute pop

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} calls SEC(".maps");

struct found {
	__u64 bytes;
	int tgid;
	__u64 wire_bytes[2];
};
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct found);
} sockets SEC(".maps");

static __always_inline int count(void)
{
	__u32 zero = 0;
	__u64 *value = bpf_map_lookup_elem(&calls, &zero);

	if (value)
		*value += 1;
	return 0;
}

SEC("tp_btf/sock_send_length")
int bump_send(void *context)
{
	return count();
}

SEC("tp_btf/sock_recv_length")
int bump_recv(void *context)
{
	return count();
}

SEC("tp_btf/tcp_rcv_space_adjust")
int bump_tcp(void *context)
{
	return count();
}

static __always_inline int find(struct sock *sk)
{
	struct found *found = bpf_sk_storage_get(&sockets, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	struct task_struct *task = bpf_get_current_task_btf();

	if (!found)
		return 0;
	if (found->tgid != task->tgid)
		found->tgid = task->tgid;
	__sync_fetch_and_add(&found->bytes, 1);
	return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(find_send, struct sock *sk)
{
	return find(sk);
}

SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(find_tcp, struct sock *sk)
{
	return find(sk);
}

SEC("tp_btf/sock_recv_length")
int floor_recv(void *context)
{
	return 0;
}

static __always_inline int find_packet(struct __sk_buff *skb, int direction)
{
	struct bpf_sock *sk = skb->sk;
	struct found *found = sk ? bpf_sk_storage_get(&sockets, sk, NULL, 0) : NULL;

	if (found)
		__sync_fetch_and_add(&found->wire_bytes[direction], skb->len);
	return 1;
}

SEC("cgroup_skb/egress")
int floor_sent(struct __sk_buff *skb)
{
	return find_packet(skb, 0);
}

SEC("cgroup_skb/ingress")
int floor_received(struct __sk_buff *skb)
{
	return find_packet(skb, 1);
}

__u64 seen;

SEC("iter/bpf_sk_storage_map")
int walk(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct sock *sk = context->sk;
	__u64 *storage = context->value;

	if (sk && storage)
		seen += sk->__sk_common.skc_state + *storage;
	return 0;
}

/* Of traffic_socket: the marks and the first owner; the second owner; bytes without an owner; wire bytes. */
static const int lines_with_counters[] = { 0, 64, 128, 448 };

SEC("iter/bpf_sk_storage_map")
int walk_counters(struct bpf_iter__bpf_sk_storage_map *context)
{
	struct sock *sk = context->sk;
	char *storage = context->value;
	struct tcp_sock *tcp = sk && storage ? bpf_skc_to_tcp_sock(sk) : NULL;
	__u64 sum;

	if (!tcp)
		return 0;
	sum = sk->__sk_common.skc_state + (sk->sk_user_data ? 1 : 0) + tcp->segs_out + tcp->segs_in;
#pragma unroll
	for (int i = 0; i < 4; i++)
		sum += *(__u64 *)(storage + lines_with_counters[i]);
	seen += sum;
	return 0;
}
