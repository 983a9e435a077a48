/*
 * `trafficgen flood KIND SECONDS [SOCKETS]`: an unprivileged user who uses up all that the kernel gives, as fast as
 * possible, for so many seconds and until there is something on standard input. Prints what the user's own calls
 * returned, as one JSON object.
 */
#include "generator.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, MOST_HELD = 15000 };

static unsigned int held_limit = MOST_HELD;

static struct {
	unsigned long sockets, processes;
	uint64_t sent, received;
} done;

static struct sockaddr_in sink = { .sin_family = AF_INET };

/* Somewhere on loopback for datagrams to go to. Nobody reads them. */
static void open_sink(void)
{
	socklen_t length = sizeof(sink);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	sink.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sink, sizeof(sink)) || getsockname(fd, (struct sockaddr *)&sink, &length))
		fail("a socket to send to");
}

static int open_datagram_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd >= 0)
		done.sockets++;
	return fd;
}

static void send_byte(int fd)
{
	if (sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&sink, sizeof(sink)) == 1)
		done.sent++;
}

static void empty_socket(void)
{
	close(open_datagram_socket());
}

static void one_byte(void)
{
	int fd = open_datagram_socket();

	send_byte(fd);
	close(fd);
}

/* A process for each socket. */
static void one_process(void)
{
	int status;
	pid_t child = fork();

	if (child < 0) {
		usleep(1000);
		return;
	}
	if (!child) {
		int fd = socket(AF_INET, SOCK_DGRAM, 0);

		_exit(sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&sink, sizeof(sink)) != 1);
	}
	done.processes++;
	done.sockets++;
	if (waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status))
		done.sent++;
}

static void one_connection(void)
{
	static struct sockaddr_in address = { .sin_family = AF_INET };
	static int listener = -1;
	char bytes[100] = { 0 };
	int client, server;
	ssize_t result;

	if (listener < 0) {
		socklen_t length = sizeof(address);

		listener = socket(AF_INET, SOCK_STREAM, 0);
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 64) ||
		    getsockname(listener, (struct sockaddr *)&address, &length))
			fail("a listener of the flood");
	}
	client = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(client, (struct sockaddr *)&address, sizeof(address))) {
		close(client); /* no port is free for the moment */
		usleep(1000);
		return;
	}
	server = accept(listener, NULL, NULL);
	result = send(client, bytes, sizeof(bytes), 0);
	done.sent += result > 0 ? result : 0;
	result = recv(server, bytes, sizeof(bytes), 0);
	done.received += result > 0 ? result : 0;
	close(server);
	close(client);
	done.sockets += 2;
}

/* Many sockets, open for so long that each is seen. Then all end at once. */
static void held_sockets(void)
{
	static int held[MOST_HELD];
	unsigned int count = 0;

	while (count < held_limit && (held[count] = open_datagram_socket()) >= 0)
		send_byte(held[count++]);
	usleep(500000);
	while (count)
		close(held[--count]);
}

static const struct kind {
	const char *name;
	void (*once)(void);
	unsigned int rounds; /* before each check whether to stop, which takes longer than a socket */
} kinds[] = {
	{ "empty", empty_socket, 64 }, { "byte", one_byte, 64 },     { "process", one_process, 64 },
	{ "tcp", one_connection, 64 }, { "held", held_sockets, 1 },
};

static bool told_to_stop(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&input, 1, 0) > 0;
}

static void become_nobody(void)
{
	struct rlimit files = { 20000, 20000 };

	setrlimit(RLIMIT_NOFILE, &files);
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		fail("become nobody");
	prctl(PR_SET_NAME, "flooder");
}

struct flood_run {
	const struct kind *kind;
	uint64_t end_ns;
};

/*
 * A thread with descriptors of its own, so that no process finds them in /proc/PID/fd. A reader of that directory ends
 * sockets in the owner's place, and the reader may be process 1 (TrafficCapture.md). The sockets of the kind `process`
 * are in its children, where /proc shows them.
 */
static void *run_out_of_sight(void *argument)
{
	const struct flood_run *run = argument;

	if (unshare(CLONE_FILES))
		fail("descriptors of its own");
	for (unsigned long i = 0;; i++) {
		run->kind->once();
		if (i % run->kind->rounds == 0 && now_ns() >= run->end_ns && told_to_stop())
			return NULL;
	}
}

int flood(int argc, char **argv)
{
	const struct kind *kind = NULL;
	struct flood_run run;
	pthread_t thread;

	for (unsigned int i = 0; argc >= 3 && i < COUNT_OF(kinds); i++) {
		if (!strcmp(kinds[i].name, argv[1]))
			kind = &kinds[i];
	}
	if (!kind) {
		fprintf(stderr, "usage: trafficgen flood empty|byte|process|tcp|held SECONDS [SOCKETS]\n");
		return 64;
	}
	if (argc > 3 && strtoul(argv[3], NULL, 10) < MOST_HELD)
		held_limit = strtoul(argv[3], NULL, 10);
	become_nobody();
	open_sink();
	run = (struct flood_run){ kind, now_ns() + strtoul(argv[2], NULL, 10) * 1000000000ULL };
	if (pthread_create(&thread, NULL, run_out_of_sight, &run) || pthread_join(thread, NULL))
		fail("a thread of the flood");
	printf("{\"pid\":%d,\"sockets\":%lu,\"processes\":%lu,\"sent\":%llu,\"received\":%llu}\n", getpid(), done.sockets,
	       done.processes, (unsigned long long)done.sent, (unsigned long long)done.received);
	return 0;
}
