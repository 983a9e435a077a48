/* Trap 20: more connections than any table has room for. Too many to list, so only the processes have totals. */
#include "generator.h"
#include "scenarios.h"

#include <unistd.h>

/* Connections at a steady rate. */
static unsigned long connection_count(void)
{
	return (options.rate ?: 1000) * (options.seconds ?: 5);
}

static void churn_server(const struct part *part)
{
	uint16_t port;
	int listener = listen_at(part, IPPROTO_TCP, &port);

	ready(part, port);
	for (unsigned long i = 0; i < connection_count(); i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		ssize_t result;

		if (fd < 0)
			fail("accept");
		result = recv(fd, buffer(), 4096, 0);
		if (result <= 0)
			fail("receive the request");
		received_by_process(result);
		sent_by_process(send(fd, buffer(), 200 + i % 100, MSG_NOSIGNAL));
		close(fd); /* first, so that the client's port is free again at once */
	}
}

static void churn_client(const struct part *part)
{
	unsigned long rate = options.rate ?: 1000;
	struct address server = with_port(part, await_port(part));
	uint64_t start_ns = now_ns(), end_ns;

	for (unsigned long i = 0; i < connection_count(); i++) {
		uint64_t due_ns = start_ns + i * 1000000000ULL / rate;
		int fd = open_socket(server.storage.ss_family, SOCK_STREAM, IPPROTO_TCP);
		ssize_t result;

		while (now_ns() < due_ns)
			pause_ms(1);
		if (connect(fd, (struct sockaddr *)&server.storage, server.length))
			fail("connect, connection %lu", i);
		sent_by_process(send(fd, buffer(), 100 + i % 50, MSG_NOSIGNAL));
		while ((result = recv(fd, buffer(), 4096, 0)) > 0)
			received_by_process(result);
		close(fd);
	}
	end_ns = now_ns();
	note("%lu connections, %lu a second", connection_count(),
	     (unsigned long)(connection_count() * 1000000000ULL / (end_ns - start_ns)));
}

/*
 * Connections in bursts: a thousand are open, then all end at once, so that the events of their ends come in bursts
 * too. `--count 200000` is the number of the accuracy design.
 */
enum { BURST = 1000 };

static unsigned long many_count(void)
{
	return options.count ?: 3000;
}

static unsigned long burst_after(unsigned long done)
{
	return many_count() - done < BURST ? many_count() - done : BURST;
}

static void many_server(const struct part *part)
{
	uint16_t port;
	int listener, fds[BURST];

	raise_file_limit(BURST + 100);
	listener = listen_at(part, IPPROTO_TCP, &port);
	ready(part, port);
	for (unsigned long done = 0; done < many_count();) {
		unsigned long burst = burst_after(done);

		for (unsigned long i = 0; i < burst; i++) {
			ssize_t result;

			fds[i] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			if (fds[i] < 0)
				fail("accept");
			result = recv(fds[i], buffer(), 4096, 0);
			if (result <= 0)
				fail("receive the request");
			received_by_process(result);
			sent_by_process(send(fds[i], buffer(), 200 + (done + i) % 100, MSG_NOSIGNAL));
		}
		for (unsigned long i = 0; i < burst; i++)
			close(fds[i]); /* first, so that the client's port is free again at once */
		done += burst;
	}
}

static void many_client(const struct part *part)
{
	struct address server;
	int fds[BURST];

	raise_file_limit(BURST + 100);
	server = with_port(part, await_port(part));
	for (unsigned long done = 0; done < many_count();) {
		unsigned long burst = burst_after(done);

		for (unsigned long i = 0; i < burst; i++) {
			fds[i] = open_socket(server.storage.ss_family, SOCK_STREAM, IPPROTO_TCP);
			if (connect(fds[i], (struct sockaddr *)&server.storage, server.length))
				fail("connect, connection %lu", done + i);
			sent_by_process(send(fds[i], buffer(), 100 + (done + i) % 50, MSG_NOSIGNAL));
		}
		for (unsigned long i = 0; i < burst; i++) {
			ssize_t result;

			while ((result = recv(fds[i], buffer(), 4096, 0)) > 0)
				received_by_process(result);
			close(fds[i]);
		}
		done += burst;
	}
}

const struct scenario churn_scenarios[] = {
	{ "churn", "1,000 connections a second for 5 s (--rate, --seconds)", churn_server, churn_client, .one_address = true },
	{ "many-connections", "3,000 connections in bursts of 1,000 (--count)", many_server, many_client, .one_address = true },
	{ 0 },
};
