/* Many processes, many connections, many sockets. */
#include "generator.h"
#include "scenarios.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Trap 14: processes that live for milliseconds, each with a name of its own that only exec gives it. */
enum { AT_ONCE = 4 };

static unsigned long process_count(void)
{
	return options.count ?: 1000;
}

static size_t request_of(unsigned long number)
{
	return 100 + number % 1000;
}

enum { RESPONSE_BYTES = 4321 };

static void short_lived_server(const struct part *part)
{
	uint16_t port;
	int listener = listen_at(part, IPPROTO_TCP, &port);

	ready(part, port);
	for (unsigned long i = 0; i < process_count(); i++) {
		int fd = accept_from(listener);

		receive_to_end(fd, 4096);
		send_all(fd, RESPONSE_BYTES, RESPONSE_BYTES);
		hang_up(fd);
	}
}

/* The kernel names a process after the last part of the path it was started by, here a link to this program. */
static void start_oneshot(const char *directory, const struct part *part, uint16_t port, unsigned long number)
{
	char program[4096], path[64], text[INET6_ADDRSTRLEN], arguments[3][24];
	struct address server = part->address;
	const void *address = server.storage.ss_family == AF_INET ?
				      (void *)&((struct sockaddr_in *)&server.storage)->sin_addr :
				      (void *)&((struct sockaddr_in6 *)&server.storage)->sin6_addr;
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	if (length < 0)
		fail("readlink /proc/self/exe");
	program[length] = 0;
	snprintf(path, sizeof(path), "%s/one-%lu", directory, number);
	if (symlink(program, path))
		fail("link %s", path);
	inet_ntop(server.storage.ss_family, address, text, sizeof(text));
	snprintf(arguments[0], sizeof(arguments[0]), "%d", world_fd());
	snprintf(arguments[1], sizeof(arguments[1]), "%u", port);
	snprintf(arguments[2], sizeof(arguments[2]), "%lu", number);
	switch (fork()) {
	case -1: fail("fork");
	case 0:
		execl(path, path, "oneshot", arguments[0], text, arguments[1], arguments[2], NULL);
		fail("exec %s", path);
	}
}

static void short_lived_client(const struct part *part)
{
	char directory[] = "/tmp/trafficgen-XXXXXX", path[64];
	uint16_t port = await_port(part);
	unsigned long running = 0;
	int status;

	if (!mkdtemp(directory))
		fail("mkdtemp");
	for (unsigned long i = 0; i < process_count() || running;) {
		if (i < process_count() && running < AT_ONCE) {
			start_oneshot(directory, part, port, i++);
			running++;
			continue;
		}
		if (wait(&status) < 0 || status)
			fail("a one-shot process ended with %#x", status);
		running--;
	}
	for (unsigned long i = 0; i < process_count(); i++) {
		snprintf(path, sizeof(path), "%s/one-%lu", directory, i);
		unlink(path);
	}
	rmdir(directory);
}

/* What exec starts: `one-N oneshot WORLD ADDRESS PORT NUMBER`. */
int oneshot(int argc, char **argv)
{
	struct part part = {};
	struct sockaddr_in *four = (struct sockaddr_in *)&part.address.storage;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&part.address.storage;
	int fd;

	if (argc != 5)
		return 64;
	join_world(atoi(argv[1]));
	if (inet_pton(AF_INET, argv[2], &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		part.address.length = sizeof(*four);
	} else {
		inet_pton(AF_INET6, argv[2], &six->sin6_addr);
		six->sin6_family = AF_INET6;
		part.address.length = sizeof(*six);
	}
	fd = connect_to(&part, IPPROTO_TCP, atoi(argv[3]));
	send_all(fd, request_of(strtoul(argv[4], NULL, 10)), MIB);
	shutdown(fd, SHUT_WR);
	if (receive_to_end(fd, 4096) != RESPONSE_BYTES)
		fail("the response is not whole");
	hang_up(fd);
	return 0;
}

/* Open sockets with nothing to do. `--count` counts sockets, of which each connection has two. */
static unsigned long idle_connections(void)
{
	return (options.count ?: 1000) / 2;
}

static void idle_server(const struct part *part)
{
	uint16_t port;
	int listener;

	raise_file_limit(idle_connections() + 100);
	listener = listen_at(part, IPPROTO_TCP, &port);
	ready(part, port);
	for (unsigned long i = 0; i < idle_connections(); i++) {
		int fd = accept_from(listener);

		receive_all(fd, 10, 10);
		send_all(fd, 20, 20);
	}
}

static void idle_client(const struct part *part)
{
	uint16_t port;

	raise_file_limit(idle_connections() + 100);
	port = await_port(part);
	for (unsigned long i = 0; i < idle_connections(); i++) {
		int fd = connect_to(part, IPPROTO_TCP, port);

		send_all(fd, 10, 10);
		receive_all(fd, 20, 20);
	}
}

/*
 * Descriptors that are no sockets, by `--count`, in processes of a user without rights, and a connection that no
 * process accepts. A search for that connection's process goes through all descriptors and finds nothing.
 */
enum { DESCRIPTORS_EACH = 19000, NOBODY = 65534 };

static void hold_descriptors(void *ready_fd)
{
	int done = *(int *)ready_fd;

	if (setgid(NOBODY) || setuid(NOBODY))
		fail("become nobody");
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* setuid() took that back */
	for (unsigned int i = 0; i < DESCRIPTORS_EACH; i++)
		if (dup(STDERR_FILENO) < 0)
			fail("dup");
	if (write(done, "", 1) != 1)
		fail("write");
	for (;;)
		pause();
}

static void descriptors_server(const struct part *part)
{
	unsigned long count = (options.count ?: 1240000) / DESCRIPTORS_EACH;
	int ends[2];
	uint16_t port;
	char byte;

	listen_at(part, IPPROTO_TCP, &port);
	raise_file_limit(DESCRIPTORS_EACH + 100);
	if (pipe(ends))
		fail("pipe");
	for (unsigned long i = 0; i < count; i++) {
		spawn("tg-holder", hold_descriptors, &ends[1]);
		if (read(ends[0], &byte, 1) != 1)
			fail("read");
	}
	ready(part, port);
}

static void descriptors_client(const struct part *part)
{
	send_all(connect_to(part, IPPROTO_TCP, await_port(part)), 1000, 1000);
}

const struct scenario scale_scenarios[] = {
	{ "short-lived", "1,000 processes that live for milliseconds (--count)", short_lived_server, short_lived_client },
	{ "idle", "1,000 open sockets (--count)", idle_server, idle_client, .one_address = true },
	{ "descriptors", "1,240,000 open files (--count), a connection that nobody accepts", descriptors_server, descriptors_client,
	  .one_address = true, .by_request = true },
	{ 0 },
};
