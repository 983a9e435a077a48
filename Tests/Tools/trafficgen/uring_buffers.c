/* Trap 9, the parts of io_uring that need something registered first: files, buffers, a supply of buffers. */
#include "generator.h"
#include "ring.h"
#include "scenarios.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

static const unsigned int ring_flags[] = { 0, IORING_SETUP_SQPOLL };

/*
 * A supply of buffers from which the kernel takes one for each completion. A multishot operation goes on while there
 * are buffers, so one entry gives any number of receives.
 */
enum { BUFFERS = 16, BUFFER_BYTES = 4096, GROUP = 3, OPERATION = 1 };

struct supply {
	struct io_uring_buf_ring *ring;
	char *bytes;
	uint16_t tail;
};

static void give(struct supply *supply, uint16_t number)
{
	struct io_uring_buf *entry = &supply->ring->bufs[supply->tail & (BUFFERS - 1)];

	entry->addr = (uintptr_t)supply->bytes + number * BUFFER_BYTES;
	entry->len = BUFFER_BYTES;
	entry->bid = number;
	__atomic_store_n(&supply->ring->tail, ++supply->tail, __ATOMIC_RELEASE);
}

static void open_supply(struct supply *supply, struct ring *ring)
{
	struct io_uring_buf_reg registration = { .ring_entries = BUFFERS, .bgid = GROUP };

	*supply = (struct supply){ .bytes = buffer() };
	supply->ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	registration.ring_addr = (uintptr_t)supply->ring;
	if (supply->ring == MAP_FAILED || register_with(ring, IORING_REGISTER_PBUF_RING, &registration, 1))
		skip("io_uring: no ring of buffers: %s", strerror(errno));
	for (uint16_t i = 0; i < BUFFERS; i++)
		give(supply, i);
}

/* Waits for the next completion of a multishot operation, and starts it again where it ended for want of buffers. */
static struct io_uring_cqe next_shot(struct ring *ring, struct io_uring_sqe entry, bool *running)
{
	for (;;) {
		struct io_uring_cqe completion;

		if (!*running)
			submit(ring, entry);
		completion = await_completion(ring);
		*running = completion.flags & IORING_CQE_F_MORE;
		if (completion.res == -EINVAL)
			skip("io_uring: no multishot receive");
		if (completion.res < 0 && completion.res != -ENOBUFS)
			fail("multishot receive: %d", completion.res);
		if (completion.res >= 0)
			return completion;
	}
}

/* Ends the operation, which would take what comes next. The operation and its end complete in any order. */
static void stop(struct ring *ring, bool running)
{
	submit(ring, (struct io_uring_sqe){ .opcode = IORING_OP_ASYNC_CANCEL, .addr = OPERATION });
	await_completion(ring);
	if (running)
		await_completion(ring);
}

enum { STREAM_BYTES = 500009 };

static void multishot_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	for (unsigned int i = 0; i < COUNT_OF(ring_flags); i++) {
		struct ring ring;
		struct supply supply;
		struct io_uring_sqe entry = { .opcode = IORING_OP_RECV, .fd = fd, .flags = IOSQE_BUFFER_SELECT,
					      .ioprio = IORING_RECV_MULTISHOT, .buf_group = GROUP, .user_data = OPERATION };
		bool running = false;

		open_ring(&ring, ring_flags[i]);
		open_supply(&supply, &ring);
		for (size_t left = STREAM_BYTES; left;) {
			struct io_uring_cqe completion = next_shot(&ring, entry, &running);

			if (!received(fd, completion.res))
				fail("the stream ended early");
			left -= completion.res;
			give(&supply, completion.flags >> IORING_CQE_BUFFER_SHIFT);
		}
		stop(&ring, running);
		close_ring(&ring);
		send_all(fd, 1, 1);
	}
}

static void multishot_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	for (unsigned int i = 0; i < COUNT_OF(ring_flags); i++) {
		send_all(fd, STREAM_BYTES, 20011);
		receive_all(fd, 1, 1);
	}
}

/* RECVMSG, multishot: a completion's length includes the header and the name that the kernel put before the payload. */
enum { DATAGRAMS = 200, ANSWER_BYTES = 16 };

static size_t datagram_bytes(int number)
{
	return number * 37 % 1300;
}

static void datagram_server(const struct part *part)
{
	struct msghdr message = { .msg_namelen = sizeof(struct sockaddr_storage) };
	uint16_t port;
	int fd = bind_at(part, SOCK_DGRAM, IPPROTO_UDP, &port);
	struct io_uring_sqe entry = { .opcode = IORING_OP_RECVMSG, .fd = fd, .flags = IOSQE_BUFFER_SELECT,
				      .ioprio = IORING_RECV_MULTISHOT, .buf_group = GROUP, .addr = (uintptr_t)&message, .len = 1 };
	struct ring ring;
	struct supply supply;
	bool running = false;

	watch(fd, "peer");
	ready(part, port);
	open_ring(&ring, 0);
	open_supply(&supply, &ring);
	for (int i = 0; i < DATAGRAMS; i++) {
		struct io_uring_cqe completion = next_shot(&ring, entry, &running);
		uint16_t number = completion.flags >> IORING_CQE_BUFFER_SHIFT;
		struct io_uring_recvmsg_out *out = (struct io_uring_recvmsg_out *)(supply.bytes + number * BUFFER_BYTES);

		if (received(fd, out->payloadlen) != (ssize_t)datagram_bytes(i))
			fail("datagram %d has %u bytes", i, out->payloadlen);
		if (sent(fd, sendto(fd, "sixteen bytes...", ANSWER_BYTES, 0, (struct sockaddr *)(out + 1), out->namelen)) !=
		    ANSWER_BYTES)
			fail("answer a datagram");
		give(&supply, number);
	}
}

static void datagram_client(const struct part *part)
{
	struct address server = with_port(part, await_port(part));
	int fd = open_socket(server.storage.ss_family, SOCK_DGRAM, IPPROTO_UDP);
	struct ring ring;

	open_ring(&ring, 0);
	if (connect(fd, (struct sockaddr *)&server.storage, server.length))
		fail("connect UDP");
	for (int i = 0; i < DATAGRAMS; i++) {
		struct io_uring_sqe entry = { .opcode = IORING_OP_SEND, .fd = fd, .addr = (uintptr_t)buffer(),
					      .len = datagram_bytes(i) };

		if (sent(fd, operate(&ring, entry)) != (ssize_t)datagram_bytes(i))
			fail("send a datagram");
		if (received(fd, recv(fd, buffer(), 2000, 0)) != ANSWER_BYTES)
			fail("await an answer");
	}
}

/* Registered files and buffers: neither is looked up in the process's own tables. */
enum { FIXED_ROUNDS = 20, FIXED_BYTES = 20011 };

static void open_fixed(struct ring *ring, unsigned int flags, int fd)
{
	struct iovec memory = { buffer(), MIB };

	open_ring(ring, flags);
	if (register_with(ring, IORING_REGISTER_FILES, &fd, 1) || register_with(ring, IORING_REGISTER_BUFFERS, &memory, 1))
		skip("io_uring: cannot register: %s", strerror(errno));
}

static ssize_t fixed(struct ring *ring, unsigned int opcode, size_t bytes)
{
	struct io_uring_sqe entry = { .opcode = opcode, .fd = 0, .flags = IOSQE_FIXED_FILE, .addr = (uintptr_t)buffer(),
				      .len = bytes };

	if (opcode == IORING_OP_SEND_ZC)
		entry.ioprio = IORING_RECVSEND_FIXED_BUF; /* buf_index is 0 */
	return operate(ring, entry);
}

static void fixed_server(const struct part *part)
{
	static const unsigned int operations[] = { IORING_OP_READ_FIXED, IORING_OP_READ, IORING_OP_RECV };
	int fd = serve_one(part, IPPROTO_TCP);

	for (unsigned int i = 0; i < COUNT_OF(ring_flags); i++) {
		struct ring ring;
		size_t left = 4 * FIXED_ROUNDS * FIXED_BYTES;

		open_fixed(&ring, ring_flags[i], fd);
		for (unsigned int number = 0; left; number++) {
			ssize_t result = received(fd, fixed(&ring, operations[number % 3], left < 9001 ? left : 9001));

			if (result <= 0)
				fail("receive by a registered file: %zd", result);
			left -= result;
		}
		close_ring(&ring);
		send_all(fd, 5, 5);
	}
}

static void fixed_client(const struct part *part)
{
	static const unsigned int operations[] = { IORING_OP_WRITE_FIXED, IORING_OP_WRITE, IORING_OP_SEND, IORING_OP_SEND_ZC };
	int fd = call(part, IPPROTO_TCP);

	for (unsigned int i = 0; i < COUNT_OF(ring_flags); i++) {
		struct ring ring;

		open_fixed(&ring, ring_flags[i], fd);
		for (unsigned int number = 0; number < 4 * FIXED_ROUNDS; number++) {
			for (size_t left = FIXED_BYTES; left;) {
				ssize_t result = sent(fd, fixed(&ring, operations[number % 4], left));

				if (result == -EINVAL && operations[number % 4] == IORING_OP_SEND_ZC)
					skip("io_uring: no SEND_ZC");
				if (result <= 0)
					fail("send by a registered file: %zd", result);
				left -= result;
			}
		}
		close_ring(&ring);
		receive_all(fd, 5, 5);
	}
}

const struct scenario uring_buffer_scenarios[] = {
	{ "io-uring-multishot", "io_uring: multishot receive into supplied buffers", multishot_server, multishot_client },
	{ "io-uring-datagrams", "io_uring: multishot recvmsg of datagrams", datagram_server, datagram_client },
	{ "io-uring-fixed", "io_uring: registered files and buffers", fixed_server, fixed_client },
	{ 0 },
};
