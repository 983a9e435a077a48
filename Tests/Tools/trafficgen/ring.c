/* One io_uring: set up, submit, wait. */
#include "ring.h"
#include "generator.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENTRIES = 8 };

void open_ring(struct ring *ring, unsigned int flags)
{
	size_t submissions, completions;

	*ring = (struct ring){ .polled = flags & IORING_SETUP_SQPOLL,
			       .params = { .flags = flags, .sq_thread_idle = 100 } };
	ring->fd = syscall(__NR_io_uring_setup, ENTRIES, &ring->params);
	if (ring->fd < 0)
		skip("io_uring_setup: %s", strerror(errno));
	submissions = ring->params.sq_off.array + ring->params.sq_entries * sizeof(uint32_t);
	completions = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
	ring->area_bytes = submissions > completions ? submissions : completions;
	ring->area = mmap(NULL, ring->area_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd,
			  IORING_OFF_SQ_RING);
	ring->entries = mmap(NULL, ring->params.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
	if (ring->area == MAP_FAILED || ring->entries == MAP_FAILED)
		fail("map the ring");
}

/* The mappings keep a ring alive as its descriptor does. */
void close_ring(struct ring *ring)
{
	munmap(ring->area, ring->area_bytes);
	munmap(ring->entries, ring->params.sq_entries * sizeof(struct io_uring_sqe));
	close(ring->fd);
}

static uint32_t *word(struct ring *ring, uint32_t offset)
{
	return (uint32_t *)(ring->area + offset);
}

struct io_uring_cqe await_completion(struct ring *ring)
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

void submit(struct ring *ring, struct io_uring_sqe entry)
{
	uint32_t *tail = word(ring, ring->params.sq_off.tail);
	uint32_t slot = *tail & *word(ring, ring->params.sq_off.ring_mask);
	unsigned int flags = 0;

	ring->entries[slot] = entry;
	word(ring, ring->params.sq_off.array)[slot] = slot;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_SEQ_CST);
	if (ring->polled) {
		if (__atomic_load_n(word(ring, ring->params.sq_off.flags), __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP)
			flags = IORING_ENTER_SQ_WAKEUP;
	}
	if ((!ring->polled || flags) && syscall(__NR_io_uring_enter, ring->fd, 1, 0, flags, NULL, 0) < 0)
		fail("submit to the ring");
}

ssize_t operate(struct ring *ring, struct io_uring_sqe entry)
{
	struct io_uring_cqe completion;

	submit(ring, entry);
	completion = await_completion(ring);
	/* A zero-copy send completes a second time, when its memory is free again. */
	if (completion.flags & IORING_CQE_F_MORE)
		await_completion(ring);
	return completion.res;
}

int register_with(struct ring *ring, unsigned int what, const void *argument, unsigned int count)
{
	return syscall(__NR_io_uring_register, ring->fd, what, argument, count);
}
