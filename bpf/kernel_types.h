/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The few kernel structures that the programs read. Only names matter: libbpf relocates every access to the running
 * kernel's layout (CO-RE). So a field may be at any offset, and unused fields are left out.
 */
#ifndef KERNEL_TYPES_H
#define KERNEL_TYPES_H

#include <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef unsigned long size_t;

enum { AF_INET = 2, AF_INET6 = 10, AF_PACKET = 17 };
enum { SOCK_STREAM = 1, SOCK_RAW = 3 };
enum { IPPROTO_TCP = 6, IPPROTO_UDP = 17, IPPROTO_DCCP = 33, IPPROTO_FRAGMENT = 44, IPPROTO_SCTP = 132, IPPROTO_MPTCP = 262 };
enum { PROTOCOL_SMC = 256 }; /* IPPROTO_SMC, Linux 6.11 */
enum { MSG_OOB = 0x1, MSG_PEEK = 0x2, MSG_ERRQUEUE = 0x2000 }; /* uapi: linux/socket.h */
enum { S_IFMT = 0170000, S_IFSOCK = 0140000 };
enum { PF_KTHREAD = 0x00200000 }; /* include/linux/sched.h, unchanged since 2.6.27 */
enum { SKB_GSO_TCPV4 = 1 << 0, SKB_GSO_TCPV6 = 1 << 4 }; /* include/linux/skbuff.h, unchanged since 4.15 */
enum { TCP_ESTABLISHED = 1, TCP_SYN_SENT = 2, TCP_SYN_RECV = 3, TCP_FIN_WAIT1 = 4, TCP_FIN_WAIT2 = 5,
       TCP_TIME_WAIT = 6, TCP_CLOSE = 7, TCP_CLOSE_WAIT = 8, TCP_LAST_ACK = 9, TCP_LISTEN = 10, TCP_CLOSING = 11,
       TCP_NEW_SYN_RECV = 12 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};
struct cgroup {
	struct kernfs_node *kn;
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
typedef struct {
	unsigned int val;
} kuid_t;
struct cred {
	kuid_t uid;
};
struct task_struct {
	unsigned int flags;
	u32 tgid;
	u64 start_boottime;
	struct task_struct *group_leader;
	const struct cred *cred;
	struct css_set *cgroups;
	char comm[16];
};

struct ns_common {
	unsigned int inum;
};
struct netns_ipv4 {
	u8 sysctl_tcp_timestamps;
	u8 sysctl_tcp_window_scaling;
	u8 sysctl_tcp_sack;
};
struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};
typedef struct {
	int counter;
} atomic_t;
typedef struct {
	s64 counter;
} atomic64_t;
struct proto {
	void *sendpage;
};
struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	unsigned char skc_ipv6only : 1;
	possible_net_t skc_net;
	struct proto *skc_prot;
	atomic64_t skc_cookie;
	unsigned long skc_flags;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};
typedef struct {
	int owned;
} socket_lock_t;
struct socket;
struct numa_drop_counters {
	atomic_t drops0;
	atomic_t drops1;
};
struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	atomic_t sk_drops;
	struct numa_drop_counters *sk_drop_counters; /* Linux 6.18 */
	int sk_err;
	u8 sk_shutdown;
	u16 sk_protocol;
	u16 sk_type;
	void *sk_user_data;
	struct socket *sk_socket;
	kuid_t sk_uid;
	unsigned int sk_kern_sock : 1;
};
struct proto_ops {
	void *splice_read;
};
struct socket {
	struct sock *sk;
	const struct proto_ops *ops;
};
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned int len;
	__be16 protocol;
	u16 transport_header;
	u16 network_header;
	unsigned int end; /* sk_buff_data_t: an offset where pointers have 64 bits */
	unsigned char *head;
	unsigned char *data;
};
struct skb_shared_info {
	unsigned short gso_size;
	unsigned int gso_type;
};
struct iphdr {
	__be16 frag_off;
};
struct ipv6hdr {
	__u8 nexthdr;
};
struct mptcp_sock;
struct inode {
	unsigned short i_mode;
};
struct file {
	struct inode *f_inode;
	void *private_data;
};
struct tcp_ulp_ops;
struct inet_sock {
	void *inet_opt;
};
struct inet_connection_sock {
	u16 icsk_ext_hdr_len;
	struct {
		u16 rcv_mss;
	} icsk_ack;
	const struct tcp_ulp_ops *icsk_ulp_ops;
	void *icsk_ulp_data;
};
struct tcp_options_received {
	u16 tstamp_ok : 1;
	u16 wscale_ok : 1;
	u16 sack_ok : 3;
};
struct tcp_sack_block {
	u32 start_seq;
	u32 end_seq;
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u16 tcp_header_len;
	u8 ecn_flags;
	u8 syn_data : 1;
	u8 syn_fastopen : 1;
	u8 syn_data_acked : 1;
	u16 advmss;
	struct tcp_options_received rx_opt;
	u32 data_segs_in;
	u32 data_segs_out;
	u32 rcv_ooopack;
	u32 reord_seen;
	u32 dsack_dups;
	struct tcp_sack_block duplicate_sack[1];
	u32 rcv_nxt;
	u32 copied_seq;
	u32 urg_seq;
	u32 snd_nxt;
	u32 snd_una;
	u32 write_seq;
	u32 srtt_us;
	u32 segs_in;
	u32 segs_out;
	u32 total_retrans;
	u64 bytes_sent;
	u64 bytes_acked;
	u64 bytes_received;
	u64 bytes_retrans;
	u8 repair : 1;
	u8 is_mptcp;
};
struct mptcp_subflow_context {
	struct sock *conn;
};

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};
struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
};
struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	unsigned int uid;
};
struct udp_sock {
	struct inet_sock inet;
	int pending;
	u16 gso_size;
};
struct bpf_iter__udp {
	struct bpf_iter_meta *meta;
	struct udp_sock *udp_sk;
};
struct bpf_map;
struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
};
struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

#pragma clang attribute pop

#endif
