#include "generator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>
#include <unix_socket.h>

struct text {
	char *bytes; /* with a zero behind the last one */
	size_t length;
};

static struct text read_all(int fd)
{
	struct text text = { 0 };
	size_t room = 0;
	ssize_t result;

	do {
		if (text.length + 1 >= room) {
			room = room ? 2 * room : 1 << 20;
			text.bytes = realloc(text.bytes, room);
			if (!text.bytes)
				fail("memory for an answer");
		}
		result = read(fd, text.bytes + text.length, room - 1 - text.length);
		text.length += result > 0 ? result : 0;
	} while (result > 0);
	if (result < 0)
		text.length = 0;
	text.bytes[text.length] = 0;
	return text;
}

/*
 * HTTP/1.0 with Connection: close: the body ends with the stream, and is never chunked. A server that breaks off ends the
 * stream too, and only the declared length tells. Returns an exit code: EX_TEMPFAIL from a server that is too busy, and so
 * refuses or breaks off.
 */
static int get(const char *socket_path, const char *path, struct text *body)
{
	char request[512], *status, *end, *field;
	size_t declared;
	struct text answer;
	int fd, length;

	length = snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: trafficd\r\nConnection: close\r\n\r\n", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || unix_socket_connect(fd, socket_path) || write(fd, request, length) != length) {
		perror(socket_path);
		return 1;
	}
	answer = read_all(fd);
	end = strstr(answer.bytes, "\r\n\r\n");
	status = answer.bytes + strcspn(answer.bytes, " \r");
	if (!end || strncmp(status, " 200 ", 5)) {
		fprintf(stderr, "%s%s: %.*s\n", socket_path, path, (int)strcspn(answer.bytes, "\r\n"), answer.bytes);
		return end && !strncmp(status, " 503 ", 5) ? EX_TEMPFAIL : 1;
	}
	*end = 0;
	*body = (struct text){ end + 4, answer.bytes + answer.length - (end + 4) };
	field = strcasestr(answer.bytes, "\r\ncontent-length:");
	declared = field ? strtoul(strchr(field, ':') + 1, NULL, 10) : body->length;
	if (body->length != declared) {
		fprintf(stderr, "%s%s: cut after %zu of %zu bytes\n", socket_path, path, body->length, declared);
		return EX_TEMPFAIL;
	}
	return 0;
}

int fetch(int argc, char **argv)
{
	struct text body;
	int code;

	if (argc != 3) {
		fputs("usage: trafficgen fetch SOCKET PATH\n", stderr);
		return 64;
	}
	code = get(argv[1], argv[2], &body);
	if (code)
		return code;
	return fwrite(body.bytes, 1, body.length, stdout) != body.length || fflush(stdout);
}

/* Prints how old a snapshot was when its last byte arrived, in nanoseconds. */
int age(int argc, char **argv)
{
	static const char key[] = "\"taken_boottime_ns\":";
	struct timespec now;
	struct text body;
	char *taken;
	int code;

	if (argc != 2) {
		fputs("usage: trafficgen age SOCKET\n", stderr);
		return 64;
	}
	code = get(argv[1], "/v1/snapshot", &body);
	clock_gettime(CLOCK_BOOTTIME, &now);
	if (code)
		return code;
	taken = strstr(body.bytes, key);
	if (!taken)
		return 1;
	taken += strlen(key);
	printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec - atoll(taken));
	return 0;
}
