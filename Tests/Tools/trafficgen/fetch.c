#include "generator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* HTTP/1.0 with Connection: close: the body ends with the stream, and is never chunked. `bytes` is NULL without a body. */
static struct text get(const char *socket_path, const char *path)
{
	char request[512], *body;
	struct text answer;
	int fd, length;

	length = snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: trafficd\r\nConnection: close\r\n\r\n", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || unix_socket_connect(fd, socket_path) || write(fd, request, length) != length) {
		perror(socket_path);
		return (struct text){ 0 };
	}
	answer = read_all(fd);
	body = strstr(answer.bytes, "\r\n\r\n");
	if (!body || strncmp(answer.bytes + strcspn(answer.bytes, " \r"), " 200 ", 5)) {
		fprintf(stderr, "%s%s: %.*s\n", socket_path, path, (int)strcspn(answer.bytes, "\r\n"), answer.bytes);
		return (struct text){ 0 };
	}
	body += 4;
	return (struct text){ body, answer.bytes + answer.length - body };
}

int fetch(int argc, char **argv)
{
	struct text body;

	if (argc != 3) {
		fputs("usage: trafficgen fetch SOCKET PATH\n", stderr);
		return 64;
	}
	body = get(argv[1], argv[2]);
	return !body.bytes || fwrite(body.bytes, 1, body.length, stdout) != body.length || fflush(stdout);
}

/* Prints how old a snapshot was when its last byte arrived, in nanoseconds. */
int age(int argc, char **argv)
{
	static const char key[] = "\"taken_boottime_ns\":";
	struct timespec now;
	struct text body;
	char *taken;

	if (argc != 2) {
		fputs("usage: trafficgen age SOCKET\n", stderr);
		return 64;
	}
	body = get(argv[1], "/v1/snapshot");
	clock_gettime(CLOCK_BOOTTIME, &now);
	taken = body.bytes ? strstr(body.bytes, key) : NULL;
	if (!taken)
		return 1;
	taken += strlen(key);
	printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec - atoll(taken));
	return 0;
}
