/* Trap 17, prefork servers: the kernel chooses which worker gets a connection. The bytes must count for that worker. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORKERS = 4, REQUEST_BYTES = 700, RESPONSE_BYTES = 5003 };

static unsigned int connection_count(void)
{
	return options.count ?: 200;
}

struct crew {
	const struct part *part;
	int listener; /* shared, or one of each worker's own on the same port */
	uint16_t port;
	unsigned int served, idle;
	unsigned int listening;
};

static void serve_connection(struct crew *crew, int fd)
{
	receive_all(fd, REQUEST_BYTES, REQUEST_BYTES);
	send_all(fd, RESPONSE_BYTES, RESPONSE_BYTES);
	receive_to_end(fd, 10); /* the client closes first */
	hang_up(fd);
	__atomic_fetch_add(&crew->served, 1, __ATOMIC_RELAXED);
}

static void work(struct crew *crew, int listener)
{
	struct pollfd arrival = { .fd = listener, .events = POLLIN };
	unsigned int own = 0;

	if (fcntl(listener, F_SETFL, O_NONBLOCK))
		fail("O_NONBLOCK");
	while (__atomic_load_n(&crew->served, __ATOMIC_RELAXED) < connection_count()) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno != EAGAIN)
				fail("accept in a worker");
			poll(&arrival, 1, 5);
			continue;
		}
		watch(fd, "server");
		serve_connection(crew, fd);
		own++;
	}
	if (!own)
		__atomic_fetch_add(&crew->idle, 1, __ATOMIC_RELAXED);
}

static void shared_worker(void *argument)
{
	struct crew *crew = argument;

	__atomic_fetch_add(&crew->listening, 1, __ATOMIC_RELEASE);
	work(crew, crew->listener);
}

static int listen_beside(const struct crew *crew)
{
	struct address address = with_port(crew->part, crew->port);
	int fd = open_socket(address.storage.ss_family, SOCK_STREAM, IPPROTO_TCP);

	set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (bind(fd, (struct sockaddr *)&address.storage, address.length) || listen(fd, 100))
		fail("listen on a port that others listen on");
	watch(fd, "listener");
	return fd;
}

static void lone_worker(void *argument)
{
	struct crew *crew = argument;
	int listener = listen_beside(crew);

	mark_closed(listener);
	__atomic_fetch_add(&crew->listening, 1, __ATOMIC_RELEASE);
	work(crew, listener);
}

static void direct_crew(struct crew *crew, void (*worker)(void *))
{
	pid_t workers[WORKERS];
	char name[16];

	for (int i = 0; i < WORKERS; i++) {
		snprintf(name, sizeof(name), "tg-worker-%d", i);
		workers[i] = spawn(name, worker, crew);
	}
	while (__atomic_load_n(&crew->listening, __ATOMIC_ACQUIRE) < WORKERS)
		pause_ms(1);
	ready(crew->part, crew->port);
	for (int i = 0; i < WORKERS; i++)
		reap(workers[i]);
	note("%u of %d workers had nothing to do", crew->idle, WORKERS);
}

static struct crew *assemble(const struct part *part)
{
	struct crew *crew = mmap(NULL, sizeof(*crew), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (crew == MAP_FAILED)
		fail("allocate");
	crew->part = part;
	return crew;
}

static void shared_server(const struct part *part)
{
	struct crew *crew = assemble(part);

	crew->listener = listen_at(part, IPPROTO_TCP, &crew->port);
	direct_crew(crew, shared_worker);
}

/* Keeps the port by a bound socket that does not listen. */
static void reuseport_server(const struct part *part)
{
	struct crew *crew = assemble(part);
	struct address address = with_port(part, 0);
	int keeper = open_socket(address.storage.ss_family, SOCK_STREAM, IPPROTO_TCP);

	set_option(keeper, SOL_SOCKET, SO_REUSEPORT, 1);
	if (bind(keeper, (struct sockaddr *)&address.storage, address.length) ||
	    getsockname(keeper, (struct sockaddr *)&address.storage, &address.length))
		fail("bind");
	crew->port = ntohs(((struct sockaddr_in *)&address.storage)->sin_port);
	direct_crew(crew, lone_worker);
}

/* As many connections at once as there are workers. */
static void prefork_client(const struct part *part)
{
	uint16_t port = await_port(part);
	unsigned int count = connection_count();

	for (unsigned int done = 0; done < count;) {
		unsigned int batch = count - done < WORKERS ? count - done : WORKERS;
		int fds[WORKERS];

		for (unsigned int i = 0; i < batch; i++) {
			fds[i] = connect_to(part, IPPROTO_TCP, port);
			send_all(fds[i], REQUEST_BYTES, REQUEST_BYTES);
		}
		for (unsigned int i = 0; i < batch; i++) {
			receive_all(fds[i], RESPONSE_BYTES, RESPONSE_BYTES);
			hang_up(fds[i]);
		}
		done += batch;
	}
}

const struct scenario prefork_scenarios[] = {
	{ "prefork", "4 processes accept on one listener (--count)", shared_server, prefork_client },
	{ "prefork-reuseport", "4 processes, each with its listener on one port (--count)", reuseport_server, prefork_client },
	{ 0 },
};
