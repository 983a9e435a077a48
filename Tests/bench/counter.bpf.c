// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The cheapest program that counts anything, on the hooks of rung `tracepoint`: what the kernel charges for being called
 * at all. scripts/bench compares trafficd's programs with it in the same run.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} calls SEC(".maps");

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
