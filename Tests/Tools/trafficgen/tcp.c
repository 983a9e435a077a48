/* TCP through the plain calls, each with the trap it sets. Trap numbers are those of the accuracy design. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bulk both ways in uneven chunks, in two halves with a pause between them. */
static void bulk_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	for (int half = 0; half < 2; half++) {
		receive_all(fd, 4 * MIB, 50021);
		send_all(fd, 2 * MIB + 7, 30011);
		if (!half)
			halfway();
	}
}

static void bulk_client(const struct part *part)
{
	int fd = timed_connect_to(part, IPPROTO_TCP, await_port(part));

	for (int half = 0; half < 2; half++) {
		send_all(fd, 4 * MIB, 65521);
		receive_all(fd, 2 * MIB + 7, 8191);
		if (!half)
			halfway();
	}
}

/*
 * Trap 18, the harder half of it: at the pause the server has not read what the client sent. Those bytes are received
 * after the daemon's start, though they were sent before.
 */
static void unread_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	receive_all(fd, 1000, 1000);
	send_all(fd, 5000, 5000);
	halfway();
	receive_all(fd, 30 * KIB + 3, 1021);
	send_all(fd, 700, 700);
}

static void unread_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	send_all(fd, 1000 + 30 * KIB, 1021);
	halfway();
	send_all(fd, 3, 3);
	receive_all(fd, 5700, 5700);
}

/* Many small requests and responses on one connection. */
static unsigned long request_count(void)
{
	return options.count ?: 20000;
}

static size_t request_bytes(unsigned long number)
{
	return 1 + number * 37 % 700;
}

static void requests_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	for (unsigned long i = 0; i < request_count(); i++) {
		receive_all(fd, request_bytes(i), MIB);
		send_all(fd, request_bytes(i + 1), MIB);
	}
}

static void requests_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	for (unsigned long i = 0; i < request_count(); i++) {
		send_all(fd, request_bytes(i), MIB);
		receive_all(fd, request_bytes(i + 1), MIB);
	}
}

/* Trap 1: a non-blocking sender against a stalled reader; short writes and thousands of EAGAIN. */
enum { NONBLOCKING_BYTES = 16 << 20 };

static void nonblocking_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);
	size_t left = NONBLOCKING_BYTES;

	pause_ms(200);
	while (left) {
		ssize_t result = received(fd, recv(fd, buffer(), 3001, MSG_DONTWAIT));

		if (!result || (result < 0 && errno != EAGAIN))
			fail("receive without waiting");
		if (result > 0)
			left -= result;
	}
}

static void nonblocking_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);
	size_t left = NONBLOCKING_BYTES;
	unsigned int refused = 0, short_writes = 0;

	set_option(fd, SOL_SOCKET, SO_SNDBUF, 128 * KIB);
	while (left) {
		size_t asked = left < 200001 ? left : 200001;
		ssize_t result = sent(fd, send(fd, buffer(), asked, MSG_DONTWAIT));

		if (result < 0 && errno != EAGAIN)
			fail("send without waiting");
		if (result < 0 && ++refused > 5000) {
			struct pollfd room = { .fd = fd, .events = POLLOUT };

			poll(&room, 1, 1000);
		}
		if (result > 0) {
			left -= result;
			short_writes += (size_t)result < asked;
		}
	}
	if (!refused || !short_writes)
		fail("the sender was never refused (%u) or cut short (%u)", refused, short_writes);
}

/* Trap 2: one call that is satisfied by thousands of segments. The parts of the large one are all the same memory. */
enum { WAITALL_CALLS = 4, WAITALL_PARTS = 64 };

static void waitall_server(const struct part *part)
{
	struct iovec parts[WAITALL_PARTS];
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = WAITALL_PARTS };
	int fd = serve_one(part, IPPROTO_TCP);

	for (int i = 0; i < WAITALL_CALLS; i++) {
		if (received(fd, recv(fd, buffer(), MIB, MSG_WAITALL)) != MIB)
			fail("recv(MSG_WAITALL)");
	}
	for (int i = 0; i < WAITALL_PARTS; i++)
		parts[i] = (struct iovec){ buffer(), MIB };
	if (received(fd, recvmsg(fd, &message, MSG_WAITALL)) != WAITALL_PARTS * MIB)
		fail("receive 64 MiB in one call");
}

static void waitall_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	send_all(fd, (WAITALL_CALLS + WAITALL_PARTS) * MIB, 1448);
}

/* Every vectored and batched call. */
static void vectors_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);
	size_t left = 200 * 1010 + 100 * 300 + 50 * 1010 + 999;
	unsigned int call_number = 0;

	while (left) {
		struct iovec parts[3] = { { buffer(), 10 }, { buffer(), 500 }, { buffer(), 3000 } };
		struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };
		struct mmsghdr batch[2] = { { .msg_hdr = message }, { .msg_hdr = message } };
		ssize_t result;

		switch (call_number++ % 4) {
		case 0: result = received(fd, readv(fd, parts, 3)); break;
		case 1: result = received(fd, recvmsg(fd, &message, 0)); break;
		case 2: result = received(fd, read(fd, buffer(), 777)); break;
		default:
			result = recvmmsg(fd, batch, 2, MSG_WAITFORONE, NULL);
			if (result > 0) {
				int messages = result;

				for (int i = result = 0; i < messages; i++)
					result += received(fd, batch[i].msg_len);
			}
		}
		if (result <= 0)
			fail("vectored receive");
		left -= result;
	}
}

static void vectors_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);
	struct iovec parts[2] = { { buffer(), 10 }, { buffer() + 100, 1000 } };
	struct iovec one = { buffer(), 100 };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 }, small = { .msg_iov = &one, .msg_iovlen = 1 };

	for (int i = 0; i < 200; i++) {
		if (sent(fd, writev(fd, parts, 2)) != 1010)
			fail("writev");
	}
	for (int i = 0; i < 100; i++) {
		struct mmsghdr batch[3] = { { .msg_hdr = small }, { .msg_hdr = small }, { .msg_hdr = small } };

		if (sendmmsg(fd, batch, 3, 0) != 3)
			fail("sendmmsg");
		for (int j = 0; j < 3; j++)
			sent(fd, batch[j].msg_len);
	}
	for (int i = 0; i < 50; i++) {
		if (sent(fd, sendmsg(fd, &message, i % 2 ? MSG_MORE : 0)) != 1010)
			fail("sendmsg");
	}
	if (sent(fd, write(fd, buffer(), 999)) != 999)
		fail("write");
}

/* Trap 31: more than 4 GiB through one socket. */
enum { BIG_MIB = 4500 };

static void big_server(const struct part *part)
{
	receive_all(serve_one(part, IPPROTO_TCP), BIG_MIB * MIB, MIB);
}

static void big_client(const struct part *part)
{
	send_all(call(part, IPPROTO_TCP), BIG_MIB * MIB, MIB);
}

const struct scenario tcp_scenarios[] = {
	{ "tcp", "bulk both ways", bulk_server, bulk_client, .pauses = true },
	{ "tcp-unread", "bytes that wait unread at the pause", unread_server, unread_client, .pauses = true },
	{ "tcp-requests", "20,000 small requests and responses (--count)", requests_server, requests_client },
	{ "tcp-nonblocking", "short writes and EAGAIN", nonblocking_server, nonblocking_client },
	{ "tcp-waitall", "MSG_WAITALL over small segments, 64 MiB in one call", waitall_server, waitall_client },
	{ "writev", "vectored and batched calls, sendmmsg too", vectors_server, vectors_client },
	{ "big", "more than 4 GiB", big_server, big_client, .one_address = true, .by_request = true },
	{ 0 },
};
