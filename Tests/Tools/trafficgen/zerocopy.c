/* MSG_ZEROCOPY and TCP_ZEROCOPY_RECEIVE. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

/* Trap 4: completions come through the error queue, and are no payload. */
static unsigned int read_completions(int fd)
{
	unsigned int completed = 0;

	for (;;) {
		char control[128];
		struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };

		if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
			if (errno != EAGAIN)
				fail("read the error queue");
			return completed;
		}
		for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
			struct sock_extended_err *error = (struct sock_extended_err *)CMSG_DATA(header);

			if (error->ee_origin == SO_EE_ORIGIN_ZEROCOPY)
				completed += error->ee_data - error->ee_info + 1;
		}
	}
}

static void zerocopy_send(int fd, unsigned int calls, size_t bytes)
{
	unsigned int made = 0, completed = 0;

	if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &(int){ 1 }, sizeof(int)))
		skip("SO_ZEROCOPY: %s", strerror(errno));
	while (made < calls) {
		size_t left = bytes;

		while (left) {
			ssize_t result = sent(fd, send(fd, buffer(), left, MSG_ZEROCOPY));

			if (result < 0 && errno != ENOBUFS)
				fail("send(MSG_ZEROCOPY)");
			if (result > 0) {
				left -= result;
				made++;
			}
			completed += read_completions(fd);
		}
	}
	while (completed < made) {
		pause_ms(1);
		completed += read_completions(fd);
	}
	if (completed != made)
		fail("%u zero-copy calls, %u completions", made, completed);
}

static void zerocopy_server(const struct part *part)
{
	receive_to_end(serve_one(part, IPPROTO_TCP), 65536);
}

static void zerocopy_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	zerocopy_send(fd, 200, 65536);
	shutdown(fd, SHUT_WR);
}

/* The same for datagrams. */
enum { DATAGRAMS = 100, DATAGRAM_BYTES = 9000, ANSWER_BYTES = 16 };

/*
 * A completion comes when the kernel frees the datagram. Linux 6.18 leaves that to the processor that made it
 * (skb_attempt_defer_free() in skb_consume_udp()), which does so when it next handles packets: on an idle machine, never.
 * If that is the processor of the receiver, too, the kernel frees the datagram at once.
 */
static void stay_on_first_processor(void)
{
	cpu_set_t allowed, first;
	int processor = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		fail("sched_getaffinity");
	while (!CPU_ISSET(processor, &allowed))
		processor++;
	CPU_ZERO(&first);
	CPU_SET(processor, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		fail("sched_setaffinity");
}

static void datagram_server(const struct part *part)
{
	uint16_t port;
	int fd = bind_at(part, SOCK_DGRAM, IPPROTO_UDP, &port);

	stay_on_first_processor();
	watch(fd, "peer");
	ready(part, port);
	for (int i = 0; i < DATAGRAMS; i++) {
		struct sockaddr_storage from;
		socklen_t length = sizeof(from);

		if (received(fd, recvfrom(fd, buffer(), 65536, 0, (struct sockaddr *)&from, &length)) != DATAGRAM_BYTES)
			fail("receive a datagram");
		if (sent(fd, sendto(fd, buffer(), ANSWER_BYTES, 0, (struct sockaddr *)&from, length)) != ANSWER_BYTES)
			fail("answer a datagram");
	}
}

static void datagram_client(const struct part *part)
{
	struct address server = with_port(part, await_port(part));
	int fd = open_socket(server.storage.ss_family, SOCK_DGRAM, IPPROTO_UDP);
	unsigned int completed = 0;

	stay_on_first_processor();
	if (connect(fd, (struct sockaddr *)&server.storage, server.length))
		fail("connect UDP");
	if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &(int){ 1 }, sizeof(int)))
		skip("SO_ZEROCOPY of UDP: %s", strerror(errno));
	for (int i = 0; i < DATAGRAMS; i++) {
		if (sent(fd, send(fd, buffer(), DATAGRAM_BYTES, MSG_ZEROCOPY)) != DATAGRAM_BYTES)
			fail("send(MSG_ZEROCOPY)");
		if (received(fd, recv(fd, buffer(), 100, 0)) != ANSWER_BYTES)
			fail("await an answer");
		completed += read_completions(fd);
	}
	while (completed < DATAGRAMS) {
		pause_ms(1);
		completed += read_completions(fd);
	}
	if (completed != DATAGRAMS)
		fail("%u completions", completed);
}

/*
 * Trap 32. Only whole pages can be mapped; the kernel says how many bytes after them want a plain read. On loopback
 * pages come whole from a zero-copy sender.
 */
static void map_receive_server(const struct part *part)
{
	const size_t window = 256 * KIB;
	struct pollfd input;
	size_t mapped = 0, copied = 0;
	void *area;
	int fd = serve_one(part, IPPROTO_TCP);

	area = mmap(NULL, window, PROT_READ, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED)
		skip("mmap of a TCP socket: %s", strerror(errno));
	input = (struct pollfd){ .fd = fd, .events = POLLIN };
	for (;;) {
		struct tcp_zerocopy_receive request = { .address = (uintptr_t)area, .length = window };
		socklen_t length = sizeof(request);
		ssize_t result;

		poll(&input, 1, -1);
		if (getsockopt(fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &request, &length)) {
			if (errno == EIO)
				break; /* the end of the stream */
			skip("TCP_ZEROCOPY_RECEIVE: %s", strerror(errno));
		}
		mapped += received(fd, request.length);
		if (!request.recv_skip_hint && request.length)
			continue;
		result = recv(fd, buffer(), request.recv_skip_hint ?: 4096, MSG_DONTWAIT);
		if (!result)
			break;
		if (result > 0)
			copied += received(fd, result);
		else if (errno != EAGAIN)
			fail("receive after the mapping");
	}
	if (!mapped)
		skip("no page could be mapped");
	note("%zu bytes mapped, %zu copied", mapped, copied);
}

static void map_receive_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	set_option(fd, IPPROTO_TCP, TCP_MAXSEG, 4096 + 12); /* one page and the timestamp option */
	zerocopy_send(fd, 100, 65536);
	send_all(fd, 1001, 1001);
	shutdown(fd, SHUT_WR);
}

const struct scenario zerocopy_scenarios[] = {
	{ "tcp-zerocopy", "MSG_ZEROCOPY and its completions", zerocopy_server, zerocopy_client },
	{ "udp-zerocopy", "MSG_ZEROCOPY of datagrams", datagram_server, datagram_client },
	{ "tcp-zerocopy-receive", "TCP_ZEROCOPY_RECEIVE", map_receive_server, map_receive_client,
	  .one_namespace = true }, /* pages come whole over loopback alone */
	{ 0 },
};
