#pragma once
#include <stddef.h>

// What a full-screen program has to do in signal handlers. In C, because a handler may run between any two
// instructions, on any thread, with any lock held: everything called here is on the list in signal-safety(7), which Swift
// code can't promise.

// Bits of terminal_signals_take().
enum {
	TERMINAL_STOP = 1,	// SIGTERM, SIGINT or SIGHUP: end; terminal_signals_fatal() says which
	TERMINAL_SUSPEND = 2,	// SIGTSTP
	TERMINAL_CONTINUE = 4,	// SIGCONT
	TERMINAL_RESIZE = 8,	// SIGWINCH
};

// Keeps the settings that fd has now and the bytes that lead out of the full screen, and sees to it that a crash
// (SIGSEGV, SIGABRT, SIGILL, SIGBUS, SIGFPE, SIGTRAP, SIGQUIT) puts both back before it takes its course.
// Returns 0, or errno of tcgetattr or sigaction.
int terminal_guard_arm(int fd, const char *leave, size_t length);

// A later crash leaves the terminal alone. The settings are not put back: that is the caller's business.
void terminal_guard_disarm(void);

// From now on SIGTERM, SIGINT, SIGHUP, SIGTSTP, SIGCONT and SIGWINCH set a bit and write one byte to wake_fd, which must not
// block. Returns 0 or errno of sigaction.
int terminal_signals_install(int wake_fd);

// The bits set since the last call.
int terminal_signals_take(void);

// The last of SIGTERM, SIGINT, SIGHUP that came; 0 before.
int terminal_signals_fatal(void);

// Back to the default actions.
void terminal_signals_remove(void);

// Stops the process as SIGTSTP would have, and returns when it is continued.
void terminal_suspend(void);
