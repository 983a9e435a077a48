#define _GNU_SOURCE
#include "CNamespaceWalk.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The descriptors of the process. */
enum { REQUEST = 3, ANSWER = 4, HOME = 5, FIRST_LINK = 6, MOST_LINKS = 8 };

/* Namespaces that were read in this walk, by inode number. */
static uint64_t *seen;
static size_t seen_count, seen_room;

static bool was_seen(uint64_t inode)
{
	for (size_t i = 0; i < seen_count; i++)
		if (seen[i] == inode)
			return true;
	return false;
}

static void note_seen(uint64_t inode)
{
	if (seen_count == seen_room) {
		size_t room = seen_room ? 2 * seen_room : 64;
		uint64_t *larger = realloc(seen, room * sizeof(*seen));

		if (!larger)
			return; /* the namespace is read once more */
		seen = larger;
		seen_room = room;
	}
	seen[seen_count++] = inode;
}

/* Waits while the daemon does not read. Ends with the daemon. */
static void write_all(const void *data, size_t length)
{
	const char *next = data;

	while (length) {
		ssize_t written = write(ANSWER, next, length);

		if (written < 0 && errno != EINTR)
			_exit(0);
		if (written > 0) {
			next += written;
			length -= written;
		}
	}
}

static void tell(enum walk_news news, uint32_t list, uint64_t value, const void *output, uint32_t length)
{
	struct walk_header header = { .news = news, .list = list, .value = value, .length = length };

	write_all(&header, sizeof(header));
	write_all(output, length);
}

/* Runs a program over its list in the present namespace. Returns 0 or an errno. */
static int read_list(uint32_t list)
{
	union bpf_attr attr = { .iter_create.link_fd = FIRST_LINK + list };
	static char buffer[64 << 10];
	int descriptor = syscall(SYS_bpf, BPF_ITER_CREATE, &attr, sizeof(attr)), error = 0;
	ssize_t length;

	if (descriptor < 0)
		return errno;
	/* EAGAIN is not the end: see readAll() of OwnedDescriptor. */
	while ((length = read(descriptor, buffer, sizeof(buffer))) != 0) {
		if (length > 0) {
			tell(WALK_OUTPUT, list, 0, buffer, length);
		} else if (errno != EAGAIN && errno != EINTR) {
			error = errno;
			break;
		}
	}
	close(descriptor);
	return error;
}

static void read_lists(uint32_t lists, uint64_t inode)
{
	bool failed = false;

	for (uint32_t list = 0; list < MOST_LINKS; list++) {
		int error = lists & 1U << list ? read_list(list) : 0;

		if (error) {
			tell(WALK_FAILED, list, error, NULL, 0);
			failed = true;
		}
	}
	if (!failed)
		tell(WALK_NAMESPACE, 0, inode, NULL, 0);
}

/* The inode number in `net:[4026531840]`; 0 for any other text. */
static uint64_t inode_in(const char *text)
{
	return strncmp(text, "net:[", 5) ? 0 : strtoull(text + 5, NULL, 10);
}

/* Why a namespace could not be looked at in this walk; 0: there was none. Namespaces come and go meanwhile. */
static int refusal;

static void note_refusal(void)
{
	if (errno != ENOENT && errno != ESRCH)
		refusal = errno;
}

static uint64_t inode_of(const char *path)
{
	char target[64];
	ssize_t length = readlink(path, target, sizeof(target) - 1);

	if (length < 0) {
		note_refusal();
		return 0;
	}
	target[length] = 0;
	return inode_in(target);
}

/* A namespace counts as seen only after it was entered: the next process may still be there if this one has ended. */
static void visit(const char *path, uint64_t inode, uint32_t lists)
{
	int descriptor;

	if (!inode || was_seen(inode))
		return;
	descriptor = open(path, O_RDONLY | O_CLOEXEC);
	if (descriptor < 0) {
		note_refusal();
		return;
	}
	if (setns(descriptor, CLONE_NEWNET) == 0) {
		note_seen(inode);
		read_lists(lists, inode);
		if (setns(HOME, CLONE_NEWNET))
			_exit(1); /* the daemon sees the end of its pipe */
	} else {
		note_refusal();
	}
	close(descriptor);
}

static void visit_those_of_processes(uint32_t lists)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	char path[64];

	if (!directory) {
		tell(WALK_FAILED, UINT32_MAX, errno, NULL, 0);
		return;
	}
	while ((entry = readdir(directory))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/ns/net", entry->d_name);
		visit(path, inode_of(path), lists);
	}
	closedir(directory);
}

/* proc_pid_mountinfo(5): 61 25 0:4 net:[4026532177] /run/netns/lab rw shared:30 - nsfs nsfs rw */
static void visit_mounted(uint32_t lists)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, root[64], path[4096];
	size_t room = 0;

	while (file && getline(&line, &room, file) > 0)
		if (sscanf(line, "%*s %*s %*s %63s %4095s", root, path) == 2)
			visit(path, inode_in(root), lists);
	free(line);
	if (file)
		fclose(file);
}

static uint64_t processor_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void serve(void)
{
	struct walk_request request;
	uint64_t home = inode_of("/proc/self/ns/net");

	while (read(REQUEST, &request, sizeof(request)) == sizeof(request)) {
		uint64_t begin = processor_time();

		seen_count = refusal = 0;
		note_seen(home);
		read_lists(request.lists, home);
		if (request.scope == WALK_ALL) {
			visit_those_of_processes(request.lists);
			visit_mounted(request.lists);
			if (refusal)
				tell(WALK_FAILED, UINT32_MAX, refusal, NULL, 0);
		}
		tell(WALK_END, 0, processor_time() - begin, NULL, 0);
	}
	_exit(0);
}

/* Signals for the daemon's group are for the daemon: this process ends with it. */
static void leave_signals_alone(void)
{
	sigset_t none;

	for (int signal = 1; signal < NSIG; signal++)
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	for (const int *signal = (const int[]){ SIGHUP, SIGINT, SIGTERM, SIGPIPE, 0 }; *signal; signal++)
		sigaction(*signal, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Keeps copies of these descriptors, as 3, 4 and so on, and no other descriptor. */
static void keep_only(const int *descriptors, unsigned count)
{
	int copies[FIRST_LINK + MOST_LINKS];

	for (unsigned i = 0; i < count; i++)
		if ((copies[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, REQUEST + FIRST_LINK + MOST_LINKS)) < 0)
			_exit(1);
	for (unsigned i = 0; i < count; i++)
		if (dup2(copies[i], REQUEST + i) < 0)
			_exit(1);
	if (syscall(SYS_close_range, REQUEST + count, ~0U, 0))
		for (long i = REQUEST + count; i < sysconf(_SC_OPEN_MAX); i++)
			close(i);
}

/*
 * The daemon gives up more rights later, and a process that was started keeps what it has. If a filter of system calls
 * refuses this, the process goes on with the rights of the start, as the daemon does.
 */
static void keep_only_rights(uint64_t rights)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_capget, &header, data))
		return;
	for (int half = 0; half < 2; half++) {
		data[half].permitted &= rights >> 32 * half;
		data[half].effective &= data[half].permitted;
		data[half].inheritable = 0;
	}
	syscall(SYS_capset, &header, data);
}

int walk_start(const int *links, unsigned count, uint64_t rights, int *request, int *answer)
{
	int requests[2] = { -1, -1 }, answers[2] = { -1, -1 }, home = -1, kept[3 + MOST_LINKS], error;
	pid_t process = -1;

	if (count > MOST_LINKS) {
		errno = EINVAL;
		return -1;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, requests) || pipe2(answers, O_CLOEXEC) ||
	    (home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) < 0)
		goto end;
	fcntl(answers[1], F_SETPIPE_SZ, 1 << 20); /* more than 64 KiB if the limit for pipes allows */
	if (fcntl(answers[0], F_SETFL, O_NONBLOCK))
		goto end;
	process = fork();
	if (process == 0) {
		leave_signals_alone();
		prctl(PR_SET_NAME, "trafficd-walk");
		kept[0] = requests[0];
		kept[1] = answers[1];
		kept[2] = home;
		memcpy(kept + 3, links, count * sizeof(*links));
		keep_only(kept, 3 + count);
		keep_only_rights(rights);
		serve();
	}
end:
	error = errno;
	close(requests[0]);
	close(answers[1]);
	close(home);
	if (process < 0) {
		close(requests[1]);
		close(answers[0]);
		errno = error;
		return -1;
	}
	*request = requests[1];
	*answer = answers[0];
	return process;
}

long walk_ask(int request, const struct walk_request *what)
{
	return send(request, what, sizeof(*what), MSG_NOSIGNAL);
}
