/* Programs that report what some of their bytes are for, and a program that lies. */
#include "generator.h"
#include "report.h"
#include "scenarios.h"

#include <netinet/tcp.h>

/* The connections, by which exchanges are reported: all by both ends; every second; all, but by the server alone. */
enum { ALL, HALF, SERVERS, CONNECTIONS };

/* PREFACE: bytes at the beginning of a connection that belong to no message, such as a handshake. */
enum { EXCHANGES = 40, EXCHANGES_OF_REPORT = 5, PREFACE = 517, LIE = 5000 };

/* One end of a connection, and where its streams are. */
struct end {
	int fd;
	enum role role;
	uint64_t sent, received;
};

static size_t request_bytes(int number)
{
	return 81 + number * 131 % 3001;
}

static size_t response_bytes(int number)
{
	return 90 + number * 7919 % 40009;
}

static void give(struct end *end, size_t bytes)
{
	send_all(end->fd, bytes, 1021);
	end->sent += bytes;
}

static void take(struct end *end, size_t bytes)
{
	receive_all(end->fd, bytes, 4096);
	end->received += bytes;
}

static bool is_told(const struct end *end, int connection, int number)
{
	return connection == ALL || (connection == HALF && number % 2) || (connection == SERVERS && end->role == SERVER);
}

static void begin(struct end *end, struct report *report, int connection)
{
	set_option(end->fd, IPPROTO_TCP, TCP_NODELAY, 1);
	if (end->role == CLIENT)
		give(end, PREFACE);
	take(end, PREFACE);
	if (end->role == SERVER)
		give(end, PREFACE);
	if (connection == HALF || !is_told(end, connection, 0))
		return;
	add_connection(report, cookie_of_socket(end->fd), end->role, PREFACE, PREFACE);
	explained(end->fd, 2 * PREFACE);
}

static void tell(const struct end *end, struct report *report, uint64_t exchange, uint64_t sent, uint64_t received)
{
	struct span out = { sent, end->sent }, in = { received, end->received };
	bool is_client = end->role == CLIENT;

	add_exchange(report, &(struct exchange){ exchange, cookie_of_socket(end->fd), end->role, is_client ? out : in,
						 is_client ? in : out, true });
	explained(end->fd, end->sent - sent + end->received - received);
	expect_verdict(JOINED, 2);
}

static void converse(struct end *end, struct report *report, int connection, int number)
{
	uint64_t sent = end->sent, received = end->received;

	if (end->role == CLIENT)
		give(end, request_bytes(number));
	take(end, end->role == CLIENT ? response_bytes(number) : request_bytes(number));
	if (end->role == SERVER)
		give(end, response_bytes(number));
	if (is_told(end, connection, number))
		tell(end, report, 1 + connection * EXCHANGES + number, sent, received);
}

/* Keep-alive: the exchanges of a connection follow each other, and exchanges of the others come in between. */
static void converse_on_all(struct end *ends, struct report *report)
{
	for (int i = 0; i < CONNECTIONS; i++)
		begin(&ends[i], report, i);
	for (int number = 0; number < EXCHANGES; number++) {
		for (int i = 0; i < CONNECTIONS; i++)
			converse(&ends[i], report, i, number);
		if (number % EXCHANGES_OF_REPORT == EXCHANGES_OF_REPORT - 1)
			send_report(report);
	}
}

static void reports_server(const struct part *part)
{
	struct end ends[CONNECTIONS];
	struct report report;
	uint16_t port;
	int listener = listen_at(part, IPPROTO_TCP, &port), stranger;

	open_report(&report);
	ready(part, port);
	for (int i = 0; i < CONNECTIONS; i++)
		ends[i] = (struct end){ .fd = accept_from(listener), .role = SERVER };
	converse_on_all(ends, &report);
	stranger = accept_from(listener);
	receive_all(stranger, LIE, LIE);
	receive_to_end(stranger, LIE);
	hang_up(stranger);
}

struct victim {
	const struct part *part;
	uint64_t cookie;
	uint16_t port;
};

/* The liar has a connection of its own, so that the kernel knows the process, and claims bytes of another process. */
static void lie(void *argument)
{
	const struct victim *victim = argument;
	int fd = timed_connect_to(victim->part, IPPROTO_TCP, victim->port);
	struct report report;

	send_all(fd, LIE, LIE);
	open_report(&report);
	add_exchange(&report, &(struct exchange){ LIE, victim->cookie, CLIENT, { PREFACE, PREFACE + request_bytes(0) },
						  { PREFACE, PREFACE + response_bytes(0) }, false });
	add_connection(&report, victim->cookie, CLIENT, PREFACE, PREFACE);
	expect_verdict(FOREIGN, 3);
	send_report(&report);
	shutdown(fd, SHUT_WR);
	receive_to_end(fd, LIE);
	hang_up(fd);
}

static void reports_client(const struct part *part)
{
	struct end ends[CONNECTIONS];
	struct report report;
	struct victim victim = { .part = part };
	struct exchange exchange = { .number = LIE, .role = CLIENT };

	open_report(&report);
	victim.port = await_port(part);
	for (int i = 0; i < CONNECTIONS; i++)
		ends[i] = (struct end){ .fd = timed_connect_to(part, IPPROTO_TCP, victim.port), .role = CLIENT };
	converse_on_all(ends, &report);

	/* Bytes that were reported already, and a byte more than there was. */
	exchange.cookie = cookie_of_socket(ends[ALL].fd);
	exchange.request = (struct span){ PREFACE, PREFACE + request_bytes(0) };
	add_exchange(&report, &exchange);
	expect_verdict(DUPLICATE, 1);
	exchange.number++;
	exchange.request = (struct span){ ends[ALL].sent, ends[ALL].sent + 1 };
	add_exchange(&report, &exchange);
	expect_verdict(IMPOSSIBLE, 1);
	send_report(&report);

	victim.cookie = cookie_of_socket(ends[SERVERS].fd);
	reap(spawn("tg-liar", lie, &victim));
}

const struct scenario report_scenarios[] = {
	{ "reports", "exchanges that are reported, or not, or by somebody else", reports_server, reports_client },
	{ 0 },
};
