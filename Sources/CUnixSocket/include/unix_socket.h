/*
 * Sockets that are files (unix(7)). Only this target fills a `struct sockaddr_un`.
 *
 * Each function returns what the system call of the same name returns: -1 with `errno` for a failure, ENAMETOOLONG if
 * the path has more than UNIX_SOCKET_PATH_MAX bytes.
 */
#pragma once

#include <sys/types.h>

/* Bytes of a path, without the zero at its end. */
enum { UNIX_SOCKET_PATH_MAX = 107 };

int unix_socket_bind(int socket, const char *path);

int unix_socket_connect(int socket, const char *path);

/*
 * Sends a datagram to the socket at `path`. A leading `@` stands for a name in the abstract namespace, as in
 * sd_notify(3).
 */
ssize_t unix_socket_send(int socket, const void *bytes, size_t count, int flags, const char *path);
