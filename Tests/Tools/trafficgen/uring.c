/*
 * Trap 9: io_uring. The payload belongs to the process that owns the ring, also where the kernel's polling thread or a
 * worker makes the call.
 */
#include "generator.h"
#include "ring.h"
#include "scenarios.h"

#include <errno.h>
#include <sys/uio.h>

static const unsigned int ring_flags[] = { 0, IORING_SETUP_SQPOLL };
static const unsigned char entry_flags[] = { 0, IOSQE_ASYNC }; /* IOSQE_ASYNC: by a worker thread */

enum { ROUNDS = 50, SEND_BYTES = 20011, MESSAGE_BYTES = 7001 };

static void uring_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	for (unsigned int i = 0; i < COUNT_OF(ring_flags) * COUNT_OF(entry_flags); i++) {
		struct ring ring;
		size_t left = (SEND_BYTES + MESSAGE_BYTES + SEND_BYTES) * ROUNDS;

		open_ring(&ring, ring_flags[i / 2]);
		for (unsigned int number = 0; left; number++) {
			struct iovec vector = { buffer(), left < 9001 ? left : 9001 };
			struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
			struct io_uring_sqe entry = { .fd = fd, .flags = entry_flags[i % 2] };
			ssize_t result;

			if (number % 3 == 0) {
				entry.opcode = IORING_OP_RECV;
				entry.addr = (uintptr_t)buffer();
				entry.len = vector.iov_len;
			} else if (number % 3 == 1) {
				entry.opcode = IORING_OP_RECVMSG;
				entry.addr = (uintptr_t)&message;
				entry.len = 1;
			} else {
				entry.opcode = IORING_OP_READV;
				entry.addr = (uintptr_t)&vector;
				entry.len = 1;
			}
			result = received(fd, operate(&ring, entry));
			if (result <= 0)
				fail("io_uring receive: %zd", result);
			left -= result;
		}
		close_ring(&ring);
		send_all(fd, 5, 5);
	}
}

static void send_fully(struct ring *ring, int fd, struct io_uring_sqe entry, size_t bytes)
{
	struct iovec vector = { buffer(), bytes };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };

	while (vector.iov_len) {
		ssize_t result;

		if (entry.opcode == IORING_OP_SENDMSG) {
			entry.addr = (uintptr_t)&message;
			entry.len = 1;
		} else {
			entry.addr = (uintptr_t)buffer();
			entry.len = vector.iov_len;
		}
		result = sent(fd, operate(ring, entry));
		if (result == -EINVAL && entry.opcode == IORING_OP_SEND_ZC) {
			entry.opcode = IORING_OP_SEND; /* older than Linux 6.0 */
			continue;
		}
		if (result <= 0)
			fail("io_uring send: %zd", result);
		vector.iov_len -= result;
	}
}

static void uring_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	for (unsigned int i = 0; i < COUNT_OF(ring_flags) * COUNT_OF(entry_flags); i++) {
		struct ring ring;

		open_ring(&ring, ring_flags[i / 2]);
		for (int round = 0; round < ROUNDS; round++) {
			struct io_uring_sqe entry = { .fd = fd, .flags = entry_flags[i % 2] };

			entry.opcode = IORING_OP_SEND;
			send_fully(&ring, fd, entry, SEND_BYTES);
			entry.opcode = IORING_OP_SENDMSG;
			send_fully(&ring, fd, entry, MESSAGE_BYTES);
			entry.opcode = IORING_OP_SEND_ZC;
			send_fully(&ring, fd, entry, SEND_BYTES);
		}
		close_ring(&ring);
		receive_all(fd, 5, 5);
	}
}

const struct scenario uring_scenarios[] = {
	{ "io-uring", "io_uring: inline, worker, SQPOLL, zero-copy", uring_server, uring_client },
	{ 0 },
};
