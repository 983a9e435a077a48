#include "generator.h"
#include "world.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Field 22 of /proc/PID/stat. The name in field 2 may contain anything, so count from the last parenthesis. */
static uint64_t read_start_ticks(void)
{
	char line[1024], *field;
	FILE *file = fopen("/proc/self/stat", "re");
	uint64_t ticks = 0;

	if (!file || !fgets(line, sizeof(line), file))
		fail("read /proc/self/stat");
	fclose(file);
	field = strrchr(line, ')');
	if (!field)
		fail("no process name in /proc/self/stat");
	for (int number = 2; field && number < 22; number++)
		field = strchr(field + 1, ' ');
	if (!field || sscanf(field, "%" SCNu64, &ticks) != 1)
		fail("no start time in /proc/self/stat");
	return ticks;
}

static uint64_t start_ticks(void)
{
	static pid_t known;
	static uint64_t ticks;

	if (known != getpid()) {
		ticks = read_start_ticks();
		known = getpid();
	}
	return ticks;
}

static uint64_t cookie_of(int fd)
{
	uint64_t cookie;
	socklen_t length = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length))
		fail("SO_COOKIE");
	return cookie;
}

static void lock(void)
{
	while (__atomic_test_and_set(&world->lock, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock(void)
{
	__atomic_clear(&world->lock, __ATOMIC_RELEASE);
}

/* Open addressing over 32-bit indexes + 1 into the dense array of tallies; slots are never freed. */
static uint32_t *slot_of(uint64_t cookie, pid_t pid)
{
	uint64_t hash = (cookie * 0x9e3779b97f4a7c15ULL) ^ ((uint64_t)pid * 0xc2b2ae3d27d4eb4fULL);
	uint32_t position = (uint32_t)(hash >> 40) % TALLY_SLOTS;

	for (;;) {
		uint32_t *slot = &world->slots[position], index = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

		if (!index || (world->tallies[index - 1].cookie == cookie && world->tallies[index - 1].pid == pid))
			return slot;
		position = (position + 1) % TALLY_SLOTS;
	}
}

static struct tally *tally_for(uint64_t cookie)
{
	pid_t pid = getpid();
	uint32_t *slot = slot_of(cookie, pid);
	struct tally *tally;

	if (__atomic_load_n(slot, __ATOMIC_ACQUIRE))
		return &world->tallies[*slot - 1];
	lock();
	slot = slot_of(cookie, pid);
	if (!*slot) {
		if (world->tally_count == TALLY_LIMIT)
			fail("more than %d sockets", TALLY_LIMIT);
		tally = &world->tallies[world->tally_count++];
		tally->cookie = cookie;
		tally->pid = pid;
		tally->start_ticks = start_ticks();
		/* The process's name, not the thread's: PR_GET_NAME would give the latter. */
		FILE *file = fopen("/proc/self/comm", "re");
		if (file) {
			if (fgets(tally->name, sizeof(tally->name), file))
				tally->name[strcspn(tally->name, "\n")] = 0;
			fclose(file);
		}
		__atomic_store_n(slot, world->tally_count, __ATOMIC_RELEASE);
	}
	tally = &world->tallies[*slot - 1];
	unlock();
	return tally;
}

static struct tally *tally_of(int fd)
{
	struct tally *tally = tally_for(cookie_of(fd));
	socklen_t length = sizeof(int);

	if (!tally->protocol) {
		getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &tally->family, &length);
		getsockopt(fd, SOL_SOCKET, SO_TYPE, &tally->type, &length);
		getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &tally->protocol, &length);
	}
	/* Asked again until known: an unbound socket has its address only after its first call. */
	if (!tally->local.sin6_port) {
		length = sizeof(tally->local);
		getsockname(fd, (struct sockaddr *)&tally->local, &length);
	}
	if (!tally->remote.sin6_port) {
		length = sizeof(tally->remote);
		getpeername(fd, (struct sockaddr *)&tally->remote, &length);
	}
	return tally;
}

void watch(int fd, const char *role)
{
	tally_of(fd)->role = role[0];
}

void mark_closed(int fd)
{
	tally_of(fd)->closed = true;
}

void exclude(int fd)
{
	tally_of(fd)->excluded = true;
}

ssize_t sent(int fd, ssize_t result)
{
	if (result > 0)
		__atomic_fetch_add(&tally_of(fd)->sent, result, __ATOMIC_RELAXED);
	return result;
}

ssize_t received(int fd, ssize_t result)
{
	if (result > 0)
		__atomic_fetch_add(&tally_of(fd)->received, result, __ATOMIC_RELAXED);
	return result;
}

void sent_by_process(ssize_t result)
{
	if (result > 0)
		__atomic_fetch_add(&tally_for(0)->sent, result, __ATOMIC_RELAXED);
}

void received_by_process(ssize_t result)
{
	if (result > 0)
		__atomic_fetch_add(&tally_for(0)->received, result, __ATOMIC_RELAXED);
}

static void print_address(const char *name, const struct sockaddr_in6 *address)
{
	char text[INET6_ADDRSTRLEN];
	const struct sockaddr_in *four = (const struct sockaddr_in *)address;
	bool is_four = address->sin6_family == AF_INET;

	if (!address->sin6_port)
		return;
	inet_ntop(address->sin6_family, is_four ? (const void *)&four->sin_addr : &address->sin6_addr, text, sizeof(text));
	printf(",\"%s\":{\"address\":\"%s\",\"port\":%u}", name, text, ntohs(address->sin6_port));
}

static const char *protocol_name(const struct tally *tally)
{
	if (tally->type == SOCK_RAW)
		return "raw";
	switch (tally->protocol) {
	case IPPROTO_TCP: return "tcp";
	case IPPROTO_UDP: return "udp";
	case IPPROTO_ICMP: return "icmp";
	case IPPROTO_ICMPV6: return "icmpv6";
	case 262: return "mptcp";
	default: return "other";
	}
}

static const char *role_name(char role)
{
	return role == 'c' ? "client" : role == 's' ? "server" : role == 'l' ? "listener" : "peer";
}

static void print_bytes(const struct tally *tally)
{
	printf("\"sent\":%" PRIu64 ",\"received\":%" PRIu64 "}", tally->sent, tally->received);
}

static void print_owner(const struct tally *tally)
{
	printf("\"pid\":%d,\"start_boottime_ticks\":%" PRIu64 ",", tally->pid, tally->start_ticks);
}

static void print_sockets(void)
{
	const char *separator = "";

	printf(",\"sockets\":[");
	for (uint32_t i = 0; i < world->tally_count; i++) {
		const struct tally *tally = &world->tallies[i];

		if (!tally->cookie || tally->excluded)
			continue;
		printf("%s{\"cookie\":%" PRIu64 ",", separator, tally->cookie);
		print_owner(tally);
		printf("\"protocol\":\"%s\",\"family\":\"%s\"", protocol_name(tally),
		       tally->family == AF_INET ? "ipv4" : "ipv6");
		printf(",\"open\":%s", tally->closed ? "false" : "true");
		if (tally->role)
			printf(",\"role\":\"%s\"", role_name(tally->role));
		print_address("local", &tally->local);
		print_address("remote", &tally->remote);
		putchar(',');
		print_bytes(tally);
		separator = ",";
	}
	printf("]");
}

/* A process's total over its sockets, listed or not. Quadratic in the number of processes, of which there are few. */
static void print_processes(void)
{
	const char *separator = "";

	printf(",\"processes\":[");
	for (uint32_t i = 0; i < world->tally_count; i++) {
		const struct tally *first = &world->tallies[i];
		struct tally total = *first;
		bool seen = false;

		for (uint32_t j = 0; j < i && !seen; j++)
			seen = world->tallies[j].pid == first->pid;
		if (seen)
			continue;
		total.sent = total.received = 0;
		for (uint32_t j = i; j < world->tally_count; j++) {
			const struct tally *other = &world->tallies[j];

			if (other->pid != first->pid || other->excluded)
				continue;
			total.sent += other->sent;
			total.received += other->received;
		}
		printf("%s{", separator);
		print_owner(&total);
		printf("\"name\":\"%s\",", total.name);
		print_bytes(&total);
		separator = ",";
	}
	printf("]");
}

static void print_excluded(void)
{
	const char *separator = "";

	printf(",\"excluded\":[");
	for (uint32_t i = 0; i < world->tally_count; i++) {
		if (!world->tallies[i].excluded)
			continue;
		printf("%s%" PRIu64, separator, world->tallies[i].cookie);
		separator = ",";
	}
	printf("]");
}

void print_result(const struct scenario *scenario, const char *phase)
{
	struct utsname name;

	uname(&name);
	printf("{\"scenario\":\"%s\",\"phase\":\"%s\",\"kernel\":\"%s\",\"clock_ticks_per_second\":%ld", scenario->name, phase,
	       name.release, sysconf(_SC_CLK_TCK));
	if (world->reason[0])
		printf(",\"reason\":\"%s\"", world->reason);
	if (world->notes[0])
		printf(",\"notes\":\"%s\"", world->notes);
	print_sockets();
	print_processes();
	print_excluded();
	printf("}\n");
	fflush(stdout);
}
