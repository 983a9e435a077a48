#include "CTerminal.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static const int crash_signals[] = {SIGSEGV, SIGABRT, SIGILL, SIGBUS, SIGFPE, SIGTRAP, SIGQUIT};
static const int life_signals[] = {SIGTERM, SIGINT, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH};

#define count_of(array) (sizeof(array) / sizeof((array)[0]))

static struct {
	atomic_int armed;
	int fd;
	struct termios settings;
	char leave[256];
	size_t length;
	struct sigaction before[count_of(crash_signals)];
	// A handler can't run on a stack that overflowed, so the handlers have this stack.
	char stack[16384];
} guard;

static struct {
	atomic_int pending;
	atomic_int fatal;
	atomic_int wake_fd;
} life = {.wake_fd = -1};

static void restore_terminal(void)
{
	if (!atomic_exchange(&guard.armed, 0))
		return;
	// SIGTTOU stops a background process that changes the terminal. This process is about to end, so it must ignore
	// SIGTTOU.
	signal(SIGTTOU, SIG_IGN);
	size_t written = 0;
	while (written < guard.length) {
		ssize_t n = write(guard.fd, guard.leave + written, guard.length - written);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		written += (size_t)n;
	}
	tcsetattr(guard.fd, TCSANOW, &guard.settings);
}

static void on_crash(int number)
{
	restore_terminal();
	for (size_t i = 0; i < count_of(crash_signals); i++) {
		if (crash_signals[i] == number)
			sigaction(number, &guard.before[i], NULL);
	}
	// The signal is blocked while this handler runs. On return the signal comes again, and goes to the earlier
	// handler.
	raise(number);
}

int terminal_guard_arm(int fd, const char *leave, size_t length)
{
	if (tcgetattr(fd, &guard.settings) != 0)
		return errno;
	guard.fd = fd;
	guard.length = length < sizeof(guard.leave) ? length : sizeof(guard.leave);
	memcpy(guard.leave, leave, guard.length);

	stack_t stack = {.ss_sp = guard.stack, .ss_size = sizeof(guard.stack)};
	sigaltstack(&stack, NULL);
	struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < count_of(crash_signals); i++) {
		if (sigaction(crash_signals[i], &action, &guard.before[i]) != 0)
			return errno;
	}
	atomic_store(&guard.armed, 1);
	return 0;
}

void terminal_guard_disarm(void)
{
	if (!atomic_exchange(&guard.armed, 0))
		return;
	for (size_t i = 0; i < count_of(crash_signals); i++)
		sigaction(crash_signals[i], &guard.before[i], NULL);
}

static void on_life_signal(int number)
{
	int saved = errno;
	int bit = TERMINAL_STOP;
	if (number == SIGTSTP)
		bit = TERMINAL_SUSPEND;
	else if (number == SIGCONT)
		bit = TERMINAL_CONTINUE;
	else if (number == SIGWINCH)
		bit = TERMINAL_RESIZE;
	else
		atomic_store(&life.fatal, number);
	atomic_fetch_or(&life.pending, bit);
	// If the pipe is full, a byte is in the pipe already, and one byte is enough.
	ssize_t ignored = write(atomic_load(&life.wake_fd), "", 1);
	(void)ignored;
	errno = saved;
}

int terminal_signals_install(int wake_fd)
{
	atomic_store(&life.wake_fd, wake_fd);
	struct sigaction action = {.sa_handler = on_life_signal, .sa_flags = SA_RESTART};
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < count_of(life_signals); i++) {
		struct sigaction before;
		if (sigaction(life_signals[i], NULL, &before) != 0)
			return errno;
		// If nohup(1) or a shell without job control ignores a signal, the signal must stay ignored.
		if (before.sa_handler == SIG_IGN)
			continue;
		if (sigaction(life_signals[i], &action, NULL) != 0)
			return errno;
	}
	return 0;
}

int terminal_signals_take(void)
{
	return atomic_exchange(&life.pending, 0);
}

int terminal_signals_fatal(void)
{
	return atomic_load(&life.fatal);
}

void terminal_signals_remove(void)
{
	for (size_t i = 0; i < count_of(life_signals); i++)
		signal(life_signals[i], SIG_DFL);
	atomic_store(&life.wake_fd, -1);
}

void terminal_suspend(void)
{
	struct sigaction before;
	sigaction(SIGTSTP, NULL, &before);
	signal(SIGTSTP, SIG_DFL);
	raise(SIGTSTP);
	sigaction(SIGTSTP, &before, NULL);
}
