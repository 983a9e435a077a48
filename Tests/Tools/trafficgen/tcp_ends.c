/* TCP connections that do not end by two orderly closes after the last byte was read. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sends until the socket takes no more: its peer's queue and its own are full then. */
static size_t fill(int fd)
{
	size_t total = 0;
	ssize_t result;

	for (int idle = 0; idle < 5;) {
		result = sent(fd, send(fd, buffer(), 30011, MSG_DONTWAIT | MSG_NOSIGNAL));
		if (result < 0 && errno != EAGAIN)
			fail("fill the connection");
		idle = result < 0 ? idle + 1 : 0;
		if (result < 0)
			pause_ms(10); /* the peer's queue may have room after the acknowledgements */
		else
			total += result;
	}
	return total;
}

/* Both queues of both sockets of a connection hold only so much, so that filling them is quick. */
static void bound_queues(int fd)
{
	set_option(fd, SOL_SOCKET, SO_SNDBUF, 128 * KIB);
	set_option(fd, SOL_SOCKET, SO_RCVBUF, 128 * KIB);
}

/*
 * Trap 27 both ways: each socket has accepted more than the other side has read when one side resets. Sent bytes stay
 * sent. What reached the other side before the reset can still be read there, and here half of it is read.
 */
struct doomed {
	const struct part *part;
	uint16_t port;
	bool full; /* the client's direction */
};

static void be_reset(void *argument)
{
	struct doomed *doomed = argument;
	int fd = connect_to(doomed->part, IPPROTO_TCP, doomed->port), unread;
	struct pollfd end = { .fd = fd };

	mark_closed(fd);
	bound_queues(fd);
	if (fill(fd) < 100 * KIB)
		fail("the connection took too little");
	receive_all(fd, 1000, 1000);
	__atomic_store_n(&doomed->full, true, __ATOMIC_RELEASE);
	if (poll(&end, 1, -1) != 1 || !(end.revents & POLLERR))
		fail("wait for the reset");
	if (ioctl(fd, FIONREAD, &unread) || unread < 2000)
		fail("too little is left to be read (%d)", unread);
	for (size_t left = unread / 2; left;) {
		ssize_t result = received(fd, recv(fd, buffer(), left < 4096 ? left : 4096, 0));

		if (result < 0 && errno == ECONNRESET)
			continue; /* reported once; the bytes are still there */
		if (result <= 0)
			fail("read after the reset");
		left -= result;
	}
	if (sent(fd, send(fd, buffer(), 1, MSG_NOSIGNAL)) >= 0)
		fail("send after the reset");
}

static void reset_server(const struct part *part)
{
	struct doomed *doomed = mmap(NULL, sizeof(*doomed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct linger abort = { .l_onoff = 1 };
	int listener = listen_at(part, IPPROTO_TCP, &doomed->port), fd;
	pid_t child;

	doomed->part = part;
	meet();
	child = spawn("tg-reset", be_reset, doomed);
	fd = accept_from(listener);
	bound_queues(fd);
	receive_all(fd, 1000, 1000);
	fill(fd);
	receive_all(fd, 5000, 5000);
	while (!__atomic_load_n(&doomed->full, __ATOMIC_ACQUIRE))
		pause_ms(1);
	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort)))
		fail("SO_LINGER");
	hang_up(fd);
	reap(child);
}

/* One direction ends, the other goes on. First the client's, then the server's, then one side refuses to read. */
static void half_close_server(const struct part *part)
{
	uint16_t port;
	int listener = listen_at(part, IPPROTO_TCP, &port), fd;

	ready(part, port);
	fd = accept_from(listener);
	if (receive_to_end(fd, 4096) != 100000)
		fail("receive up to the client's half-close");
	send_all(fd, 2 * MIB, 30011);
	shutdown(fd, SHUT_WR);

	fd = accept_from(listener);
	send_all(fd, 70000, 30011);
	shutdown(fd, SHUT_WR);
	if (receive_to_end(fd, 4096) != 2 * MIB)
		fail("receive after the own half-close");

	fd = accept_from(listener);
	receive_all(fd, 5000, 5000);
	shutdown(fd, SHUT_RD);
	send_all(fd, 10000, 10000);
	receive_to_end(fd, 1000); /* what came before or after: both are in the queue */
}

static void half_close_client(const struct part *part)
{
	uint16_t port = await_port(part);
	int fd = connect_to(part, IPPROTO_TCP, port);

	send_all(fd, 100000, 30011);
	shutdown(fd, SHUT_WR);
	if (receive_to_end(fd, 50021) != 2 * MIB)
		fail("receive after the own half-close");

	fd = connect_to(part, IPPROTO_TCP, port);
	if (receive_to_end(fd, 50021) != 70000)
		fail("receive up to the server's half-close");
	send_all(fd, 2 * MIB, 65536);
	shutdown(fd, SHUT_WR);

	fd = connect_to(part, IPPROTO_TCP, port);
	send_all(fd, 9000, 9000);
	receive_all(fd, 10000, 10000);
}

/*
 * A process that is killed with unsent bytes in its socket, once between two calls and once inside a call. In the
 * second case only the peer knows how much the socket had accepted: nothing resets the connection, so all of that
 * arrives.
 */
struct victim {
	struct tally *account;
	bool in_call;
	uint16_t port;
	const struct part *part;
};

static void die(void *argument)
{
	struct victim *victim = argument;
	int fd = connect_to(victim->part, IPPROTO_TCP, victim->port);

	set_option(fd, SOL_SOCKET, SO_SNDBUF, 64 * KIB);
	mark_closed(fd);
	__atomic_store_n(&victim->account, account(fd), __ATOMIC_RELEASE);
	if (victim->in_call) {
		sent(fd, send(fd, buffer(), MIB, 0));
		fail("the socket accepted everything");
	}
	fill(fd);
	kill(getpid(), SIGKILL);
}

/* Field 3 of /proc/PID/stat. The name in field 2 may contain anything, so count from the last parenthesis. */
static char state_of(pid_t process)
{
	char path[64], line[1024], *name_end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", process);
	file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		fail("read %s", path);
	fclose(file);
	name_end = strrchr(line, ')');
	if (!name_end || strlen(name_end) < 3)
		fail("no state in %s", path);
	return name_end[2];
}

/*
 * Waits until the victim has filled both queues and sleeps in its call. Once bytes are here it is in that call, because it
 * makes no other. The caller sees to a victim that has ended by itself.
 */
static void await_call(int fd, pid_t victim)
{
	int queued = 0, before;
	char state;

	do {
		before = queued;
		pause_ms(10);
		if (ioctl(fd, FIONREAD, &queued))
			fail("FIONREAD");
		state = state_of(victim);
	} while (state != 'Z' && !(queued && queued == before && state == 'S'));
}

static void killed_server(const struct part *part)
{
	struct victim *victim = mmap(NULL, sizeof(*victim), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int listener = listen_at(part, IPPROTO_TCP, &victim->port);

	set_option(listener, SOL_SOCKET, SO_RCVBUF, 64 * KIB);
	meet();
	for (int i = 0; i < 2; i++) {
		pid_t child;
		size_t arrived;
		int fd, status;

		victim->part = part;
		victim->in_call = i;
		victim->account = NULL;
		child = spawn(i ? "tg-killed-call" : "tg-killed", die, victim);
		fd = accept_from(listener);
		if (victim->in_call) {
			await_call(fd, child);
			kill(child, SIGKILL);
		}
		if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
			fail("the victim ended by itself");
		arrived = receive_to_end(fd, 50021);
		if (!arrived)
			fail("nothing came of a killed process");
		if (victim->in_call)
			sent_in_all(victim->account, arrived);
	}
}

const struct scenario tcp_end_scenarios[] = {
	{ "reset-both-ways", "a reset with bytes on their way in both directions", reset_server, NULL },
	{ "half-close", "shutdown of one direction, then of the other", half_close_server, half_close_client },
	{ "killed", "SIGKILL with unsent bytes, also in mid-call", killed_server, NULL },
	{ 0 },
};
