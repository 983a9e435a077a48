/*
 * How long the walk through the network namespaces takes (Sources/CNamespaceWalk), beside the same walk in the present
 * namespace alone. Counts processor time of the walk's process. Needs root.
 *
 *   clang -target bpf -mcpu=v3 -O2 -g -D__TARGET_ARCH_x86 -I/usr/include/x86_64-linux-gnu -c bpf/traffic.bpf.c -o /tmp/traffic.o
 *   cc -O2 -ISources/CNamespaceWalk/include -o /tmp/namespace_walk Tests/Tools/bench/namespace_walk.c Sources/CNamespaceWalk/CNamespaceWalk.c -lbpf
 *   for n in 1 1000; do /tmp/namespace_walk /tmp/traffic.o $n; done
 *
 * The second argument: with so many namespaces in all, which processes of this program live in.
 */
#define _GNU_SOURCE
#include "CNamespaceWalk.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { WALKS = 9 };

static const char *const programs[] = { "sweep_tcp_sockets", "sweep_udp_sockets" };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void make_namespaces(int count)
{
	int ready[2];
	char byte;

	if (pipe(ready))
		fail("pipe");
	for (int i = 0; i < count; i++) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (unshare(CLONE_NEWNET))
				fail("unshare");
			if (write(ready[1], "", 1) == 1)
				pause();
			_exit(1);
		}
		if (read(ready[0], &byte, 1) != 1)
			fail("a namespace");
	}
}

static void read_fully(int descriptor, void *data, size_t length)
{
	while (length) {
		ssize_t count = read(descriptor, data, length);

		if (count > 0) {
			data = (char *)data + count;
			length -= count;
		} else {
			struct pollfd event = { .fd = descriptor, .events = POLLIN };

			if (count == 0)
				fail("the process has ended");
			poll(&event, 1, -1);
		}
	}
}

static double walk(int request, int answer, uint32_t scope, uint64_t *namespaces)
{
	struct walk_request what = { .lists = 3, .scope = scope };
	static char output[64 << 10];
	struct walk_header header;

	*namespaces = 0;
	if (walk_ask(request, &what) < 0)
		fail("walk_ask");
	while (true) {
		read_fully(answer, &header, sizeof(header));
		read_fully(answer, output, header.length);
		*namespaces += header.news == WALK_NAMESPACE;
		if (header.news == WALK_END)
			return header.value / 1e6;
	}
}

static int ascending(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

int main(int count, char **arguments)
{
	struct bpf_object *object = count == 3 ? bpf_object__open(arguments[1]) : NULL;
	struct bpf_program *program;
	int links[2], request, answer;

	if (!object)
		fail("usage: namespace_walk OBJECT NAMESPACES");
	bpf_object__for_each_program(program, object)
		bpf_program__set_autoload(program, strstr(bpf_program__name(program), "sweep_") &&
							   strstr(bpf_program__name(program), "p_sockets"));
	if (bpf_object__load(object))
		fail("load");
	for (int i = 0; i < 2; i++) {
		struct bpf_link *link = bpf_program__attach(bpf_object__find_program_by_name(object, programs[i]));

		if (!link)
			fail("attach");
		links[i] = bpf_link__fd(link);
	}
	make_namespaces(atoi(arguments[2]) - 1);
	if (walk_start(links, 2, &request, &answer) < 0)
		fail("walk_start");
	for (uint32_t scope = WALK_HOME; scope <= WALK_ALL; scope++) {
		uint64_t namespaces;
		double taken[WALKS];

		for (int i = 0; i < WALKS; i++)
			taken[i] = walk(request, answer, scope, &namespaces);
		qsort(taken, WALKS, sizeof(*taken), ascending);
		printf("%s: %llu namespaces, %.2f ms of a processor (%.2f to %.2f, %d walks)\n",
		       scope == WALK_HOME ? "home" : "all", (unsigned long long)namespaces, taken[WALKS / 2], taken[0],
		       taken[WALKS - 1], WALKS);
	}
	return 0;
}
