/* UDP. The server answers the datagrams that ask for it, so that nothing is ever dropped for want of room. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

/* First byte of a datagram. */
enum { PLAIN = 'p', ANSWER = 'a', LAST = 'l' };

/* An answer is this long, so that both directions have something to count. */
enum { ANSWER_BYTES = 77 };

static int serve(const struct part *part)
{
	uint16_t port;
	int fd = bind_at(part, SOCK_DGRAM, IPPROTO_UDP, &port);

	set_option(fd, SOL_SOCKET, SO_RCVBUF, MIB);
	watch(fd, "peer");
	ready(part, port);
	return fd;
}

static int client_socket(const struct part *part, uint16_t port)
{
	struct address server = with_port(part, port);
	int fd = open_socket(server.storage.ss_family, SOCK_DGRAM, IPPROTO_UDP);

	if (connect(fd, (struct sockaddr *)&server.storage, server.length))
		fail("connect UDP");
	return fd;
}

static char *datagram(char kind)
{
	char *bytes = buffer();

	bytes[0] = kind;
	return bytes;
}

static void await_answer(int fd)
{
	if (received(fd, recv(fd, buffer(), 65536, 0)) != ANSWER_BYTES)
		fail("await an answer");
}

static void ask(int fd, size_t bytes)
{
	if (sent(fd, send(fd, datagram(ANSWER), bytes, 0)) != (ssize_t)bytes)
		fail("send a datagram of %zu bytes", bytes);
	await_answer(fd);
}

static void say_goodbye(int fd)
{
	if (sent(fd, send(fd, datagram(LAST), 1, 0)) != 1)
		fail("send the last datagram");
}

/* With UDP_GRO one receive may hold many datagrams of one size; the last datagram decides. */
static char kind_of(const struct msghdr *message, const char *bytes, size_t length)
{
	size_t segment = length;

	if (!length)
		return PLAIN;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR((struct msghdr *)message, header)) {
		if (header->cmsg_level == SOL_UDP && header->cmsg_type == UDP_GRO)
			segment = *(int *)CMSG_DATA(header);
	}
	return bytes[(length - 1) / segment * segment];
}

static void answer_until_last(int fd)
{
	for (;;) {
		char control[64];
		struct sockaddr_storage from;
		struct iovec part = { buffer(), 65536 };
		struct msghdr message = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1,
					  .msg_control = control, .msg_controllen = sizeof(control) };
		ssize_t result = received(fd, recvmsg(fd, &message, 0));
		char kind;

		if (result < 0)
			fail("receive a datagram");
		kind = kind_of(&message, buffer(), result);
		if (kind == LAST)
			return;
		if (kind != ANSWER)
			continue;
		result = sendto(fd, buffer(), ANSWER_BYTES, 0, (struct sockaddr *)&from, message.msg_namelen);
		if (sent(fd, result) != ANSWER_BYTES)
			fail("answer a datagram");
	}
}

/* Connected and unconnected, zero length, corked. */
static void plain_server(const struct part *part)
{
	answer_until_last(serve(part));
}

static void plain_client(const struct part *part)
{
	uint16_t port = await_port(part);
	struct address server = with_port(part, port);
	int connected = client_socket(part, port), free_socket;

	free_socket = open_socket(server.storage.ss_family, SOCK_DGRAM, IPPROTO_UDP);
	for (size_t i = 1; i <= 200; i++)
		ask(connected, i * 331 % 9000 + 1);
	ask(connected, 65000);
	if (send(connected, "", 0, 0) || sendto(free_socket, "", 0, 0, (struct sockaddr *)&server.storage, server.length))
		fail("send an empty datagram");
	for (size_t i = 1; i <= 200; i++) {
		size_t bytes = i * 113 % 1400 + 1;
		ssize_t result = sendto(free_socket, datagram(ANSWER), bytes, 0, (struct sockaddr *)&server.storage, server.length);

		if (sent(free_socket, result) != (ssize_t)bytes)
			fail("sendto");
		await_answer(free_socket);
	}
	for (int i = 0; i < 50; i++) {
		if (sent(connected, send(connected, datagram(ANSWER), 400, MSG_MORE)) != 400 ||
		    sent(connected, send(connected, buffer(), 600, 0)) != 600)
			fail("send with MSG_MORE");
		await_answer(connected);
		set_option(connected, SOL_UDP, UDP_CORK, 1);
		for (int piece = 0; piece < 3; piece++) {
			if (sent(connected, send(connected, datagram(ANSWER), 100, 0)) != 100)
				fail("send while corked");
		}
		set_option(connected, SOL_UDP, UDP_CORK, 0);
		await_answer(connected);
	}
	say_goodbye(connected);
}

/* UDP_SEGMENT: one call, many datagrams. First to a plain receiver, then to one with UDP_GRO. */
enum { SEGMENT_BYTES = 1300, SEGMENTS = 30 };

static void segments_server(const struct part *part)
{
	int fd = serve(part);

	answer_until_last(fd);
	if (setsockopt(fd, SOL_UDP, UDP_GRO, &(int){ 1 }, sizeof(int)))
		skip("UDP_GRO: %s", strerror(errno));
	answer_until_last(fd);
}

static void send_segments(int fd)
{
	for (int i = 0; i < 20; i++) {
		char *bytes = buffer();
		ssize_t length = SEGMENT_BYTES * SEGMENTS - 100;

		for (int segment = 0; segment < SEGMENTS; segment++)
			bytes[segment * SEGMENT_BYTES] = segment == SEGMENTS - 1 ? ANSWER : PLAIN;
		if (sent(fd, send(fd, bytes, length, 0)) != length)
			fail("send segments");
		await_answer(fd);
	}
}

static void segments_client(const struct part *part)
{
	int fd = client_socket(part, await_port(part));

	if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &(int){ SEGMENT_BYTES }, sizeof(int)))
		skip("UDP_SEGMENT: %s", strerror(errno));
	for (int receiver = 0; receiver < 2; receiver++) {
		send_segments(fd);
		say_goodbye(fd);
		pause_ms(50); /* while the server changes its option */
	}
}

/* Trap 5: a datagram of which only the start fits. The call returns what fitted, or with MSG_TRUNC its whole length. */
static void truncating_server(const struct part *part)
{
	int fd = serve(part);
	struct sockaddr_storage from;
	socklen_t length = sizeof(from);
	char start[16];

	for (int i = 0; i < 200; i++) {
		int flags = i % 2 ? MSG_TRUNC : 0;

		if (recv(fd, start, sizeof(start), MSG_PEEK | MSG_TRUNC) != 1400)
			fail("peek at a datagram");
		if (received(fd, recvfrom(fd, start, sizeof(start), flags, (struct sockaddr *)&from, &length)) !=
		    (flags ? 1400 : 16))
			fail("read the start of a datagram");
		if (sent(fd, sendto(fd, buffer(), ANSWER_BYTES, 0, (struct sockaddr *)&from, length)) != ANSWER_BYTES)
			fail("answer a datagram");
	}
}

static void truncating_client(const struct part *part)
{
	int fd = client_socket(part, await_port(part));

	for (int i = 0; i < 200; i++)
		ask(fd, 1400);
}

enum { BATCH = 40, BATCH_BYTES = 900 };

static void batch_server(const struct part *part)
{
	int fd = serve(part);
	struct sockaddr_storage from;

	for (int round = 0; round < 20; round++) {
		unsigned int got = 0;

		while (got < BATCH) {
			struct iovec parts[BATCH];
			struct mmsghdr batch[BATCH] = {};
			int result;

			for (int i = 0; i < BATCH; i++) {
				parts[i] = (struct iovec){ buffer() + i * 2000, 2000 };
				batch[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
			}
			batch[0].msg_hdr.msg_name = &from;
			batch[0].msg_hdr.msg_namelen = sizeof(from);
			result = recvmmsg(fd, batch, BATCH - got, MSG_WAITFORONE, NULL);
			if (result <= 0)
				fail("recvmmsg");
			for (int i = 0; i < result; i++)
				received(fd, batch[i].msg_len);
			got += result;
		}
		if (sent(fd, sendto(fd, buffer(), ANSWER_BYTES, 0, (struct sockaddr *)&from, part->address.length)) !=
		    ANSWER_BYTES)
			fail("answer a batch");
	}
}

static void batch_client(const struct part *part)
{
	int fd = client_socket(part, await_port(part));

	for (int round = 0; round < 20; round++) {
		struct iovec parts[BATCH];
		struct mmsghdr batch[BATCH] = {};

		for (int i = 0; i < BATCH; i++) {
			parts[i] = (struct iovec){ buffer(), BATCH_BYTES + i };
			batch[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
		}
		if (sendmmsg(fd, batch, BATCH, 0) != BATCH)
			fail("sendmmsg");
		for (int i = 0; i < BATCH; i++)
			sent(fd, batch[i].msg_len);
		await_answer(fd);
	}
}

/* Trap 4 for UDP: the error queue gives back the datagram that was refused. It counts as sent, not received. */
static void refused_client(const struct part *part)
{
	uint16_t port;
	int closed = bind_at(part, SOCK_DGRAM, IPPROTO_UDP, &port), fd;
	bool four = part->address.storage.ss_family == AF_INET;
	unsigned int returned = 0;

	meet();
	close(closed);
	fd = client_socket(part, port);
	set_option(fd, four ? IPPROTO_IP : IPPROTO_IPV6, four ? IP_RECVERR : IPV6_RECVERR, 1);
	for (int i = 0; i < 100; i++) {
		char control[256];
		struct iovec part_of = { buffer(), 65536 };
		struct msghdr message = { .msg_iov = &part_of, .msg_iovlen = 1, .msg_control = control,
					  .msg_controllen = sizeof(control) };

		if (sent(fd, send(fd, buffer(), 500, 0)) < 0 && errno != ECONNREFUSED)
			fail("send to a closed port");
		if (recvmsg(fd, &message, MSG_ERRQUEUE) > 0)
			returned++;
		recv(fd, buffer(), 1, MSG_DONTWAIT); /* takes the pending error */
	}
	if (!returned)
		fail("the error queue gave nothing back");
}

/* Trap 13 for UDP: sendto a v4-mapped address from an IPv6 socket runs through both families' code. */
static void mapped_server(const struct part *part)
{
	struct part any = { .index = part->index, .address.length = sizeof(struct sockaddr_in6) };

	any.address.storage.ss_family = AF_INET6; /* the address itself stays :: */
	answer_until_last(serve(&any));
}

static void mapped_client(const struct part *part)
{
	uint16_t port = await_port(part);
	struct sockaddr_in *four = (struct sockaddr_in *)&part->address.storage;
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int plain = client_socket(part, port), fd = open_socket(AF_INET6, SOCK_DGRAM, IPPROTO_UDP);

	mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
	memcpy(&mapped.sin6_addr.s6_addr[12], &four->sin_addr, 4);
	for (size_t i = 1; i <= 100; i++) {
		size_t bytes = i * 13;

		ask(plain, bytes);
		if (sent(fd, sendto(fd, datagram(ANSWER), bytes, 0, (struct sockaddr *)&mapped, sizeof(mapped))) !=
		    (ssize_t)bytes)
			fail("sendto a mapped address");
		await_answer(fd);
	}
	say_goodbye(plain);
}

const struct scenario datagram_scenarios[] = {
	{ "udp", "connected, unconnected, empty, corked", plain_server, plain_client },
	{ "udp-segments", "UDP_SEGMENT, with and without UDP_GRO", segments_server, segments_client },
	{ "udp-trunc", "datagrams cut short, with and without MSG_TRUNC", truncating_server, truncating_client },
	{ "udp-mmsg", "sendmmsg and recvmmsg", batch_server, batch_client },
	{ "udp-refused", "the error queue returns datagrams", NULL, refused_client },
	{ "udp-mapped", "server on ::, IPv4 and v4-mapped clients", mapped_server, mapped_client, .one_address = true },
	{ 0 },
};
