#pragma once
#define _XOPEN_SOURCE_EXTENDED 1
#include <curses.h>
#include <stdbool.h>
#include <string.h>
#include <wchar.h>

// The parts of ncurses that Swift can't call: macros with expressions, and globals, which Swift 6 treats as data races.
// All of this belongs to the one thread that owns the screen.

// Declarations from term.h, whose several hundred macros must not be included.
extern char *tigetstr(const char *name);
extern int setupterm(const char *term, int fd, int *error);
extern int tigetnum(const char *name);
extern char *tiparm(const char *format, ...);

// wchar.h declares this only if the X/Open functions were requested before the first header.
extern int wcwidth(wchar_t character);

static inline SCREEN *screen_open(void) { return newterm(NULL, stdout, stdin); }
static inline WINDOW *screen_window(void) { return stdscr; }
static inline int screen_colors(void) { return COLORS; }
static inline int screen_color_pairs(void) { return COLOR_PAIRS; }

static inline unsigned int screen_bold(void) { return A_BOLD; }
static inline unsigned int screen_dim(void) { return A_DIM; }
static inline unsigned int screen_reverse(void) { return A_REVERSE; }
static inline unsigned int screen_underline(void) { return A_UNDERLINE; }

static inline void screen_set_style(unsigned int attributes, short pair)
{
	(void)wattr_set(stdscr, attributes, pair, NULL);
}

// A key code of our own for the beginning of a mouse report. KEY_MAX is the largest code that ncurses uses.
static inline int screen_mouse_report_key(void) { return KEY_MAX + 1; }

// Makes wget_wch() return screen_mouse_report_key() for the beginning of a mouse report in xterm's SGR protocol, and
// leaves the rest of the report to its caller. mousemask() is not used: see MouseReport in TrafficView.
//
// Returns whether the terminal has a mouse, as far as its description says.
static inline bool screen_await_mouse(void)
{
	const char *mouse = tigetstr("kmous");
	return mouse != NULL && mouse != (char *)-1 && define_key("\033[<", screen_mouse_report_key()) == OK;
}

// xterm's private modes 1000 (report presses) and 1006 (in the SGR protocol). Terminals that don't know a mode ignore it.
#define SCREEN_MOUSE_ON "\033[?1000h\033[?1006h"
#define SCREEN_MOUSE_OFF "\033[?1006l\033[?1000l"

// Appends the capability without its padding ("$<5>"), which only hardware terminals need.
static inline size_t screen_append_capability(const char *name, char *buffer, size_t length, size_t size)
{
	const char *text = tigetstr(name);
	if (text == NULL || text == (char *)-1)
		return length;
	while (*text != 0 && length < size) {
		const char *end = strncmp(text, "$<", 2) == 0 ? strchr(text, '>') : NULL;
		if (end != NULL) {
			text = end + 1;
			continue;
		}
		buffer[length++] = *text++;
	}
	return length;
}

// The sequence that leads from the full screen back to the shell's screen: mouse off, colours and attributes off, keypad
// off, cursor on, other screen. Returns the length.
static inline size_t screen_leave_sequence(char *buffer, size_t size)
{
	static const char *const names[] = {"sgr0", "op", "rmkx", "cnorm", "rmcup"};
	const char *mouse = tigetstr("kmous");
	size_t length = 0;
	if (mouse != NULL && mouse != (char *)-1 && size >= sizeof(SCREEN_MOUSE_OFF) - 1) {
		length = sizeof(SCREEN_MOUSE_OFF) - 1;
		memcpy(buffer, SCREEN_MOUSE_OFF, length);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		length = screen_append_capability(names[i], buffer, length, size);
	return length;
}

// Appends the control sequence that selects colour number `color` for letters, or nothing if the terminal has no such
// sequence.
static inline size_t screen_append_color(int color, char *buffer, size_t length, size_t size)
{
	const char *format = tigetstr("setaf");
	if (format == NULL || format == (char *)-1)
		return length;
	const char *text = tiparm(format, color);
	while (text != NULL && *text != 0 && length < size)
		buffer[length++] = *text++;
	return length;
}
