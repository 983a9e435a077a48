#include "report.h"
#include "generator.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <unix_socket.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "as the format is");

struct header {
	char magic[4];
	uint8_t version, length;
	uint16_t count;
	uint32_t sequence, dropped;
	uint64_t sent_at;
};

struct head {
	uint8_t type, role;
	uint16_t length;
};

struct name {
	uint16_t method, host, route;
};

struct start {
	uint16_t parts, name;
	uint64_t number, cookie, start;
} __attribute__((packed));

struct message {
	uint64_t from;
	uint32_t reach, body, first, last;
	uint16_t framing, tls, line, fields, cookies, status;
	uint8_t version, quality, content, flags;
};

struct outcome {
	uint64_t duration;
	uint32_t phases[3];
	uint16_t status;
	uint8_t ending, reserved;
};

struct connection {
	uint8_t flags, reserved[3];
	uint64_t cookie;
	struct {
		uint64_t tls, framing, opaque, excluded;
	} sent, received;
} __attribute__((packed));

_Static_assert(sizeof(struct header) == 24 && sizeof(struct head) == 4 && sizeof(struct start) == 28, "");
_Static_assert(sizeof(struct message) == 40 && sizeof(struct outcome) == 24 && sizeof(struct connection) == 76, "");

enum type { NAME = 1, EXCHANGE = 2, CONNECTION = 3 };
enum exchange_part { REQUEST = 1, RESPONSE = 2, OUTCOME = 4 };
enum { HTTP_1_1 = 11, EXACT = 1, JSON = 2, OK = 1, DECODED_IS_BODY = 2 };

static uint64_t boottime_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

uint64_t cookie_of_socket(int fd)
{
	uint64_t cookie;
	socklen_t length = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length))
		fail("SO_COOKIE");
	return cookie;
}

static void append(struct report *report, const void *bytes, size_t length)
{
	if (report->length + length > sizeof(report->bytes))
		fail("a report is full");
	memcpy(report->bytes + report->length, bytes, length);
	report->length += length;
}

/* A record begins with its head, and its length becomes known at its end. */
static size_t begin_record(struct report *report, enum type type, uint8_t role)
{
	size_t start = report->length;

	append(report, &(struct head){ .type = type, .role = role }, sizeof(struct head));
	return start;
}

static void end_record(struct report *report, size_t start)
{
	uint16_t length;

	append(report, (char[8]){ 0 }, -(report->length - start) % 8);
	length = report->length - start;
	memcpy(report->bytes + start + offsetof(struct head, length), &length, sizeof(length));
	report->count++;
}

/* All exchanges of a report have its only name. */
static void begin(struct report *report)
{
	static const char method[] = "POST", host[] = "lab.example", route[] = "/reports/{id}";
	const struct name name = { strlen(method), strlen(host), strlen(route) };
	size_t start;

	report->count = 0;
	report->length = sizeof(struct header);
	start = begin_record(report, NAME, 0);
	append(report, &name, sizeof(name));
	append(report, method, name.method);
	append(report, host, name.host);
	append(report, route, name.route);
	end_record(report, start);
}

void open_report(struct report *report)
{
	if (!options.report_socket)
		skip("no daemon to report to (--report-socket)");
	report->fd = open_socket(AF_UNIX, SOCK_DGRAM, 0);
	if (unix_socket_connect(report->fd, options.report_socket))
		fail("connect to %s", options.report_socket);
	report->sequence = 0;
	begin(report);
}

static bool is_told(const struct span *span)
{
	return span->to > span->from;
}

static void add_message(struct report *report, const struct span *span, uint16_t status)
{
	uint32_t bytes = span->to - span->from;
	struct message message = {
		.from = span->from,
		.reach = bytes,
		.line = bytes < 20 ? bytes : 20,
		.status = status,
		.version = HTTP_1_1,
		.quality = EXACT,
		.content = JSON,
		.flags = DECODED_IS_BODY,
	};

	if (!is_told(span))
		return;
	message.fields = bytes - message.line < 60 ? bytes - message.line : 60;
	message.body = bytes - message.line - message.fields;
	append(report, &message, sizeof(message));
}

void add_exchange(struct report *report, const struct exchange *exchange)
{
	struct start start = {
		.parts = (is_told(&exchange->request) ? REQUEST : 0) | (is_told(&exchange->response) ? RESPONSE : 0) |
			 (exchange->has_ended ? OUTCOME : 0),
		.number = exchange->number,
		.cookie = exchange->cookie,
		.start = boottime_ns(),
	};
	struct outcome outcome = { .duration = 1000000, .status = 200, .ending = OK };
	size_t record = begin_record(report, EXCHANGE, exchange->role);

	append(report, &start, sizeof(start));
	add_message(report, &exchange->request, 0);
	add_message(report, &exchange->response, 200);
	memset(outcome.phases, 0xff, sizeof(outcome.phases)); /* all unknown */
	if (exchange->has_ended)
		append(report, &outcome, sizeof(outcome));
	end_record(report, record);
}

void add_connection(struct report *report, uint64_t cookie, enum role role, uint64_t sent, uint64_t received)
{
	struct connection connection = { .cookie = cookie, .sent.tls = sent, .received.tls = received };
	size_t record = begin_record(report, CONNECTION, role);

	append(report, &connection, sizeof(connection));
	end_record(report, record);
}

void send_report(struct report *report)
{
	struct header header = { "TRFC", 1, sizeof(header), report->count, report->sequence++, 0, boottime_ns() };

	memcpy(report->bytes, &header, sizeof(header));
	/* send() waits where the daemon's queue is full, because lost reports could not be compared. */
	if (send(report->fd, report->bytes, report->length, 0) != (ssize_t)report->length)
		fail("send a report");
	begin(report);
}
