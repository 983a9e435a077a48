/* Processes easily mistaken for others: a pid used again, a pid in a namespace, another program in mid-connection. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GENERATIONS = 3 };

static size_t request_of(int number)
{
	return 10000 + number * 1001;
}

static size_t response_of(size_t request)
{
	return 3 * request + 7;
}

/* Answers connections, each until its end. */
static void answer(const struct part *part, int connections)
{
	uint16_t port;
	int listener = listen_at(part, IPPROTO_TCP, &port);

	ready(part, port);
	for (int i = 0; i < connections; i++) {
		int fd = accept_from(listener);

		send_all(fd, response_of(receive_to_end(fd, 4096)), 4096);
		hang_up(fd);
	}
}

static void ask(const struct part *part, uint16_t port, int number)
{
	int fd = connect_to(part, IPPROTO_TCP, port);

	send_all(fd, request_of(number), 4096);
	shutdown(fd, SHUT_WR);
	if (receive_to_end(fd, 4096) != response_of(request_of(number)))
		fail("the response is not whole");
	hang_up(fd);
}

/* Trap 15. clone3() gives a child a chosen pid, so that no process has to wait until the pids come round. */
static void pid_reuse_server(const struct part *part)
{
	answer(part, GENERATIONS);
}

static pid_t clone_as(pid_t pid)
{
	struct clone_args arguments = { .exit_signal = SIGCHLD, .set_tid = pid ? (uintptr_t)&pid : 0, .set_tid_size = !!pid };

	return syscall(SYS_clone3, &arguments, sizeof(arguments));
}

static void pid_reuse_client(const struct part *part)
{
	uint16_t port = await_port(part);
	pid_t wanted = 0;

	for (int i = 0; i < GENERATIONS; i++) {
		pid_t child = clone_as(wanted);

		if (child < 0)
			skip("clone3 with a chosen pid: %s", strerror(errno));
		if (!child) {
			name_process("tg-reused-%d", i);
			ask(part, port, i);
			_exit(0);
		}
		if (wanted && child != wanted)
			fail("asked for pid %d, got %d", wanted, child);
		reap(child);
		wanted = child;
		pause_ms(30); /* start times are told apart by clock ticks */
	}
}

/* The same by ns_last_pid in two PID namespaces: four processes that all call themselves 100. */
enum { INNER_PID = 100, NAMESPACES = 2 };

static void inner_process(const struct part *part, uint16_t port, int number)
{
	pid_t child;

	set_sysctl("/proc/sys/kernel/ns_last_pid", "99");
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		if (getpid() != INNER_PID)
			fail("the pid is %d", getpid());
		name_process("tg-inner-%d", number);
		ask(part, port, number);
		_exit(0);
	}
	reap(child);
	pause_ms(30);
}

static void pid_namespace_server(const struct part *part)
{
	answer(part, 2 * NAMESPACES);
}

static void pid_namespace_client(const struct part *part)
{
	uint16_t port = await_port(part);
	pid_t firsts[NAMESPACES];

	for (int i = 0; i < NAMESPACES; i++) {
		struct clone_args arguments = { .exit_signal = SIGCHLD, .flags = CLONE_NEWPID };

		firsts[i] = syscall(SYS_clone3, &arguments, sizeof(arguments));
		if (firsts[i] < 0)
			skip("no PID namespace of its own: %s", strerror(errno));
		if (firsts[i])
			continue;
		inner_process(part, port, 2 * i);
		inner_process(part, port, 2 * i + 1);
		_exit(0);
	}
	for (int i = 0; i < NAMESPACES; i++)
		reap(firsts[i]);
}

/* A process that becomes another program in mid-connection: one pid, one start time, one row, under its new name. */
enum { FIRST_BYTES = 30011, SECOND_BYTES = 50021 };

static void exec_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	receive_all(fd, FIRST_BYTES, 4096);
	send_all(fd, SECOND_BYTES, 4096);
	receive_all(fd, SECOND_BYTES, 4096);
	send_all(fd, FIRST_BYTES, 4096);
}

static void exec_client(const struct part *part)
{
	char program[4096], directory[] = "/tmp/trafficgen-XXXXXX", path[64], arguments[2][24];
	int fd = call(part, IPPROTO_TCP);
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

	send_all(fd, FIRST_BYTES, 4096);
	receive_all(fd, SECOND_BYTES - 1, 4096);
	pause_ms(500); /* long enough to be seen under its first name */
	if (length < 0 || !mkdtemp(directory) || fcntl(fd, F_SETFD, 0))
		fail("prepare to become another program");
	program[length] = 0;
	snprintf(path, sizeof(path), "%s/tg-second", directory);
	if (symlink(program, path))
		fail("link %s", path);
	snprintf(arguments[0], sizeof(arguments[0]), "%d", world_fd());
	snprintf(arguments[1], sizeof(arguments[1]), "%d", fd);
	execl(path, path, "second", arguments[0], arguments[1], directory, NULL);
	fail("exec %s", path);
}

/* `tg-second second WORLD SOCKET DIRECTORY` */
int second_program(int argc, char **argv)
{
	char path[64];
	int fd;

	if (argc != 4)
		return 64;
	snprintf(path, sizeof(path), "%s/tg-second", argv[3]);
	unlink(path);
	rmdir(argv[3]);
	join_world(atoi(argv[1]));
	fd = atoi(argv[2]);
	take_new_name();
	receive_all(fd, 1, 1);
	send_all(fd, SECOND_BYTES, 4096);
	receive_all(fd, FIRST_BYTES, 4096);
	meet(); /* the first program's place in the cast */
	return 0;
}

/* Trap 16, a harder case: the thread that the process is named after ends first, and another thread goes on. */
struct heritage {
	const struct part *part;
	uint16_t port;
};

static void *go_on(void *argument)
{
	const struct heritage *heritage = argument;

	pause_ms(300); /* the first thread is a zombie by then, in /proc too */
	ask(heritage->part, heritage->port, 2);
	_exit(0);
}

static void begin(void *argument)
{
	const struct heritage *heritage = argument;
	pthread_t heir;

	ask(heritage->part, heritage->port, 1);
	if (pthread_create(&heir, NULL, go_on, argument))
		fail("pthread_create");
	pthread_setname_np(heir, "tg-heir");
	pthread_exit(NULL);
}

static void leader_server(const struct part *part)
{
	answer(part, 2);
}

static void leader_client(const struct part *part)
{
	struct heritage heritage = { .part = part, .port = await_port(part) };

	reap(spawn("tg-leader", begin, &heritage));
}

const struct scenario process_scenarios[] = {
	{ "pid-reuse", "three processes in turn with one pid", pid_reuse_server, pid_reuse_client },
	{ "pid-namespace", "one pid in two PID namespaces, used twice in each", pid_namespace_server, pid_namespace_client },
	{ "leader-exits", "the first thread ends, another goes on", leader_server, leader_client },
	{ "exec", "another program in mid-connection", exec_server, exec_client },
	{ 0 },
};
