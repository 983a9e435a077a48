/* Protocols beside TCP and UDP, and sockets that must not be counted. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <unistd.h>

enum { EXPERIMENT = 253 }; /* a protocol number for tests, RFC 3692 */

/* Trap 30. An IPv4 raw socket receives with the IP header, an IPv6 one without it. */
enum { RAW_PACKETS = 50, RAW_BYTES = 1000 };

static void raw_server(const struct part *part)
{
	struct address own = with_port(part, 0);
	int fd = socket(own.storage.ss_family, SOCK_RAW | SOCK_CLOEXEC, EXPERIMENT), header_bytes;
	int packets = RAW_PACKETS;

	if (fd < 0)
		skip("raw socket: %s", strerror(errno));
	if (bind(fd, (struct sockaddr *)&own.storage, own.length))
		fail("bind a raw socket");
	set_option(fd, SOL_SOCKET, SO_RCVBUF, MIB);
	watch(fd, "peer");
	ready(part, 0);
	header_bytes = own.storage.ss_family == AF_INET ? sizeof(struct iphdr) : 0;
	if (own.storage.ss_family == AF_INET)
		packets *= 2; /* also those with a header of the sender's own */
	for (int i = 0; i < packets; i++) {
		if (received(fd, recv(fd, buffer(), 65536, 0)) != header_bytes + RAW_BYTES)
			fail("receive a raw packet");
	}
}

static void raw_client(const struct part *part)
{
	struct address server;
	int fd;

	await_port(part);
	server = with_port(part, 0);
	fd = open_socket(server.storage.ss_family, SOCK_RAW, EXPERIMENT);
	for (int i = 0; i < RAW_PACKETS; i++) {
		if (sent(fd, sendto(fd, buffer(), RAW_BYTES, 0, (struct sockaddr *)&server.storage, server.length)) !=
		    RAW_BYTES)
			fail("send a raw packet");
	}
	if (server.storage.ss_family != AF_INET)
		return;
	fd = open_socket(AF_INET, SOCK_RAW, IPPROTO_RAW); /* implies IP_HDRINCL */
	for (int i = 0; i < RAW_PACKETS; i++) {
		struct iphdr *header = (struct iphdr *)buffer();
		ssize_t length = sizeof(*header) + RAW_BYTES;

		*header = (struct iphdr){ .version = 4, .ihl = 5, .ttl = 8, .protocol = EXPERIMENT, .tot_len = htons(length) };
		/* The kernel fills in the source, because the server's own address would not be let in from another machine. */
		header->daddr = ((struct sockaddr_in *)&server.storage)->sin_addr.s_addr;
		if (sent(fd, sendto(fd, buffer(), length, 0, (struct sockaddr *)&server.storage, server.length)) != length)
			fail("send a packet with its header");
	}
}

/* A raw socket with TCP's protocol number is no TCP socket. This socket sees the segments of all connections. */
static void raw_tcp_server(const struct part *part)
{
	int sniffer = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP), fd;

	if (sniffer < 0)
		skip("raw socket: %s", strerror(errno));
	watch(sniffer, "peer");
	fd = serve_one(part, IPPROTO_TCP);
	receive_all(fd, 5000, 5000);
	for (int i = 0; i < 3; i++) {
		if (received(sniffer, recv(sniffer, buffer(), 65536, 0)) <= 0)
			fail("receive a segment");
	}
}

static void raw_tcp_client(const struct part *part)
{
	send_all(call(part, IPPROTO_TCP), 5000, 5000);
}

/* Unprivileged echo requests; the kernel answers them. */
static void ping_client(const struct part *part)
{
	struct address peer = with_port(part, 0);
	bool four = peer.storage.ss_family == AF_INET;
	int fd;

	meet();
	set_sysctl("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
	fd = open_socket(peer.storage.ss_family, SOCK_DGRAM, four ? IPPROTO_ICMP : IPPROTO_ICMPV6);
	for (int i = 0; i < 100; i++) {
		ssize_t length = sizeof(struct icmphdr) + i * 13;

		memset(buffer(), 0, sizeof(struct icmphdr));
		buffer()[0] = (char)(four ? ICMP_ECHO : ICMP6_ECHO_REQUEST);
		if (sent(fd, sendto(fd, buffer(), length, 0, (struct sockaddr *)&peer.storage, peer.length)) != length)
			fail("send an echo request");
		if (received(fd, recv(fd, buffer(), 65536, 0)) != length)
			fail("receive an echo reply");
	}
}

/* Trap 35: these must be in no account. */
static void exchange(int ends[2])
{
	exclude(ends[0]);
	exclude(ends[1]);
	for (int i = 0; i < 100; i++) {
		if (sent(ends[0], send(ends[0], buffer(), 1000, 0)) != 1000 ||
		    received(ends[1], recv(ends[1], buffer(), 1000, 0)) != 1000)
			fail("exchange over a Unix socket");
	}
}

static void unix_client(const struct part *part)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	struct {
		struct nlmsghdr header;
		struct rtgenmsg body;
	} dump = { { .nlmsg_len = sizeof(dump), .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };
	int netlink, ends[2];

	(void)part;
	meet();
	for (unsigned int i = 0; i < COUNT_OF(types); i++) {
		if (socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC, 0, ends))
			fail("socketpair");
		exchange(ends);
	}
	netlink = open_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	exclude(netlink);
	if (sent(netlink, send(netlink, &dump, sizeof(dump), 0)) != sizeof(dump) ||
	    received(netlink, recv(netlink, buffer(), 65536, 0)) <= 0)
		fail("ask netlink for the links");
}

const struct scenario protocol_scenarios[] = {
	{ "raw", "raw sockets, IP_HDRINCL too", raw_server, raw_client, .private_network = true },
	{ "raw-tcp", "a raw socket of protocol 6", raw_tcp_server, raw_tcp_client, .one_address = true,
	  .private_network = true },
	{ "ping", "ping sockets", NULL, ping_client, .private_network = true, .kernel_answers = true },
	{ "unix", "Unix and netlink sockets: not to be counted", NULL, unix_client, .one_address = true },
	{ 0 },
};
