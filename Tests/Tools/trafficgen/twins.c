/* Trap 24: two networks with the same addresses and ports at once. Only the cookie tells the sockets apart. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <string.h>

enum { SERVER_PORT = 7001, CLIENT_PORT = 7002, DATAGRAMS = 100 };

static size_t request_of(char twin)
{
	return twin == 'a' ? 100003 : 200009;
}

static int open_at(const struct part *part, int type, uint16_t port)
{
	struct address address = with_port(part, port);
	int fd = open_socket(address.storage.ss_family, type, 0);

	if (bind(fd, (struct sockaddr *)&address.storage, address.length))
		fail("bind to port %u", port);
	return fd;
}

static void connect_at(const struct part *part, int fd, uint16_t port)
{
	struct address address = with_port(part, port);

	if (connect(fd, (struct sockaddr *)&address.storage, address.length))
		fail("connect to port %u", port);
}

struct twin {
	const struct part *part;
	char name;
};

static void be_client(void *argument)
{
	const struct twin *twin = argument;
	int fd = open_at(twin->part, SOCK_STREAM, CLIENT_PORT), udp = open_at(twin->part, SOCK_DGRAM, CLIENT_PORT);

	connect_at(twin->part, fd, SERVER_PORT);
	watch(fd, "client");
	mark_closed(fd);
	connect_at(twin->part, udp, SERVER_PORT);
	send_all(fd, request_of(twin->name), 4096);
	for (int i = 0; i < DATAGRAMS; i++) {
		if (sent(udp, send(udp, buffer(), twin->name * 3, 0)) < 0 || received(udp, recv(udp, buffer(), 2000, 0)) < 0)
			fail("exchange datagrams");
	}
	mark_closed(udp);
	receive_all(fd, 2 * request_of(twin->name), 65536);
}

static void be_twin(const struct part *part, char name)
{
	struct twin twin = { .part = part, .name = name };
	int listener, fd, udp;
	pid_t child;

	if (!own_network())
		skip("no network namespace of its own: unshare: %s", strerror(errno));
	listener = open_at(part, SOCK_STREAM, SERVER_PORT);
	udp = open_at(part, SOCK_DGRAM, SERVER_PORT);
	if (listen(listener, 1))
		fail("listen");
	connect_at(part, udp, CLIENT_PORT);
	meet(); /* now both networks are there */
	child = spawn(name == 'a' ? "tg-client-a" : "tg-client-b", be_client, &twin);
	fd = accept_from(listener);
	receive_all(fd, request_of(name), 50021);
	for (int i = 0; i < DATAGRAMS; i++) {
		ssize_t result = received(udp, recv(udp, buffer(), 2000, 0));

		if (result < 0 || sent(udp, send(udp, buffer(), result + 7, 0)) < 0)
			fail("answer a datagram");
	}
	send_all(fd, 2 * request_of(name), 30011);
	reap(child);
}

static void twin_a(const struct part *part)
{
	be_twin(part, 'a');
}

static void twin_b(const struct part *part)
{
	be_twin(part, 'b');
}

const struct scenario twin_scenarios[] = {
	{ "twins", "the same addresses and ports in two networks at once", twin_a, twin_b,
	  .one_namespace = true }, /* it makes its own two */
	{ 0 },
};
