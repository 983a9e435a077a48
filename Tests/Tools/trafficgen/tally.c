#include "generator.h"
#include "world.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct identity {
	pid_t pid;
	uint64_t start_ticks;
};

/*
 * Fields 1 and 22 of /proc/PID/stat. The name in field 2 may contain anything, so count from the last parenthesis. The
 * pid belongs to the PID namespace in which /proc was mounted. In a namespace below, getpid() gives another pid.
 */
static struct identity read_identity(void)
{
	char line[1024], *field;
	FILE *file = fopen("/proc/self/stat", "re");
	struct identity identity = {};

	if (!file || !fgets(line, sizeof(line), file))
		fail("read /proc/self/stat");
	fclose(file);
	field = strrchr(line, ')');
	if (!field || sscanf(line, "%d", &identity.pid) != 1)
		fail("no pid and name in /proc/self/stat");
	for (int number = 2; field && number < 22; number++)
		field = strchr(field + 1, ' ');
	if (!field || sscanf(field, "%" SCNu64, &identity.start_ticks) != 1)
		fail("no start time in /proc/self/stat");
	return identity;
}

static struct identity own_identity(void)
{
	static pid_t known;
	static struct identity identity;

	if (known != getpid()) {
		identity = read_identity();
		known = getpid();
	}
	return identity;
}

static bool is_of(const struct tally *tally, struct identity identity)
{
	return tally->pid == identity.pid && tally->start_ticks == identity.start_ticks;
}

/* The process's name, not the thread's: PR_GET_NAME would give the latter. */
static void read_name(struct tally *tally)
{
	FILE *file = fopen("/proc/self/comm", "re");

	if (!file)
		return;
	if (fgets(tally->name, sizeof(tally->name), file))
		tally->name[strcspn(tally->name, "\n")] = 0;
	fclose(file);
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
static uint32_t *slot_of(uint64_t cookie, struct identity identity)
{
	uint64_t hash = (cookie * 0x9e3779b97f4a7c15ULL) ^ ((uint64_t)identity.pid * 0xc2b2ae3d27d4eb4fULL);
	uint32_t position = (uint32_t)(hash >> 40) % TALLY_SLOTS;

	for (;;) {
		uint32_t *slot = &world->slots[position], index = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

		if (!index || (world->tallies[index - 1].cookie == cookie && is_of(&world->tallies[index - 1], identity)))
			return slot;
		position = (position + 1) % TALLY_SLOTS;
	}
}

static struct tally *tally_for(uint64_t cookie)
{
	struct identity identity = own_identity();
	uint32_t *slot = slot_of(cookie, identity);
	struct tally *tally;

	if (__atomic_load_n(slot, __ATOMIC_ACQUIRE))
		return &world->tallies[*slot - 1];
	lock();
	slot = slot_of(cookie, identity);
	if (!*slot) {
		if (world->tally_count == TALLY_LIMIT)
			fail("more than %d sockets", TALLY_LIMIT);
		tally = &world->tallies[world->tally_count++];
		tally->cookie = cookie;
		tally->pid = identity.pid;
		tally->start_ticks = identity.start_ticks;
		tally->network_namespace = own_namespace();
		read_name(tally);
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
	if (tally->family == AF_PACKET)
		return tally; /* its addresses are no ports */
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

struct tally *account(int fd)
{
	return tally_of(fd);
}

void sent_in_all(struct tally *tally, uint64_t bytes)
{
	__atomic_store_n(&tally->sent, bytes, __ATOMIC_RELAXED);
}

void take_new_name(void)
{
	for (uint32_t i = 0; i < world->tally_count; i++) {
		if (is_of(&world->tallies[i], own_identity()))
			read_name(&world->tallies[i]);
	}
}

void watch(int fd, const char *role)
{
	tally_of(fd)->role = role[0];
}

void connected_in(int fd, uint64_t nanoseconds)
{
	tally_of(fd)->connect_ns = nanoseconds;
}

void mark_closed(int fd)
{
	tally_of(fd)->closed = true;
}

void exclude(int fd)
{
	tally_of(fd)->excluded = true;
}

void explained(int fd, uint64_t bytes)
{
	__atomic_fetch_add(&tally_of(fd)->explained, bytes, __ATOMIC_RELAXED);
}

void expect_verdict(enum verdict verdict, unsigned int records)
{
	__atomic_fetch_add(&world->verdicts[verdict], records, __ATOMIC_RELAXED);
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
