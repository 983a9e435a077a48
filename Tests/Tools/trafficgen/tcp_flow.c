/* TCP's flow: when the kernel sends what the socket accepted, and what happens while it may not. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* TCP_CORK and MSG_MORE hold bytes back that the socket has accepted already. */
enum { CORK_ROUNDS = 50, PIECE_BYTES = 211, HEADER_BYTES = 300, FILE_PIECE = 5003 };

static void cork_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	for (int i = 0; i < CORK_ROUNDS; i++) {
		receive_all(fd, 10 * PIECE_BYTES + HEADER_BYTES + FILE_PIECE, 4096);
		send_all(fd, 1, 1);
	}
	receive_to_end(fd, 4096);
}

static void cork_client(const struct part *part)
{
	int file = memfd_create("payload", MFD_CLOEXEC), fd = call(part, IPPROTO_TCP);

	if (file < 0 || write(file, buffer(), FILE_PIECE) != FILE_PIECE)
		fail("write the payload file");
	for (int round = 0; round < CORK_ROUNDS; round++) {
		off_t start = 0;

		if (round % 2)
			set_option(fd, IPPROTO_TCP, TCP_CORK, 1);
		for (int i = 0; i < 10; i++) {
			if (sent(fd, send(fd, buffer(), PIECE_BYTES, round % 2 ? 0 : MSG_MORE)) != PIECE_BYTES)
				fail("send a piece");
		}
		/* What a web server does: header and file in as few packets as possible. */
		if (sent(fd, send(fd, buffer(), HEADER_BYTES, MSG_MORE)) != HEADER_BYTES)
			fail("send the header");
		if (sent(fd, sendfile(fd, file, &start, FILE_PIECE)) != FILE_PIECE)
			fail("send the file");
		if (round % 2)
			set_option(fd, IPPROTO_TCP, TCP_CORK, 0);
		receive_all(fd, 1, 1);
	}
	/* Held back for good, until the end of the stream pushes it out. */
	if (sent(fd, send(fd, buffer(), PIECE_BYTES, MSG_MORE)) != PIECE_BYTES)
		fail("send the last piece");
	shutdown(fd, SHUT_WR);
}

/* A reader with little room stalls, then reads slowly: the window goes to zero while a call waits to send the rest. */
enum { WINDOW_BYTES = 600 * 1024 };

static void zero_window_server(const struct part *part)
{
	uint16_t port;
	int listener = listen_at(part, IPPROTO_TCP, &port), fd;

	set_option(listener, SOL_SOCKET, SO_RCVBUF, 8192);
	ready(part, port);
	fd = accept_from(listener);
	pause_ms(300);
	for (size_t left = WINDOW_BYTES; left;) {
		ssize_t result = received(fd, recv(fd, buffer(), 3001, 0));

		if (result <= 0)
			fail("receive slowly");
		left -= result;
		if (left % 16 == 0)
			pause_ms(1);
	}
	send_all(fd, 1, 1);
}

static void zero_window_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);
	struct tcp_info information = {};
	socklen_t length = sizeof(information);

	set_option(fd, SOL_SOCKET, SO_SNDBUF, 16384);
	if (sent(fd, send(fd, buffer(), WINDOW_BYTES, 0)) != WINDOW_BYTES)
		fail("send to a slow reader");
	receive_all(fd, 1, 1);
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &information, &length))
		fail("TCP_INFO");
	if (!information.tcpi_rwnd_limited)
		fail("the receiver's window never held the sender up");
}

const struct scenario tcp_flow_scenarios[] = {
	{ "tcp-cork", "TCP_CORK and MSG_MORE, also before a file", cork_server, cork_client },
	{ "tcp-zero-window", "a slow reader that closes its window", zero_window_server, zero_window_client },
	{ 0 },
};
