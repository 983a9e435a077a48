#include "unix_socket.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

_Static_assert(UNIX_SOCKET_PATH_MAX == sizeof(((struct sockaddr_un *)0)->sun_path) - 1, "a path ends with a zero");

/* Returns the length of the address, or 0 with `errno` if the path is too long. */
static socklen_t fill(struct sockaddr_un *address, const char *path)
{
	size_t length = strlen(path);

	if (length > UNIX_SOCKET_PATH_MAX) {
		errno = ENAMETOOLONG;
		return 0;
	}
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path, path, length);
	return offsetof(struct sockaddr_un, sun_path) + length + 1;
}

int unix_socket_bind(int socket, const char *path)
{
	struct sockaddr_un address;
	socklen_t length = fill(&address, path);

	return length ? bind(socket, (struct sockaddr *)&address, length) : -1;
}

int unix_socket_connect(int socket, const char *path)
{
	struct sockaddr_un address;
	socklen_t length = fill(&address, path);

	return length ? connect(socket, (struct sockaddr *)&address, length) : -1;
}

ssize_t unix_socket_send(int socket, const void *bytes, size_t count, int flags, const char *path)
{
	struct sockaddr_un address;
	socklen_t length = fill(&address, path);

	if (!length)
		return -1;
	if (address.sun_path[0] == '@') {
		/* A name in the abstract namespace has no zero at its end: the zero would be part of the name. */
		address.sun_path[0] = 0;
		length--;
	}
	return sendto(socket, bytes, count, flags, (struct sockaddr *)&address, length);
}
