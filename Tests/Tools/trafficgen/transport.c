/* Trap 30: transports that few programs use. None of them is in every kernel. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <linux/sctp.h>
#include <string.h>
#include <unistd.h>

#ifndef SOCK_DCCP
#define SOCK_DCCP 6
#endif
enum { SOL_DCCP_LEVEL = 269, DCCP_SERVICE = 2 };

enum { MESSAGES = 200, ANSWER_BYTES = 77 };

static size_t message_bytes(int number)
{
	return 1 + number * 61 % 1200;
}

/* Whether the kernel has the protocol: the server asks before it does anything else. */
static void need(const struct part *part, int type, int protocol, const char *name)
{
	int fd = socket(part->address.storage.ss_family, type | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		skip("no %s: %s", name, strerror(errno));
	close(fd);
}

/* Messages in order, one at a time, so that nothing is dropped: each is answered at the address that it came from. */
static void answer_messages(int fd)
{
	for (int i = 0; i < MESSAGES; i++) {
		struct sockaddr_storage from;
		socklen_t length = sizeof(from);

		if (received(fd, recvfrom(fd, buffer(), 2000, 0, (struct sockaddr *)&from, &length)) !=
		    (ssize_t)message_bytes(i))
			fail("receive message %d", i);
		if (sent(fd, sendto(fd, buffer(), ANSWER_BYTES, 0, (struct sockaddr *)&from, length)) != ANSWER_BYTES)
			fail("answer message %d", i);
	}
}

static void await_answer(int fd)
{
	if (received(fd, recv(fd, buffer(), 2000, 0)) != ANSWER_BYTES)
		fail("await an answer");
}

/* One connection, message by message. */
static void answer_connection(int fd)
{
	for (int i = 0; i < MESSAGES; i++) {
		if (received(fd, recv(fd, buffer(), 2000, 0)) != (ssize_t)message_bytes(i))
			fail("receive message %d", i);
		if (sent(fd, send(fd, buffer(), ANSWER_BYTES, 0)) != ANSWER_BYTES)
			fail("answer message %d", i);
	}
}

static void ask_connection(int fd)
{
	for (int i = 0; i < MESSAGES; i++) {
		if (sent(fd, send(fd, buffer(), message_bytes(i), 0)) != (ssize_t)message_bytes(i))
			fail("send message %d", i);
		await_answer(fd);
	}
}

static void udplite_server(const struct part *part)
{
	uint16_t port;
	int fd;

	need(part, SOCK_DGRAM, IPPROTO_UDPLITE, "UDP-Lite");
	fd = bind_at(part, SOCK_DGRAM, IPPROTO_UDPLITE, &port);
	watch(fd, "peer");
	ready(part, port);
	answer_messages(fd);
}

static void udplite_client(const struct part *part)
{
	struct address server = with_port(part, await_port(part));
	int fd = open_socket(server.storage.ss_family, SOCK_DGRAM, IPPROTO_UDPLITE);

	for (int i = 0; i < MESSAGES; i++) {
		ssize_t bytes = message_bytes(i);

		if (i == MESSAGES / 2 && connect(fd, (struct sockaddr *)&server.storage, server.length))
			fail("connect");
		if (i < MESSAGES / 2 ?
			    sent(fd, sendto(fd, buffer(), bytes, 0, (struct sockaddr *)&server.storage, server.length)) != bytes :
			    sent(fd, send(fd, buffer(), bytes, 0)) != bytes)
			fail("send message %d", i);
		await_answer(fd);
	}
}

static void sctp_server(const struct part *part)
{
	need(part, SOCK_STREAM, IPPROTO_SCTP, "SCTP");
	answer_connection(serve_one(part, IPPROTO_SCTP));
}

static void sctp_client(const struct part *part)
{
	ask_connection(call(part, IPPROTO_SCTP));
}

/* One socket, any number of associations: here from two clients' sockets. */
static void sctp_many_server(const struct part *part)
{
	uint16_t port;
	int fd;

	need(part, SOCK_SEQPACKET, IPPROTO_SCTP, "SCTP");
	fd = bind_at(part, SOCK_SEQPACKET, IPPROTO_SCTP, &port);
	if (listen(fd, 16))
		fail("listen");
	ready(part, port);
	answer_messages(fd);
	answer_messages(fd);
}

static void sctp_many_client(const struct part *part)
{
	struct address server = with_port(part, await_port(part));

	for (int round = 0; round < 2; round++) {
		int fd = open_socket(server.storage.ss_family, SOCK_SEQPACKET, IPPROTO_SCTP);

		for (int i = 0; i < MESSAGES; i++) {
			ssize_t bytes = message_bytes(i);

			if (sent(fd, sendto(fd, buffer(), bytes, 0, (struct sockaddr *)&server.storage, server.length)) != bytes)
				fail("send message %d", i);
			await_answer(fd);
		}
	}
}

/* Removed from Linux in 6.16. */
static int dccp_socket(int family)
{
	int fd = open_socket(family, SOCK_DCCP, IPPROTO_DCCP);

	set_option(fd, SOL_DCCP_LEVEL, DCCP_SERVICE, 42);
	return fd;
}

static void dccp_server(const struct part *part)
{
	struct address address = with_port(part, 0);
	int listener;

	need(part, SOCK_DCCP, IPPROTO_DCCP, "DCCP");
	listener = dccp_socket(address.storage.ss_family);
	if (bind(listener, (struct sockaddr *)&address.storage, address.length) || listen(listener, 4) ||
	    getsockname(listener, (struct sockaddr *)&address.storage, &address.length))
		fail("listen for DCCP");
	watch(listener, "listener");
	ready(part, ntohs(((struct sockaddr_in *)&address.storage)->sin_port));
	answer_connection(accept_from(listener));
}

static void dccp_client(const struct part *part)
{
	struct address server = with_port(part, await_port(part));
	int fd = dccp_socket(server.storage.ss_family);

	if (connect(fd, (struct sockaddr *)&server.storage, server.length))
		fail("connect DCCP");
	watch(fd, "client");
	ask_connection(fd);
}

const struct scenario transport_scenarios[] = {
	{ "udplite", "UDP-Lite, connected and not", udplite_server, udplite_client },
	{ "sctp", "SCTP, one connection to a socket", sctp_server, sctp_client },
	{ "sctp-many", "SCTP, many associations on one socket", sctp_many_server, sctp_many_client },
	{ "dccp", "DCCP", dccp_server, dccp_client },
	{ 0 },
};
