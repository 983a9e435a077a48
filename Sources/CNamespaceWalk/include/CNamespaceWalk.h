#pragma once
#include <stdint.h>

/*
 * A process that reads the kernel's lists of sockets in one network namespace after the other.
 *
 * It is a process of its own, and not a thread, because the kernel locks each socket of a list (bpf_iter_tcp_seq_show(),
 * bpf_iter_udp_seq_show()), and any user can make a call that keeps the lock of a socket for as long as they like: the
 * call reads memory from a file system in user space. The kernel can't end a process that waits for such a lock. The
 * daemon can go on and end without this one. So this process has nothing but the iterators, a socket and a pipe.
 */

enum walk_scope {
	WALK_HOME = 1, /* only the namespace in which the process was started */
	WALK_ALL = 2, /* all namespaces that a process lives in or that are mounted */
};

/* What the daemon writes to the process. */
struct walk_request {
	uint32_t lists; /* bit n: the n-th list */
	uint32_t scope; /* enum walk_scope */
};

enum walk_news {
	WALK_OUTPUT = 1, /* `length` bytes of a program's output follow */
	WALK_NAMESPACE = 2, /* `value`: inode number; all lists of it were read */
	WALK_FAILED = 3, /* `list` could not be read (UINT32_MAX: some namespace could not be entered); `value`: errno */
	WALK_END = 4, /* `value`: nanoseconds of a processor that the walk took */
};

/* What the process writes to the daemon. */
struct walk_header {
	uint32_t news; /* enum walk_news */
	uint32_t list;
	uint64_t value;
	uint32_t length;
	uint32_t pad;
};

/*
 * Starts the process. It ends when the other end of `request` is closed.
 *
 * links: descriptors of the iterators' links; the process has copies of them
 * rights: the process keeps only these of the caller's capabilities (capabilities(7)), one bit for each
 * request, answer: become the daemon's ends of a socket and a pipe; `answer` does not block
 * Returns the process's number, or -1 and errno.
 */
int walk_start(const int *links, unsigned count, uint64_t rights, int *request, int *answer);

/* Begins a walk. Returns a negative number and errno if the process has ended. */
long walk_ask(int request, const struct walk_request *what);
