/* Trap 11: an MPTCP server and two clients; the plain one makes the server's socket fall back to TCP. */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

static int listen_for_mptcp(const struct part *part, uint16_t *port)
{
	int probe = socket(part->address.storage.ss_family, SOCK_STREAM, IPPROTO_MPTCP);

	if (probe < 0)
		skip("MPTCP: %s", strerror(errno));
	close(probe);
	return listen_at(part, IPPROTO_MPTCP, port);
}

static void mptcp_server(const struct part *part)
{
	uint16_t port;
	int listener = listen_for_mptcp(part, &port);

	ready(part, port);
	for (int i = 0; i < 2; i++) {
		int fd = accept_from(listener);

		if (recv(fd, buffer(), 4000, MSG_PEEK) <= 0)
			fail("peek");
		receive_all(fd, 3 * MIB, 50021);
		send_all(fd, 2 * MIB + 7, 30011);
	}
}

static void mptcp_client(const struct part *part)
{
	static const int protocols[] = { IPPROTO_MPTCP, IPPROTO_TCP };
	uint16_t port = await_port(part);

	for (unsigned int i = 0; i < COUNT_OF(protocols); i++) {
		int fd = connect_to(part, protocols[i], port);

		send_all(fd, 3 * MIB, 65521);
		receive_all(fd, 2 * MIB + 7, 8191);
	}
}

/* Traps 7 and 11: into MPTCP from a file, out of it into a pipe, without passing through the process. */
enum { SPLICED_BYTES = MIB + 7 };

static void mptcp_splice_server(const struct part *part)
{
	uint16_t port;
	int listener = listen_for_mptcp(part, &port), ends[2];

	if (pipe2(ends, O_CLOEXEC))
		fail("pipe");
	ready(part, port);
	for (int i = 0; i < 2; i++) {
		int fd = accept_from(listener);

		for (size_t left = SPLICED_BYTES; left;) {
			ssize_t result = received(fd, splice(fd, NULL, ends[1], NULL, left < 65536 ? left : 65536, 0));

			if (result <= 0 || read(ends[0], buffer(), result) != result)
				fail("splice out of MPTCP");
			left -= result;
		}
		send_all(fd, 1, 1);
	}
}

static void mptcp_splice_client(const struct part *part)
{
	static const int protocols[] = { IPPROTO_MPTCP, IPPROTO_TCP };
	uint16_t port = await_port(part);
	int file = memfd_create("payload", MFD_CLOEXEC);

	if (file < 0 || write(file, buffer(), MIB) != MIB)
		fail("write the payload file");
	for (unsigned int i = 0; i < COUNT_OF(protocols); i++) {
		int fd = connect_to(part, protocols[i], port);
		off_t offset = 0;

		while (offset < (off_t)MIB) {
			if (sent(fd, sendfile(fd, file, &offset, MIB - offset)) <= 0)
				fail("sendfile");
		}
		send_all(fd, SPLICED_BYTES - MIB, MIB);
		receive_all(fd, 1, 1);
	}
}

const struct scenario mptcp_scenarios[] = {
	{ "mptcp", "MPTCP server, MPTCP and plain client", mptcp_server, mptcp_client },
	{ "mptcp-splice", "sendfile into MPTCP, splice out of it", mptcp_splice_server, mptcp_splice_client },
	{ 0 },
};
