/* TCP connections with an unusual beginning or end. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

/* Trap 13: the server's socket speaks IPv6, its peer IPv4. */
static void mapped_server(const struct part *part)
{
	struct part any = { .index = part->index, .address.length = sizeof(struct sockaddr_in6) };
	uint16_t port;
	int listener, fd;

	any.address.storage.ss_family = AF_INET6; /* the address itself stays :: */
	listener = listen_at(&any, IPPROTO_TCP, &port);
	ready(part, port);
	fd = accept_from(listener);
	receive_all(fd, 123457, 4000);
	send_all(fd, 54321, 4000);
}

static void mapped_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	send_all(fd, 123457, 10000);
	receive_all(fd, 54321, 10000);
}

/*
 * Trap 27: the socket accepts bytes that the peer never reads. The peer answers with a reset when no more comes.
 * Without the right to a larger send buffer, the sender blocks before its 4 MiB, and the reset ends that.
 */
static void reset_server(const struct part *part)
{
	struct linger abort = { .l_onoff = 1 };
	int fd = serve_one(part, IPPROTO_TCP), unread = 0, before;

	receive_all(fd, 1, 1);
	do {
		before = unread;
		pause_ms(200);
		ioctl(fd, FIONREAD, &unread);
	} while (unread != before);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
	hang_up(fd);
}

static void reset_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);
	size_t total = 0;
	ssize_t result;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &(int){ 8 * MIB }, sizeof(int));
	do {
		result = sent(fd, send(fd, buffer(), 60000, MSG_NOSIGNAL));
		if (result > 0)
			total += result;
	} while (result > 0 && total < 4 * MIB);
	while (sent(fd, send(fd, buffer(), 1, MSG_NOSIGNAL)) >= 0)
		pause_ms(50);
}

/*
 * TCP sets its counters to 0 before the socket ends: the client closes with SO_LINGER 0 when the peer has read all, or
 * disconnects and then closes.
 */
static void abort_server(const struct part *part)
{
	uint16_t port;
	int listener = listen_at(part, IPPROTO_TCP, &port);

	ready(part, port);
	for (int i = 0; i < 2; i++) {
		int fd = accept_from(listener);

		receive_all(fd, 181334, 50000);
		send_all(fd, 30000, 30000);
		if (received(fd, recv(fd, buffer(), 1, 0)) >= 0 || errno != ECONNRESET)
			fail("wait for the reset");
		hang_up(fd);
	}
}

static void abort_client(const struct part *part)
{
	uint16_t port = await_port(part);
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	struct linger abort = { .l_onoff = 1 };

	for (int i = 0; i < 2; i++) {
		int fd = connect_to(part, IPPROTO_TCP, port);

		send_all(fd, 181334, 10000);
		receive_all(fd, 30000, 10000);
		if (i ? connect(fd, &nowhere, sizeof(nowhere)) : setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort)))
			fail("abort");
		hang_up(fd);
	}
}

/* One socket object, two connections: the cookie and the totals go on over connect(AF_UNSPEC). */
static void reuse_server(const struct part *part)
{
	uint16_t port;
	int listener = listen_at(part, IPPROTO_TCP, &port);

	ready(part, port);
	for (int i = 0; i < 3; i++) {
		int fd = accept_from(listener);

		receive_all(fd, 50000, 50000);
		send_all(fd, 30000, 30000);
	}
}

static void reuse_client(const struct part *part)
{
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	struct address server;
	int fd;

	server = with_port(part, await_port(part));
	fd = open_socket(server.storage.ss_family, SOCK_STREAM, IPPROTO_TCP);
	for (int i = 0; i < 3; i++) {
		if (connect(fd, (struct sockaddr *)&server.storage, server.length))
			fail("connect again");
		if (!i)
			watch(fd, "client");
		send_all(fd, 50000, 10000);
		receive_all(fd, 30000, 10000);
		if (i < 2 && connect(fd, &nowhere, sizeof(nowhere)))
			fail("connect(AF_UNSPEC)");
	}
}

/* Trap 26: data in the SYN, by sendto(MSG_FASTOPEN) and by connect() with TCP_FASTOPEN_CONNECT. */
enum { FAST_CONNECTIONS = 4 };

/* 3: client and server; 0x204: neither asks for a cookie, so the first SYN may carry data. */
static void allow_fast_open(void)
{
	set_sysctl("/proc/sys/net/ipv4/tcp_fastopen", "519");
}

static void fast_open_server(const struct part *part)
{
	uint16_t port;
	int listener;

	allow_fast_open();
	listener = listen_at(part, IPPROTO_TCP, &port);
	set_option(listener, IPPROTO_TCP, TCP_FASTOPEN, 16);
	ready(part, port);
	for (int i = 0; i < FAST_CONNECTIONS; i++) {
		int fd = accept_from(listener);

		receive_all(fd, 900, 900);
		send_all(fd, 500, 500);
	}
}

static void fast_open_client(const struct part *part)
{
	struct address server;
	unsigned int in_syn = 0;

	allow_fast_open(); /* the client may be in another network namespace */
	server = with_port(part, await_port(part));
	for (int i = 0; i < FAST_CONNECTIONS; i++) {
		int fd = open_socket(server.storage.ss_family, SOCK_STREAM, IPPROTO_TCP);
		const struct sockaddr *to = (struct sockaddr *)&server.storage;
		struct tcp_info info = {};
		socklen_t length = sizeof(info);
		ssize_t result;

		if (i % 2) {
			result = sent(fd, sendto(fd, buffer(), 900, MSG_FASTOPEN, to, server.length));
		} else {
			set_option(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
			if (connect(fd, to, server.length))
				fail("connect with TCP_FASTOPEN_CONNECT");
			result = sent(fd, send(fd, buffer(), 900, 0));
		}
		if (result != 900)
			fail("fast open sent %zd bytes", result);
		watch(fd, "client");
		receive_all(fd, 500, 500);
		getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
		in_syn += !!(info.tcpi_options & TCPI_OPT_SYN_DATA);
	}
	if (!in_syn)
		skip("no SYN carried data");
	note("%u of %d connections had data in the SYN", in_syn, FAST_CONNECTIONS);
}

const struct scenario tcp_connection_scenarios[] = {
	{ "mapped", "server on ::, IPv4 client", mapped_server, mapped_client, .one_address = true },
	{ "reset", "4 MiB to a peer that resets", reset_server, reset_client },
	{ "abort", "the client closes with SO_LINGER 0, or disconnects and closes", abort_server, abort_client },
	{ "connect-reuse", "connect(AF_UNSPEC), then again", reuse_server, reuse_client },
	{ "tfo", "TCP Fast Open", fast_open_server, fast_open_client, .private_network = true },
	{ 0 },
};
