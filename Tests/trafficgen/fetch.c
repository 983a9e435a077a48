#include "generator.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

/* HTTP/1.0 with Connection: close: the body ends where the stream ends, and is never chunked. */
int fetch(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char request[512], received_bytes[65536], *body = NULL;
	size_t held = 0;
	ssize_t result;
	int fd, length;

	if (argc != 3 || strlen(argv[1]) >= sizeof(address.sun_path)) {
		fputs("usage: trafficgen fetch SOCKET PATH\n", stderr);
		return 64;
	}
	strcpy(address.sun_path, argv[1]);
	length = snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: trafficd\r\nConnection: close\r\n\r\n", argv[2]);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) || write(fd, request, length) != length) {
		perror(argv[1]);
		return 1;
	}
	while (!body && held < sizeof(received_bytes) - 1) {
		result = read(fd, received_bytes + held, sizeof(received_bytes) - 1 - held);
		if (result <= 0)
			break;
		held += result;
		received_bytes[held] = 0;
		body = strstr(received_bytes, "\r\n\r\n");
	}
	if (!body || !strstr(received_bytes, " 200 ")) {
		fprintf(stderr, "%s%s: %.*s\n", argv[1], argv[2], (int)strcspn(received_bytes, "\r\n"), received_bytes);
		return 1;
	}
	body += 4;
	fwrite(body, 1, received_bytes + held - body, stdout);
	while ((result = read(fd, received_bytes, sizeof(received_bytes))) > 0)
		fwrite(received_bytes, 1, result, stdout);
	return result < 0 || fflush(stdout) ? 1 : 0;
}
