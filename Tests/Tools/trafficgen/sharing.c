/* One socket, several processes or threads: each byte belongs to the process whose call moved it. */
#include "generator.h"
#include "scenarios.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* Trap 17: the parent accepts, the child does half of the work. */
static void half_of_the_work(void *fd)
{
	receive_all(*(int *)fd, 100000, 30011);
	send_all(*(int *)fd, 500000, 30011);
}

static void fork_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	reap(spawn("tg-child", half_of_the_work, &fd));
	receive_all(fd, 100000, 30011);
	send_all(fd, 400000, 65536);
}

/* Also drives the other scenarios of this file that share a TCP connection. */
static void fork_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	send_all(fd, 200000, 65536);
	receive_all(fd, 900000, 50021);
}

static void pass(int channel, int fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {};
	struct iovec one = { "x", 1 };
	struct msghdr message = { .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	if (sendmsg(channel, &message, 0) != 1)
		fail("pass the socket on");
}

static int take(int channel)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {};
	char byte;
	struct iovec one = { &byte, 1 };
	struct msghdr message = { .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	int fd;

	if (recvmsg(channel, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		fail("take the socket");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

/* It was started before the connection, so only the message can have brought the socket here. */
static void heir(void *channel)
{
	int fd = take(*(int *)channel);

	half_of_the_work(&fd);
	receive_all(fd, 100000, 30011);
}

static void handover_server(const struct part *part)
{
	int channel[2], fd;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel))
		fail("socketpair");
	exclude(channel[0]);
	child = spawn("tg-heir", heir, &channel[1]);
	fd = serve_one(part, IPPROTO_TCP);
	send_all(fd, 400000, 65536);
	pass(channel[0], fd);
	reap(child);
}

/* Traps 16 and 21: 16 named threads on one socket are one process, and no addition is lost. */
enum { THREADS = 16, THREAD_SENDS = 2000, READERS = 4 };

static void *write_some(void *fd)
{
	for (int i = 0; i < THREAD_SENDS; i++) {
		if (sent(*(int *)fd, send(*(int *)fd, "0123456789", 10, MSG_NOSIGNAL)) != 10)
			fail("send from a thread");
	}
	return NULL;
}

static void threads_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);
	pthread_t threads[THREADS];
	char name[16];

	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, write_some, &fd))
			fail("pthread_create");
		snprintf(name, sizeof(name), "tg-thread-%d", i);
		pthread_setname_np(threads[i], name);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	shutdown(fd, SHUT_WR);
	receive_all(fd, 10, 10);
}

static void *read_some(void *fd)
{
	ssize_t result;

	do
		result = received(*(int *)fd, recv(*(int *)fd, (char[700]){ 0 }, 700, 0));
	while (result > 0);
	return NULL;
}

static void threads_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);
	pthread_t threads[READERS];

	for (int i = 0; i < READERS; i++) {
		if (pthread_create(&threads[i], NULL, read_some, &fd))
			fail("pthread_create");
	}
	for (int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	send_all(fd, 10, 10);
}

/* As many processes on one UDP socket as the kernel side has room for: these children and the parent. */
enum { OWNERS = 65, OWNER_DATAGRAMS = 300 };

static void send_some(void *fd)
{
	for (int i = 0; i < OWNER_DATAGRAMS; i++) {
		char answer[16];

		if (sent(*(int *)fd, send(*(int *)fd, buffer(), 100 + getpid() % 50, 0)) < 0)
			fail("send from a shared socket");
		if (received(*(int *)fd, recv(*(int *)fd, answer, sizeof(answer), 0)) != 16)
			fail("receive at a shared socket");
	}
}

static void owners_client(const struct part *part)
{
	struct address server = with_port(part, await_port(part));
	int fd = open_socket(server.storage.ss_family, SOCK_DGRAM, IPPROTO_UDP);
	pid_t children[OWNERS];
	char name[16];

	if (connect(fd, (struct sockaddr *)&server.storage, server.length))
		fail("connect UDP");
	for (int i = 0; i < OWNERS; i++) {
		snprintf(name, sizeof(name), "tg-owner-%d", i);
		children[i] = spawn(name, send_some, &fd);
	}
	for (int i = 0; i < OWNERS; i++)
		reap(children[i]);
	if (sent(fd, send(fd, "end", 3, 0)) != 3)
		fail("send the last datagram");
}

/* Answers each datagram; any of the owners may take the answer, and takes exactly as many as it sent. */
static void owners_server(const struct part *part)
{
	struct sockaddr_storage from;
	socklen_t length;
	uint16_t port;
	int fd = bind_at(part, SOCK_DGRAM, IPPROTO_UDP, &port);

	ready(part, port);
	for (;;) {
		ssize_t result;

		length = sizeof(from);
		result = received(fd, recvfrom(fd, buffer(), 2000, 0, (struct sockaddr *)&from, &length));
		if (result < 0)
			fail("receive");
		if (result == 3)
			return;
		if (sent(fd, sendto(fd, buffer(), 16, 0, (struct sockaddr *)&from, length)) != 16)
			fail("answer");
	}
}

const struct scenario sharing_scenarios[] = {
	{ "fork-shared", "parent accepts, child does half", fork_server, fork_client },
	{ "scm-rights", "a socket passed to another process", handover_server, fork_client },
	{ "threads", "16 named threads on one socket", threads_server, threads_client },
	{ "many-owners", "66 processes on one UDP socket", owners_server, owners_client },
	{ 0 },
};
