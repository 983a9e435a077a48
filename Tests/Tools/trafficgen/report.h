/*
 * What a cooperating program tells the daemon about its bytes, in the format of TrafficReport (Format.md). The format
 * is written here a second time, so that our code does not check itself.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A report stays below the 49,152 bytes that a datagram may have. */
struct report {
	int fd;
	uint32_t sequence;
	uint16_t count;
	size_t length;
	char bytes[32768];
};

enum role { CLIENT = 1, SERVER = 2 };

/* Where a message is in the socket's stream. Empty: the report does not tell of the message. */
struct span {
	uint64_t from, to;
};

struct exchange {
	uint64_t number;
	uint64_t cookie;
	enum role role;
	struct span request, response;
	bool has_ended;
};

uint64_t cookie_of_socket(int fd);
void open_report(struct report *report); /* skips where the command line names no daemon */
void add_exchange(struct report *report, const struct exchange *exchange);
/* What the connection moved beside messages, such as a handshake of TLS. */
void add_connection(struct report *report, uint64_t cookie, enum role role, uint64_t sent, uint64_t received);
void send_report(struct report *report); /* and begins the next report */

#endif
