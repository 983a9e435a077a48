#define _GNU_SOURCE
#include "privileges.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Dispatch and NIO do not block this signal on their threads. libpsx uses the same signal for the same purpose. */
enum { SIGNAL = SIGSYS, MOST_THREADS = 4096 };

static atomic_uint_least64_t kept;
static atomic_int answers, failure;

static int keep_here(uint64_t keep)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capget, &header, data))
		return -1;
	for (int half = 0; half < 2; half++) {
		uint32_t bits = keep >> 32 * half;

		data[half].permitted &= bits;
		data[half].effective &= bits;
		data[half].inheritable = 0; /* this clears the ambient capabilities too */
	}
	return (int)syscall(SYS_capset, &header, data);
}

static void answer(int signal)
{
	int before = errno;

	(void)signal;
	if (keep_here(atomic_load(&kept)))
		atomic_store(&failure, errno);
	atomic_fetch_add(&answers, 1);
	errno = before;
}

/* Asks one thread and waits for its answer. */
static int ask(pid_t thread)
{
	int before = atomic_load(&answers);

	if (syscall(SYS_tgkill, getpid(), thread, SIGNAL))
		return errno == ESRCH ? 0 : -1; /* the thread has ended */
	for (int wait = 0; wait < 1000; wait++) {
		if (atomic_load(&answers) != before)
			return 0;
		if (syscall(SYS_tgkill, getpid(), thread, 0) && errno == ESRCH)
			return 0;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	errno = ETIMEDOUT;
	return -1;
}

static bool holds(const pid_t *threads, int count, pid_t thread)
{
	for (int i = 0; i < count; i++)
		if (threads[i] == thread)
			return true;
	return false;
}

/*
 * Asks all threads that have not been asked yet. Returns the number of such threads, or -1 with `errno`. A thread
 * inherits the rights of the thread that creates it. So if no unasked thread is left, no thread with the old rights can
 * appear.
 */
static int ask_new(pid_t *asked, int *count)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int found = 0;

	if (!tasks)
		return -1;
	while (found >= 0 && (entry = readdir(tasks))) {
		pid_t thread = atoi(entry->d_name);

		if (thread <= 0 || holds(asked, *count, thread))
			continue;
		if (*count == MOST_THREADS) {
			errno = EAGAIN;
			found = -1;
		} else if (thread == gettid() ? keep_here(atomic_load(&kept)) : ask(thread)) {
			found = -1;
		} else {
			asked[(*count)++] = thread;
			found++;
		}
	}
	closedir(tasks);
	return found;
}

int privileges_keep(uint64_t keep)
{
	/* It stays installed: a thread that answers late must not find the default, which ends the process. */
	struct sigaction action = { .sa_handler = answer, .sa_flags = SA_RESTART };
	static pid_t asked[MOST_THREADS];
	int count = 0, found;

	atomic_store(&kept, keep);
	atomic_store(&failure, 0);
	if (sigaction(SIGNAL, &action, NULL))
		return -1;
	do
		found = ask_new(asked, &count);
	while (found > 0);
	if (!found && atomic_load(&failure)) {
		errno = atomic_load(&failure);
		return -1;
	}
	return found;
}
