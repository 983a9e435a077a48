#pragma once
#include <stddef.h>

// What a full-screen process has to do in signal handlers. This is in C because a handler may run between any two
// instructions, on any thread, with any lock held. Every function called here is on the list in signal-safety(7); Swift
// code can't guarantee that.

// Bits of terminal_signals_take().
enum {
	TERMINAL_STOP = 1,	// SIGTERM, SIGINT or SIGHUP: end; terminal_signals_fatal() says which
	TERMINAL_SUSPEND = 2,	// SIGTSTP
	TERMINAL_CONTINUE = 4,	// SIGCONT
	TERMINAL_RESIZE = 8,	// SIGWINCH
};

// Stores the present settings of fd and the bytes that leave the full screen. A crash (SIGSEGV, SIGABRT, SIGILL,
// SIGBUS, SIGFPE, SIGTRAP, SIGQUIT) then restores both before the earlier action of the signal runs.
// Returns 0, or errno of tcgetattr or sigaction.
int terminal_guard_arm(int fd, const char *leave, size_t length);

// A later crash does not change the terminal. This does not restore the settings: the caller must do that.
void terminal_guard_disarm(void);

// From now on SIGTERM, SIGINT, SIGHUP, SIGTSTP, SIGCONT and SIGWINCH set a bit and write one byte to wake_fd, which
// must be non-blocking. Returns 0 or errno of sigaction.
int terminal_signals_install(int wake_fd);

// The bits set since the last call.
int terminal_signals_take(void);

// The last SIGTERM, SIGINT or SIGHUP that came, or 0 if none came.
int terminal_signals_fatal(void);

// Restores the default actions.
void terminal_signals_remove(void);

// Stops the process as SIGTSTP would have, and returns when it is continued.
void terminal_suspend(void);
