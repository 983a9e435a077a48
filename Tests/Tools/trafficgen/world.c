#include "generator.h"
#include "world.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct world *world;
static int shared_fd = -1;

static void map_world(void)
{
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	if (world == MAP_FAILED) {
		perror("trafficgen: mmap");
		exit(1);
	}
}

/* A memfd and not anonymous memory, because a memfd survives exec, which `short-lived` needs. */
void create_world(void)
{
	shared_fd = memfd_create("trafficgen", 0);
	if (shared_fd < 0 || ftruncate(shared_fd, sizeof(*world))) {
		perror("trafficgen: memfd");
		exit(1);
	}
	map_world();
}

void join_world(int fd)
{
	shared_fd = fd;
	map_world();
}

int world_fd(void)
{
	return shared_fd;
}

void skip(const char *reason, ...)
{
	va_list arguments;

	va_start(arguments, reason);
	if (!world->reason[0]) /* of two reasons, the later is often the consequence of the first */
		vsnprintf(world->reason, sizeof(world->reason), reason, arguments);
	va_end(arguments);
	_exit(EXIT_SKIPPED);
}

void fail(const char *what, ...)
{
	int error = errno;
	va_list arguments;

	va_start(arguments, what);
	fprintf(stderr, "trafficgen[%d]: ", getpid());
	vfprintf(stderr, what, arguments);
	fprintf(stderr, ": %s\n", strerror(error));
	va_end(arguments);
	_exit(1);
}

void note(const char *format, ...)
{
	char text[200];
	size_t length;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	length = strlen(world->notes);
	snprintf(world->notes + length, sizeof(world->notes) - length, "%s%s", length ? "; " : "", text);
}

void name_process(const char *format, ...)
{
	char name[16];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(name, sizeof(name), format, arguments);
	va_end(arguments);
	prctl(PR_SET_NAME, name);
}

void meet(void)
{
	uint32_t stage = __atomic_load_n(&world->stage, __ATOMIC_ACQUIRE);

	__atomic_fetch_add(&world->arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&world->stage, __ATOMIC_ACQUIRE) == stage)
		pause_ms(1);
}

void ready(const struct part *part, uint16_t port)
{
	world->ports[part->index] = port;
	meet();
}

uint16_t await_port(const struct part *part)
{
	meet();
	return world->ports[part->index];
}

void halfway(void)
{
	if (world->pause)
		meet();
}

bool pausing(void)
{
	return world->pause;
}

pid_t spawn(const char *name, void (*body)(void *), void *argument)
{
	pid_t parent = getpid(), child;

	fflush(stdout);
	child = fork();
	if (child < 0)
		fail("fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* the parent died before PDEATHSIG was set */
	name_process("%s", name);
	body(argument);
	_exit(0);
}

void reap(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		fail("waitpid");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

struct casting {
	struct part part;
	int namespace;
	void (*role)(const struct part *part);
};

/* Sockets stay open from the role's end until all processes are released. */
static void play(void *argument)
{
	const struct casting *casting = argument;

	if (casting->namespace >= 0)
		enter_namespace(casting->namespace);
	casting->role(&casting->part);
	meet();
}

struct cast {
	pid_t processes[2 * COUNT_OF(options.addresses)];
	unsigned int count;
	unsigned int timeout_seconds; /* from one meeting to the next */
};

/* Lines of /proc/PID/net/tcp: connections with bytes in a queue. */
static void print_queues(pid_t process, const char *table)
{
	char path[64], line[256], sent[9], received[9];
	unsigned int state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", process, table);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " %*[^:]: %*s %*s %x %8[0-9A-F]:%8[0-9A-F]", &state, sent, received) == 3 && state != 10 &&
		    (strcmp(sent, "00000000") || strcmp(received, "00000000")))
			fprintf(stderr, " %s:%s", sent, received);
	if (file)
		fclose(file);
}

/* Prints where in the kernel a process waits, and the queues of its namespace's connections, to show what is stuck. */
static void print_wait(pid_t process)
{
	char path[64], line[256], name[128];
	FILE *stack;

	snprintf(path, sizeof(path), "/proc/%d/stack", process);
	stack = fopen(path, "re");
	fprintf(stderr, "trafficgen: process %d waits in", process);
	while (stack && fgets(line, sizeof(line), stack))
		if (sscanf(line, "[<%*[^>]>] %127[^+]", name) == 1)
			fprintf(stderr, " %s", name);
	if (stack)
		fclose(stack);
	fputs(", queues", stderr);
	print_queues(process, "tcp");
	print_queues(process, "tcp6");
	fputs("\n", stderr);
}

/* Returns 0 while all processes live, else the exit code of the first that did not. Then ends the others. */
static int casualties(struct cast *cast, uint64_t deadline_ns)
{
	int status, code = 0;

	if (waitpid(-1, &status, WNOHANG) > 0) {
		code = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1;
		if (world->reason[0]) /* where one end skips, the other end may fail, and be seen first */
			code = EXIT_SKIPPED;
	} else if (now_ns() > deadline_ns) {
		fprintf(stderr, "trafficgen: not finished in time (stage %u)\n", world->stage);
		for (unsigned int i = 0; i < cast->count; i++)
			print_wait(cast->processes[i]);
		code = EXIT_STALLED;
	}
	for (unsigned int i = 0; code && i < cast->count; i++)
		kill(cast->processes[i], SIGKILL);
	return code;
}

/* Waits until all processes are at the next meeting point. They stay there until release(). */
static int gather(struct cast *cast)
{
	uint64_t deadline_ns = now_ns() + cast->timeout_seconds * 1000000000ULL;
	int code = 0;

	while (!code && __atomic_load_n(&world->arrived, __ATOMIC_ACQUIRE) < cast->count) {
		code = casualties(cast, deadline_ns);
		pause_ms(1);
	}
	return code;
}

static void release(void)
{
	__atomic_store_n(&world->arrived, 0, __ATOMIC_RELEASE);
	__atomic_fetch_add(&world->stage, 1, __ATOMIC_ACQ_REL);
}

/* Waits for a line on standard input, for its end, or until the time is over. */
static void await_line(int seconds)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[256];

	if (poll(&input, 1, seconds * 1000) > 0)
		(void)!read(STDIN_FILENO, line, sizeof(line));
}

static int perform(const struct scenario *scenario, struct cast *cast, int hold_seconds)
{
	int code = gather(cast), status;

	if (code)
		return code;
	release(); /* servers listen, clients know where */
	if (world->pause) {
		code = gather(cast);
		if (code)
			return code;
		print_result(scenario, "paused");
		await_line(600);
		release();
	}
	code = gather(cast);
	if (code)
		return code;
	print_result(scenario, "finished");
	if (hold_seconds)
		await_line(hold_seconds);
	release(); /* the processes exit, which closes their sockets */
	for (unsigned int i = 0; i < cast->count; i++) {
		if (waitpid(cast->processes[i], &status, 0) < 0 || status)
			code = 1;
	}
	return code;
}

static void hire(struct cast *cast, const char *name, const struct part *part, void (*role)(const struct part *),
		 int namespace)
{
	struct casting casting = { .part = *part, .namespace = namespace, .role = role };

	if (role)
		cast->processes[cast->count++] = spawn(name, play, &casting);
}

int direct(const struct scenario *scenario, bool pause, int hold_seconds, int timeout_seconds)
{
	struct cast cast = { .timeout_seconds = timeout_seconds };
	unsigned int addresses = scenario->one_address ? 1 : options.address_count;
	int code = 0;

	world->pause = pause && scenario->pauses;
	if (scenario->private_network && options.peer_namespace < 0 && !own_network()) {
		snprintf(world->reason, sizeof(world->reason), "no network namespace of its own: unshare: %s", strerror(errno));
		code = EXIT_SKIPPED;
	}
	for (unsigned int i = 0; !code && i < addresses; i++) {
		struct part part = { .index = i, .address = options.addresses[i] };

		hire(&cast, "tg-server", &part, scenario->server, options.peer_namespace);
		hire(&cast, "tg-client", &part, scenario->client, -1);
	}
	if (!code)
		code = perform(scenario, &cast, hold_seconds);
	if (code == EXIT_SKIPPED)
		print_result(scenario, "skipped");
	return code;
}
