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
	uint16_t type, fixed_length;
	uint32_t length;
};

struct message {
	uint64_t exchange, chain, cookie, from, to, bytes, first, last, body, decoded, declared, framing, tls;
	uint32_t line, fields, cookies;
	uint16_t status, hop;
	uint8_t role, version, quality, content, flags, reserved[3];
};

struct outcome {
	uint64_t exchange, chain, start, duration;
	uint32_t phases[6];
	uint8_t role, ending;
	uint16_t status;
	uint8_t reserved[4];
};

struct connection {
	uint64_t cookie;
	struct {
		uint64_t tls, framing, opaque, excluded;
	} sent, received;
	uint8_t role, flags, reserved[6];
};

_Static_assert(sizeof(struct header) == 24 && sizeof(struct head) == 8, "");
_Static_assert(sizeof(struct message) == 128 && sizeof(struct outcome) == 64 && sizeof(struct connection) == 80, "");

enum type { REQUEST = 1, RESPONSE = 2, OUTCOME = 3, CONNECTION = 4 };
enum { HTTP_1_1 = 11, EXACT = 1, JSON = 2, OK = 1 };

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

static void begin(struct report *report)
{
	report->count = 0;
	report->length = sizeof(struct header);
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

static void append(struct report *report, const void *bytes, size_t length)
{
	if (report->length + length > sizeof(report->bytes))
		fail("a report is full");
	memcpy(report->bytes + report->length, bytes, length);
	report->length += length;
}

/* `strings` ends with NULL, or is NULL where there are no strings. */
static void add(struct report *report, enum type type, const void *fixed, size_t length, const char *const *strings)
{
	size_t start = report->length;
	struct head head = { .type = type, .fixed_length = length };

	append(report, &head, sizeof(head));
	append(report, fixed, length);
	for (; strings && *strings; strings++) {
		uint16_t count = strlen(*strings);

		append(report, &count, sizeof(count));
		append(report, *strings, count);
	}
	append(report, (char[8]){ 0 }, -(report->length - start) % 8);
	head.length = report->length - start;
	memcpy(report->bytes + start, &head, sizeof(head));
	report->count++;
}

static const char *const names[] = { "POST", "lab.example", "/reports/{id}", NULL };

void add_claim(struct report *report, const struct claim *claim)
{
	uint64_t now = boottime_ns(), bytes = claim->to - claim->from;
	struct message message = {
		.exchange = claim->exchange,
		.cookie = claim->cookie,
		.from = claim->from,
		.to = claim->to,
		.bytes = bytes,
		.first = now,
		.last = now,
		.declared = UINT64_MAX,
		.line = bytes < 20 ? bytes : 20,
		.status = claim->is_response ? 200 : 0,
		.role = claim->role,
		.version = HTTP_1_1,
		.quality = EXACT,
		.content = JSON,
	};

	message.fields = bytes - message.line < 60 ? bytes - message.line : 60;
	message.body = message.decoded = bytes - message.line - message.fields;
	add(report, claim->is_response ? RESPONSE : REQUEST, &message, sizeof(message), names);
}

void add_outcome(struct report *report, uint64_t exchange, enum role role)
{
	struct outcome outcome = { .exchange = exchange, .start = boottime_ns(), .duration = 1000000, .role = role,
				   .ending = OK, .status = 200 };

	memset(outcome.phases, 0xff, sizeof(outcome.phases)); /* all unknown */
	add(report, OUTCOME, &outcome, sizeof(outcome), names);
}

void add_connection(struct report *report, uint64_t cookie, enum role role, uint64_t sent, uint64_t received)
{
	struct connection connection = { .cookie = cookie, .sent.tls = sent, .received.tls = received, .role = role };

	add(report, CONNECTION, &connection, sizeof(connection), NULL);
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
