/* io_uring by its system calls alone: no liburing, so that a static build needs nothing. */
#ifndef RING_H
#define RING_H

#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ring {
	int fd;
	bool polled;
	struct io_uring_params params;
	size_t area_bytes;
	char *area; /* both queues, IORING_FEAT_SINGLE_MMAP */
	struct io_uring_sqe *entries;
};

void open_ring(struct ring *ring, unsigned int flags); /* IORING_SETUP_*; skips the run where the kernel has none */
void close_ring(struct ring *ring);
void submit(struct ring *ring, struct io_uring_sqe entry);
struct io_uring_cqe await_completion(struct ring *ring);
ssize_t operate(struct ring *ring, struct io_uring_sqe entry); /* waits; returns what the call would return, or -errno */
int register_with(struct ring *ring, unsigned int what, const void *argument, unsigned int count); /* IORING_REGISTER_* */

#endif
