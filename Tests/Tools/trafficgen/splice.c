/* sendfile and splice: payload that never passes through the process. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FILE_BYTES = 8 << 20 };

static int file_of(size_t bytes)
{
	int fd = memfd_create("payload", MFD_CLOEXEC);

	if (fd < 0)
		fail("memfd_create");
	for (size_t written = 0; written < bytes;) {
		size_t left = bytes - written;
		ssize_t result = write(fd, buffer(), left < MIB ? left : MIB);

		if (result <= 0)
			fail("write the payload file");
		written += result;
	}
	return fd;
}

/* Trap 6. */
static void file_server(const struct part *part)
{
	receive_to_end(serve_one(part, IPPROTO_TCP), 100003);
}

static void sendfile_client(const struct part *part)
{
	int file = file_of(FILE_BYTES), fd = call(part, IPPROTO_TCP);
	off_t offset = 12345;

	while (offset < FILE_BYTES) {
		if (sent(fd, sendfile(fd, file, &offset, 1 << 30)) <= 0)
			fail("sendfile");
	}
	for (int i = 0; i < 100; i++) {
		offset = i * 4099;
		if (sent(fd, sendfile(fd, file, &offset, 5003)) != 5003)
			fail("sendfile of a few pages");
	}
	shutdown(fd, SHUT_WR);
}

/* Without blocking, to a slow reader: sendfile and splice return what went, not what was asked. */
static void sendfile_nonblocking_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	pause_ms(200);
	receive_to_end(fd, 30011);
}

static void sendfile_nonblocking_client(const struct part *part)
{
	int file = file_of(FILE_BYTES), fd = call(part, IPPROTO_TCP);
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	off_t offset = 0;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (offset < FILE_BYTES) {
		if (sent(fd, sendfile(fd, file, &offset, FILE_BYTES)) >= 0)
			continue;
		if (errno != EAGAIN)
			fail("sendfile without waiting");
		poll(&room, 1, 1000);
	}
	shutdown(fd, SHUT_WR);
}

static void make_pipe(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC) || fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) < 0)
		fail("pipe");
}

/* Trap 7: out of a socket, first into nothing, then through a proxy into another socket. */
static void splice_out_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC), ends[2];
	ssize_t result;

	make_pipe(ends);
	if (recv(fd, buffer(), 100, MSG_PEEK) <= 0)
		fail("peek before splice");
	while ((result = received(fd, splice(fd, NULL, ends[1], NULL, 1 << 20, 0))) > 0) {
		while (result > 0) {
			ssize_t gone = splice(ends[0], NULL, nowhere, NULL, result, 0);

			if (gone <= 0)
				fail("splice to nowhere");
			result -= gone;
		}
	}
	if (result < 0)
		fail("splice out of the socket");
}

static void splice_out_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	send_all(fd, FILE_BYTES + 17, 65521);
	shutdown(fd, SHUT_WR);
}

/* The peer echoes what it gets by splicing it from its socket to its socket: a proxy in one connection. */
static void splice_in_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP), ends[2];
	ssize_t result;

	make_pipe(ends);
	while ((result = received(fd, splice(fd, NULL, ends[1], NULL, 30011, 0))) > 0) {
		while (result > 0) {
			ssize_t gone = sent(fd, splice(ends[0], NULL, fd, NULL, result, 0));

			if (gone <= 0)
				fail("splice into the socket");
			result -= gone;
		}
	}
	if (result < 0)
		fail("splice out of the socket");
	shutdown(fd, SHUT_WR);
}

static void splice_in_client(const struct part *part)
{
	int file = file_of(MIB), fd = call(part, IPPROTO_TCP), ends[2];
	struct iovec page = { buffer(), 20000 };
	off_t offset = 0;

	make_pipe(ends);
	/* From a file, from mapped memory, and from written bytes; each time the answer is read before going on. */
	while (offset < (off_t)MIB) {
		ssize_t filled = splice(file, &offset, ends[1], NULL, 50000, 0);

		for (ssize_t left = filled; left > 0;)
			left -= sent(fd, splice(ends[0], NULL, fd, NULL, left, 0));
		receive_all(fd, filled, 65536);
	}
	for (int i = 0; i < 50; i++) {
		ssize_t filled = i % 2 ? vmsplice(ends[1], &page, 1, 0) : write(ends[1], buffer(), 7001);

		if (filled <= 0)
			fail("fill the pipe");
		for (ssize_t left = filled; left > 0;)
			left -= sent(fd, splice(ends[0], NULL, fd, NULL, left, 0));
		receive_all(fd, filled, 65536);
	}
	shutdown(fd, SHUT_WR);
	receive_to_end(fd, 4096);
}

/* Into sockets whose messages are packets. Before Linux 6.5 only some of these had their own code for splice. */
enum { PACKETS = 100, ANSWER_BYTES = 16, EXPERIMENT = 253 };

static size_t packet_bytes(int number)
{
	return 1 + number * 37 % 1400;
}

static int open_raw(const struct part *part)
{
	struct address own = with_port(part, 0);
	int fd = socket(own.storage.ss_family, SOCK_RAW | SOCK_CLOEXEC, EXPERIMENT);

	if (fd < 0)
		skip("raw socket: %s", strerror(errno));
	watch(fd, "peer");
	return fd;
}

static void splice_packets_server(const struct part *part)
{
	uint16_t port;
	int udp = bind_at(part, SOCK_DGRAM, IPPROTO_UDP, &port), raw = open_raw(part);

	watch(udp, "peer");
	ready(part, port);
	for (int i = 0; i < PACKETS; i++) {
		struct sockaddr_storage from;
		socklen_t length = sizeof(from);

		if (received(udp, recvfrom(udp, buffer(), 2000, 0, (struct sockaddr *)&from, &length)) !=
		    (ssize_t)packet_bytes(i))
			fail("receive a datagram");
		if (received(raw, recv(raw, buffer(), 2000, 0)) < (ssize_t)packet_bytes(i))
			fail("receive a packet");
		if (sent(udp, sendto(udp, buffer(), ANSWER_BYTES, 0, (struct sockaddr *)&from, length)) != ANSWER_BYTES)
			fail("answer");
	}
}

static void splice_packet(int ends[2], int fd, ssize_t bytes)
{
	if (write(ends[1], buffer(), bytes) != bytes || sent(fd, splice(ends[0], NULL, fd, NULL, bytes, 0)) != bytes)
		fail("splice a packet of %zd bytes", bytes);
}

static void splice_packets_client(const struct part *part)
{
	struct address server = with_port(part, await_port(part)), same = with_port(part, 0);
	int udp = open_socket(server.storage.ss_family, SOCK_DGRAM, IPPROTO_UDP), raw = open_raw(part), ends[2];

	/* The socket's own packets come back to it as well, and are not read: this socket only sends. */
	if (connect(udp, (struct sockaddr *)&server.storage, server.length) ||
	    connect(raw, (struct sockaddr *)&same.storage, same.length))
		fail("connect");
	make_pipe(ends);
	for (int i = 0; i < PACKETS; i++) {
		splice_packet(ends, udp, packet_bytes(i));
		splice_packet(ends, raw, packet_bytes(i));
		if (received(udp, recv(udp, buffer(), 100, 0)) != ANSWER_BYTES)
			fail("await an answer");
	}
}

const struct scenario splice_scenarios[] = {
	{ "sendfile", "sendfile, large and small", file_server, sendfile_client },
	{ "sendfile-nonblocking", "sendfile cut short by a slow reader", sendfile_nonblocking_server,
	  sendfile_nonblocking_client },
	{ "splice-out", "splice out of a socket", splice_out_server, splice_out_client },
	{ "splice-in", "splice into a socket; a splicing echo", splice_in_server, splice_in_client },
	{ "splice-packets", "splice into UDP and raw sockets", splice_packets_server, splice_packets_client,
	  .private_network = true },
	{ 0 },
};
