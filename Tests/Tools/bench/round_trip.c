/*
 * A request of 100 bytes and an answer of 200, over a TCP connection that one thread has with itself, so nothing waits
 * and no processor sleeps. Prints the nanoseconds of a round trip: the first quartile of COUNT batches, because other
 * work of the machine only ever adds time.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 1000 };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;

	return (difference > 0) - (difference < 0);
}

static void open_connection(int ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length) || connect(ends[0], (struct sockaddr *)&address, length))
		exit(1);
	ends[1] = accept(listener, NULL, NULL);
	for (int i = 0; i < 2; i++)
		setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void pass(int from, int to, size_t length)
{
	char bytes[256] = { 0 };

	if (send(from, bytes, length, 0) != (ssize_t)length || recv(to, bytes, length, MSG_WAITALL) != (ssize_t)length)
		exit(1);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0, ends[2];
	double *times = calloc(count > 0 ? count : 1, sizeof(*times));
	cpu_set_t last;

	if (count <= 0 || !times)
		return 64;
	CPU_ZERO(&last);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
	sched_setaffinity(0, sizeof(last), &last);
	open_connection(ends);
	for (int i = 0; i < count; i++) {
		double start = now();

		for (int j = 0; j < BATCH; j++) {
			pass(ends[0], ends[1], 100);
			pass(ends[1], ends[0], 200);
		}
		times[i] = (now() - start) / BATCH;
	}
	qsort(times, count, sizeof(*times), compare);
	printf("%.1f\n", times[count / 4]);
	return 0;
}
