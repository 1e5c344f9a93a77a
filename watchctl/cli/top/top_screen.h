/*
 * top_screen - the terminal that `watchctl top` draws on, and how it is left as it was found: at the end, by
 * a signal, while we are stopped (Ctrl-Z), and when we crash. The one place that knows ncurses.
 *
 * There is one terminal, so there is one screen: it is the module's own.
 */
#ifndef WATCHCTL_CLI_TOP_TOP_SCREEN_H
#define WATCHCTL_CLI_TOP_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

enum top_style {
	TOP_PLAIN,
	TOP_DIM,
	TOP_STRONG,
	TOP_BAR,      /* the lines that frame the screen */
	TOP_SELECTED, /* the row that the cursor is on */
	TOP_READ,
	TOP_WRITE,
	TOP_UPDATE,
	TOP_PLACE,
	TOP_GRAPH,
	TOP_ALERT,
	TOP_STYLES
};

/* Keys that are no characters. */
enum top_key {
	TOP_KEY_NONE = -1, /* none waits */
	TOP_KEY_UP = 0x110000,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_BACKSPACE,
	TOP_KEY_TAB,
	TOP_KEY_RESIZE,
	TOP_KEY_OTHER,
};

/*
 * Takes the terminal. False: it cannot be drawn on, and *@why is a phrase that says why not ("TERM is not
 * set"); nothing was changed then.
 */
bool top_screen_open(bool colour, const char **why);

/* Gives the terminal back. To be called again does no harm. */
void top_screen_close(void);

/* Where keys come from, for poll(). */
int top_screen_fd(void);

/* The terminal has gone: there is nobody left to draw for. */
bool top_screen_is_gone(void);

/* Characters that are not in ASCII can be shown. */
bool top_screen_is_utf8(void);

/*
 * Does what SIGTSTP is for, with the terminal given back while we are stopped. True: we were, and go on: all
 * is to be drawn again.
 */
bool top_screen_stop_if_asked(void);

/* One picture: begin, put ..., end. Begin shows how large it is, now. */
void top_screen_begin(int *rows, int *columns);
void top_screen_end(void);

/*
 * Writes the clean text @text in @style at @row, @column, cut where @width columns are full. Returns how many
 * it took. Nothing outside of the screen is written.
 */
int top_screen_put(int row, int column, int width, enum top_style style, const char *text);

/* Blanks in @style. */
void top_screen_fill(int row, int column, int width, enum top_style style);

/* Columns that the clean text takes. */
int top_screen_columns(const char *text);

/* The next key: a character (Unicode), or enum top_key. Does not wait. */
int top_screen_key(void);

#endif
