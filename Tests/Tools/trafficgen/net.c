#include "generator.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

char *buffer(void)
{
	static char *bytes;

	if (!bytes) {
		/* Page-aligned, for the zero-copy scenarios. */
		bytes = aligned_alloc(4096, MIB);
		if (!bytes)
			fail("allocate");
		for (size_t i = 0; i < MIB; i++)
			bytes[i] = (char)(i * 2654435761u >> 13);
	}
	return bytes;
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

void pause_ms(unsigned int milliseconds)
{
	struct timespec time = { .tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L };

	nanosleep(&time, NULL);
}

void set_option(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		fail("setsockopt(%d, %d)", level, name);
}

void set_sysctl(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		skip("cannot set %s: %s", path, strerror(errno));
	close(fd);
}

void raise_file_limit(unsigned long files)
{
	struct rlimit limit = { .rlim_cur = files, .rlim_max = files };

	if (setrlimit(RLIMIT_NOFILE, &limit))
		skip("cannot have %lu open files: %s", files, strerror(errno));
}

int open_socket(int family, int type, int protocol)
{
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		fail("socket(%d, %d, %d)", family, type, protocol);
	return fd;
}

/* sin_port and sin6_port lie at the same place. */
static in_port_t *port_of(struct address *address)
{
	return &((struct sockaddr_in *)&address->storage)->sin_port;
}

struct address with_port(const struct part *part, uint16_t port)
{
	struct address address = part->address;

	*port_of(&address) = htons(port);
	return address;
}

int bind_at(const struct part *part, int type, int protocol, uint16_t *port)
{
	struct address address = with_port(part, 0);
	int fd = open_socket(address.storage.ss_family, type, protocol);

	if (bind(fd, (struct sockaddr *)&address.storage, address.length))
		fail("bind");
	if (getsockname(fd, (struct sockaddr *)&address.storage, &address.length))
		fail("getsockname");
	*port = ntohs(*port_of(&address));
	return fd;
}

int listen_at(const struct part *part, int protocol, uint16_t *port)
{
	int fd = bind_at(part, SOCK_STREAM, protocol, port);

	if (listen(fd, 4096))
		fail("listen");
	watch(fd, "listener");
	return fd;
}

int accept_from(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		fail("accept");
	watch(fd, "server");
	return fd;
}

/* Returns how long the call took, in nanoseconds. */
static uint64_t connect_socket(int fd, const struct part *part, uint16_t port)
{
	struct address address = with_port(part, port);
	uint64_t before = now_ns();

	if (connect(fd, (struct sockaddr *)&address.storage, address.length))
		fail("connect");
	return now_ns() - before;
}

int connect_to(const struct part *part, int protocol, uint16_t port)
{
	int fd = open_socket(part->address.storage.ss_family, SOCK_STREAM, protocol);

	connect_socket(fd, part, port);
	watch(fd, "client");
	return fd;
}

int timed_connect_to(const struct part *part, int protocol, uint16_t port)
{
	int fd = open_socket(part->address.storage.ss_family, SOCK_STREAM, protocol);
	uint64_t nanoseconds = connect_socket(fd, part, port);

	watch(fd, "client");
	connected_in(fd, nanoseconds);
	return fd;
}

int serve_one(const struct part *part, int protocol)
{
	uint16_t port;
	int listener = listen_at(part, protocol, &port), fd;

	ready(part, port);
	fd = accept_from(listener);
	hang_up(listener);
	return fd;
}

int call(const struct part *part, int protocol)
{
	return connect_to(part, protocol, await_port(part));
}

void hang_up(int fd)
{
	mark_closed(fd);
	close(fd);
}

static size_t at_most(size_t bytes, size_t limit)
{
	return bytes < limit ? bytes : limit;
}

void send_all(int fd, size_t bytes, size_t chunk)
{
	while (bytes) {
		ssize_t result = sent(fd, send(fd, buffer(), at_most(bytes, chunk), MSG_NOSIGNAL));

		if (result < 0)
			fail("send");
		bytes -= result;
	}
}

void receive_all(int fd, size_t bytes, size_t chunk)
{
	while (bytes) {
		ssize_t result = received(fd, recv(fd, buffer(), at_most(bytes, chunk), 0));

		if (result <= 0)
			fail("receive %zu more bytes, got %zd", bytes, result);
		bytes -= result;
	}
}

size_t receive_to_end(int fd, size_t chunk)
{
	size_t total = 0;
	ssize_t result;

	while ((result = received(fd, recv(fd, buffer(), chunk, 0))) > 0)
		total += result;
	if (result < 0)
		fail("receive to the end");
	return total;
}
