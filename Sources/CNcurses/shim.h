#pragma once
#define _XOPEN_SOURCE_EXTENDED 1
#include <curses.h>
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

// Asks the terminal for its mouse. Where ncurses or the terminal has no mouse, this does nothing.
//
// The mask has all that a terminal may report: after an event outside the mask, wget_wch() waits for the next event, also
// with nodelay().
static inline void screen_take_mouse(void)
{
	mmask_t pressed_or_released = NCURSES_BUTTON_PRESSED | NCURSES_BUTTON_RELEASED;
	mmask_t mask = 0;
	for (int button = 1; button <= 5; button++)
		mask |= NCURSES_MOUSE_MASK(button, pressed_or_released);
	mouseinterval(0); // a press counts at once, and need not become a click first
	mousemask(mask, NULL);
}

enum screen_mouse_event { SCREEN_MOUSE_OTHER, SCREEN_MOUSE_PRESS, SCREEN_MOUSE_WHEEL_UP, SCREEN_MOUSE_WHEEL_DOWN };

// Call this after the key KEY_MOUSE.
static inline enum screen_mouse_event screen_next_mouse_event(int *row, int *column)
{
	MEVENT event;
	if (getmouse(&event) != OK)
		return SCREEN_MOUSE_OTHER;
	*row = event.y;
	*column = event.x;
	if (event.bstate & BUTTON1_PRESSED)
		return SCREEN_MOUSE_PRESS;
	if (event.bstate & BUTTON4_PRESSED)
		return SCREEN_MOUSE_WHEEL_UP;
	return event.bstate & BUTTON5_PRESSED ? SCREEN_MOUSE_WHEEL_DOWN : SCREEN_MOUSE_OTHER;
}

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
	// xterm's private modes 1000 (mouse) and 1006 (its encoding). Terminals that don't know a mode ignore it.
	static const char mouse_off[] = "\033[?1006l\033[?1000l";
	size_t length = 0;
	if (tigetstr("kmous") != NULL && tigetstr("kmous") != (char *)-1 && size >= sizeof(mouse_off) - 1) {
		memcpy(buffer, mouse_off, sizeof(mouse_off) - 1);
		length = sizeof(mouse_off) - 1;
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
