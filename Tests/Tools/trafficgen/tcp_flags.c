/* TCP receives that are not plain reads: peeking, discarding, urgent data. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <poll.h>

/* Trap 3: peeks, and failing calls, before every real read. */
static void peek_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	for (int i = 0; i < 1000; i++) {
		if (recv(fd, buffer(), 20000, MSG_PEEK) <= 0)
			fail("peek");
		if (i % 100 == 50 && received(fd, recv(fd, buffer(), 100, MSG_WAITALL)) != 100)
			fail("read between peeks");
	}
	if (recv(fd, buffer(), 20000, MSG_PEEK | MSG_WAITALL) != 20000)
		fail("peek at everything");
	receive_all(fd, 20000, 7001);
	for (int i = 0; i < 1000; i++) {
		if (recv(fd, buffer(), 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN)
			fail("an empty queue gave something");
	}
	send_all(fd, 1, 1);
}

static void peek_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	send_all(fd, 21000, 21000);
	receive_all(fd, 1, 1);
}

/* Trap 5 for a stream: with MSG_TRUNC, TCP throws bytes away and returns how many. */
static void discard_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);
	size_t left = 3 * MIB;

	while (left) {
		ssize_t result = received(fd, recv(fd, NULL, left < 100003 ? left : 100003, MSG_TRUNC));

		if (result <= 0)
			fail("recv(MSG_TRUNC)");
		left -= result;
	}
	receive_all(fd, MIB, 40009);
}

static void discard_client(const struct part *part)
{
	send_all(call(part, IPPROTO_TCP), 4 * MIB, 65536);
}

/* Urgent data: read out of band, then in line. A byte that is never read has a scenario of its own. */
static void urgent_server(const struct part *part)
{
	struct pollfd urgent;
	int fd = serve_one(part, IPPROTO_TCP);
	char byte;

	receive_all(fd, 5000, 1000);
	urgent = (struct pollfd){ .fd = fd, .events = POLLPRI };
	if (poll(&urgent, 1, -1) != 1)
		fail("wait for urgent data");
	if (recv(fd, &byte, 1, MSG_OOB | MSG_PEEK) != 1)
		fail("peek at urgent data");
	if (received(fd, recv(fd, &byte, 1, MSG_OOB)) != 1)
		fail("read urgent data");
	send_all(fd, 1, 1);
	receive_all(fd, 5000, 1000);
	set_option(fd, SOL_SOCKET, SO_OOBINLINE, 1);
	send_all(fd, 1, 1);
	receive_all(fd, 5001, 1000);
}

static void urgent_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	send_all(fd, 5000, 5000);
	if (sent(fd, send(fd, "!", 1, MSG_OOB)) != 1)
		fail("send urgent data");
	receive_all(fd, 1, 1);
	send_all(fd, 5000, 5000);
	receive_all(fd, 1, 1);
	if (sent(fd, send(fd, "!", 1, MSG_OOB)) != 1)
		fail("send urgent data in line");
	send_all(fd, 5000, 5000);
}

static void urgent_unread_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	receive_all(fd, 10000, 1000);
}

static void urgent_unread_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	send_all(fd, 5000, 5000);
	if (sent(fd, send(fd, "!", 1, MSG_OOB)) != 1)
		fail("send urgent data");
	send_all(fd, 5000, 5000);
}

const struct scenario tcp_flag_scenarios[] = {
	{ "tcp-peek", "MSG_PEEK and EAGAIN before reads", peek_server, peek_client },
	{ "tcp-trunc", "MSG_TRUNC, which discards", discard_server, discard_client },
	{ "tcp-oob", "urgent data, out of band and in line", urgent_server, urgent_client },
	{ "tcp-oob-unread", "urgent data that nobody reads", urgent_unread_server, urgent_unread_client },
	{ 0 },
};
