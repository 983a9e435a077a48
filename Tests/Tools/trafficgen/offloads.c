/*
 * Trap 33: a link between two networks, with all offloads of its interfaces and with none. Packets differ, bytes do not.
 */
#include "generator.h"
#include "scenarios.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { ROUNDS = 3, STREAM_BYTES = 2 * 1024 * 1024 + 7, SEGMENT_BYTES = 1300, SEGMENTS = 20 };

struct link {
	struct part near, far; /* the same link, with each end's address */
	char near_interface[16], far_interface[16];
	uint16_t port, datagram_port;
	pid_t pid; /* of the far end, once it has a network */
	bool made;
};

static struct part at(const struct part *part, unsigned char host)
{
	struct part end = *part;

	if (part->address.storage.ss_family == AF_INET)
		inet_pton(AF_INET, "10.99.0.0", &((struct sockaddr_in *)&end.address.storage)->sin_addr);
	else
		inet_pton(AF_INET6, "fd99::", &((struct sockaddr_in6 *)&end.address.storage)->sin6_addr);
	if (part->address.storage.ss_family == AF_INET)
		((unsigned char *)&((struct sockaddr_in *)&end.address.storage)->sin_addr)[3] = host;
	else
		((struct sockaddr_in6 *)&end.address.storage)->sin6_addr.s6_addr[15] = host;
	return end;
}

static void send_singly(int fd, size_t bytes)
{
	set_option(fd, SOL_UDP, UDP_SEGMENT, 0);
	while (bytes) {
		size_t piece = bytes < SEGMENT_BYTES ? bytes : SEGMENT_BYTES;

		if (sent(fd, send(fd, buffer(), piece, 0)) != (ssize_t)piece)
			fail("send a segment");
		bytes -= piece;
	}
}

static void send_segments(const struct link *link)
{
	struct address server = with_port(&link->near, link->datagram_port);
	int fd = open_socket(server.storage.ss_family, SOCK_DGRAM, IPPROTO_UDP);
	ssize_t bytes = SEGMENT_BYTES * SEGMENTS - 100, result;

	if (connect(fd, (struct sockaddr *)&server.storage, server.length))
		fail("connect UDP");
	set_option(fd, SOL_UDP, UDP_SEGMENT, SEGMENT_BYTES);
	result = sent(fd, send(fd, buffer(), bytes, 0));
	if (result < 0 && errno == EIO)
		send_singly(fd, bytes); /* older kernels segment only where the interface makes the checksums */
	else if (result != bytes)
		fail("send segments");
	if (received(fd, recv(fd, buffer(), 100, 0)) != 1)
		fail("await an answer");
	hang_up(fd);
}

static void receive_segments(int fd)
{
	struct sockaddr_storage from;
	socklen_t length = sizeof(from);

	for (size_t left = SEGMENT_BYTES * SEGMENTS - 100; left;) {
		ssize_t result = received(fd, recvfrom(fd, buffer(), 65536, 0, (struct sockaddr *)&from, &length));

		if (result <= 0)
			fail("receive a segment");
		left -= result;
	}
	if (sent(fd, sendto(fd, "!", 1, 0, (struct sockaddr *)&from, length)) != 1)
		fail("answer");
}

static void be_far_end(void *argument)
{
	struct link *link = argument;

	if (!own_network())
		skip("no network namespace of its own");
	__atomic_store_n(&link->pid, getpid(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&link->made, __ATOMIC_ACQUIRE))
		pause_ms(1);
	bring_up(link->far_interface);
	give_address(link->far_interface, &link->far.address);
	for (int round = 0; round < ROUNDS; round++) {
		int fd;

		set_offloads(link->far_interface, round % 2 == 0);
		fd = connect_to(&link->near, IPPROTO_TCP, link->port);
		send_all(fd, STREAM_BYTES, 65536);
		receive_all(fd, STREAM_BYTES, 65536);
		send_segments(link);
		receive_all(fd, 1, 1); /* the other end is ready for the next round */
		hang_up(fd);
	}
}

static void offloads_server(const struct part *part)
{
	struct link *link = mmap(NULL, sizeof(*link), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int listener, datagrams;
	pid_t child;

	*link = (struct link){ .near = at(part, 1), .far = at(part, 2) };
	snprintf(link->near_interface, sizeof(link->near_interface), "tg-near%u", part->index);
	snprintf(link->far_interface, sizeof(link->far_interface), "tg-far%u", part->index);
	meet();
	child = spawn("tg-far", be_far_end, link);
	while (!__atomic_load_n(&link->pid, __ATOMIC_ACQUIRE))
		pause_ms(1);
	make_veth(link->near_interface, link->far_interface, link->pid);
	give_address(link->near_interface, &link->near.address);
	listener = listen_at(&link->near, IPPROTO_TCP, &link->port);
	datagrams = bind_at(&link->near, SOCK_DGRAM, IPPROTO_UDP, &link->datagram_port);
	set_option(datagrams, SOL_SOCKET, SO_RCVBUF, MIB);
	watch(datagrams, "peer");
	set_offloads(link->near_interface, true);
	__atomic_store_n(&link->made, true, __ATOMIC_RELEASE);
	for (int round = 0; round < ROUNDS; round++) {
		int fd = accept_from(listener);

		receive_all(fd, STREAM_BYTES, 65536);
		send_all(fd, STREAM_BYTES, 65536);
		receive_segments(datagrams);
		set_offloads(link->near_interface, round % 2);
		send_all(fd, 1, 1);
	}
	reap(child);
}

const struct scenario offload_scenarios[] = {
	{ "offloads", "over a link with offloads, without, and with", offloads_server, NULL, .private_network = true },
	{ 0 },
};
