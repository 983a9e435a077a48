/*
 * Trap 9: io_uring, by its system calls alone (no liburing, so that a static build needs nothing). The payload belongs
 * to the process that owns the ring, also where the kernel's polling thread or a worker makes the call.
 */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ENTRIES = 8 };

struct ring {
	int fd;
	bool polled;
	struct io_uring_params params;
	char *area; /* both queues, IORING_FEAT_SINGLE_MMAP */
	struct io_uring_sqe *entries;
};

static void open_ring(struct ring *ring, unsigned int flags)
{
	size_t submissions, completions;

	*ring = (struct ring){ .polled = flags & IORING_SETUP_SQPOLL,
			       .params = { .flags = flags, .sq_thread_idle = 100 } };
	ring->fd = syscall(__NR_io_uring_setup, ENTRIES, &ring->params);
	if (ring->fd < 0)
		skip("io_uring_setup: %s", strerror(errno));
	submissions = ring->params.sq_off.array + ring->params.sq_entries * sizeof(uint32_t);
	completions = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
	ring->area = mmap(NULL, submissions > completions ? submissions : completions, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
	ring->entries = mmap(NULL, ring->params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
	if (ring->area == MAP_FAILED || ring->entries == MAP_FAILED)
		fail("map the ring");
}

static uint32_t *word(struct ring *ring, uint32_t offset)
{
	return (uint32_t *)(ring->area + offset);
}

static struct io_uring_cqe await_completion(struct ring *ring)
{
	uint32_t *head = word(ring, ring->params.cq_off.head), *tail = word(ring, ring->params.cq_off.tail);
	struct io_uring_cqe *queue = (struct io_uring_cqe *)(ring->area + ring->params.cq_off.cqes), completion;

	while (*head == __atomic_load_n(tail, __ATOMIC_ACQUIRE)) {
		if (syscall(__NR_io_uring_enter, ring->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0 && errno != EINTR)
			fail("wait for the ring");
	}
	completion = queue[*head & *word(ring, ring->params.cq_off.ring_mask)];
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return completion;
}

/* One operation, start to end: returns what the call would have returned, or -errno. */
static ssize_t operate(struct ring *ring, struct io_uring_sqe entry)
{
	uint32_t *tail = word(ring, ring->params.sq_off.tail);
	uint32_t slot = *tail & *word(ring, ring->params.sq_off.ring_mask);
	unsigned int flags = 0;
	struct io_uring_cqe completion;
	ssize_t result;

	ring->entries[slot] = entry;
	word(ring, ring->params.sq_off.array)[slot] = slot;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_SEQ_CST);
	if (ring->polled) {
		if (__atomic_load_n(word(ring, ring->params.sq_off.flags), __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP)
			flags = IORING_ENTER_SQ_WAKEUP;
	}
	if ((!ring->polled || flags) && syscall(__NR_io_uring_enter, ring->fd, 1, 0, flags, NULL, 0) < 0)
		fail("submit to the ring");
	completion = await_completion(ring);
	result = completion.res;
	/* A zero-copy send completes a second time, when its memory is free again. */
	if (completion.flags & IORING_CQE_F_MORE)
		await_completion(ring);
	return result;
}

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
		close(ring.fd);
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
		close(ring.fd);
		receive_all(fd, 5, 5);
	}
}

const struct scenario uring_scenarios[] = {
	{ "io-uring", "io_uring: inline, worker, SQPOLL, zero-copy", uring_server, uring_client },
	{ 0 },
};
