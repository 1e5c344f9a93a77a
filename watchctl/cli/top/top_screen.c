#include "watchctl/cli/top/top_screen.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

/* After wchar.h, and with wide characters. */
#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <term.h>
#undef columns
#undef lines

#include "watchctl/base/utf8.h"

#define ESCAPE_MS 100 /* that an escape sequence may take to arrive, also over ssh */
#define CRASH_STACK 65536
#define LEAVE_TEXT 256

static const int crashes[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };

static struct {
	SCREEN *screen; /* NULL: the terminal is not ours */
	FILE *keys;	/* of our own, where standard input is no terminal */
	int in, out;
	bool utf8, gone;
	attr_t style[TOP_STYLES];
	struct termios before;
	/* What a crash writes: made ready, because nothing can be asked for then. */
	char leave[LEAVE_TEXT];
	size_t leave_len;
	volatile sig_atomic_t stop_asked;
	void *crash_stack;
} own = { .in = -1, .out = -1 };

/* Crashes and Ctrl-Z */

static void on_crash(int sig)
{
	/* Only what signal-safety(7) allows. The action is the default one again (SA_RESETHAND). */
	if (own.screen) {
		ssize_t unused = write(own.out, own.leave, own.leave_len);

		(void)unused;
		tcsetattr(own.out, TCSANOW, &own.before);
	}
	raise(sig);
}

static void on_stop(int sig)
{
	own.stop_asked = sig;
}

/* A handler's own stack: a crash may be that there is none left. */
static void catch_crashes(void)
{
	struct sigaction ours = { .sa_handler = on_crash,
				  .sa_flags = SA_RESETHAND | SA_ONSTACK | SA_NODEFER };
	stack_t stack = { .ss_size = CRASH_STACK };
	size_t i;

	own.crash_stack = malloc(CRASH_STACK);
	stack.ss_sp = own.crash_stack;
	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		ours.sa_flags &= ~SA_ONSTACK;
	for (i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &ours, NULL);
}

static void catch_stop(void)
{
	struct sigaction ours = { .sa_handler = on_stop, .sa_flags = SA_RESTART }, old;

	if (!sigaction(SIGTSTP, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGTSTP, &ours, NULL);
}

static void release_signals(void)
{
	struct sigaction usual = { .sa_handler = SIG_DFL }, old;
	stack_t none = { .ss_flags = SS_DISABLE };
	size_t i;

	for (i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &usual, NULL);
	if (!sigaction(SIGTSTP, NULL, &old) && old.sa_handler == on_stop)
		sigaction(SIGTSTP, &usual, NULL);
	sigaltstack(&none, NULL);
	free(own.crash_stack);
	own.crash_stack = NULL;
}

bool top_screen_stop_if_asked(void)
{
	struct sigaction usual = { .sa_handler = SIG_DFL };

	if (!own.stop_asked || !own.screen)
		return false;
	own.stop_asked = 0;
	def_prog_mode();
	endwin();
	sigaction(SIGTSTP, &usual, NULL);
	kill(getpid(), SIGTSTP); /* here we stand until SIGCONT */
	catch_stop();
	reset_prog_mode();
	clearok(stdscr, TRUE);
	return true;
}

/* Opening */

/* Appends the capability @name without its padding, which only terminals of wire and lamps need. */
static void add_leave(const char *name)
{
	const char *s = tigetstr(name);

	if (!s || s == (const char *)-1)
		return;
	while (*s && own.leave_len + 1 < LEAVE_TEXT) {
		if (!strncmp(s, "$<", 2) && strchr(s, '>'))
			s = strchr(s, '>') + 1;
		else
			own.leave[own.leave_len++] = *s++;
	}
}

static void prepare_leave(void)
{
	own.leave_len = 0;
	add_leave("sgr0");
	add_leave("rmkx");
	add_leave("cnorm");
	add_leave("rmcup");
}

static void prepare_styles(bool colour)
{
	static const attr_t plain[TOP_STYLES] = {
		[TOP_DIM] = A_DIM,
		[TOP_STRONG] = A_BOLD,
		[TOP_BAR] = A_REVERSE,
		[TOP_SELECTED] = A_REVERSE | A_BOLD,
		[TOP_PLACE] = A_NORMAL,
		[TOP_WRITE] = A_BOLD,
		[TOP_ALERT] = A_BOLD | A_REVERSE,
	};
	static const struct {
		enum top_style style;
		short colour;
		attr_t more;
	} colours[] = {
		{ TOP_READ, COLOR_GREEN, 0 }, { TOP_WRITE, COLOR_RED, 0 },  { TOP_UPDATE, COLOR_YELLOW, 0 },
		{ TOP_PLACE, COLOR_CYAN, 0 }, { TOP_GRAPH, COLOR_BLUE, 0 }, { TOP_ALERT, COLOR_RED, A_BOLD },
	};
	size_t i;

	memcpy(own.style, plain, sizeof(plain));
	if (!colour || !has_colors() || start_color() == ERR)
		return;
	use_default_colors();
	for (i = 0; i < sizeof(colours) / sizeof(colours[0]); i++) {
		init_pair((short)(i + 1), colours[i].colour, -1);
		own.style[colours[i].style] = COLOR_PAIR(i + 1) | colours[i].more;
	}
}

static bool open_keys(const char **why)
{
	int fd;

	own.out = STDOUT_FILENO;
	own.keys = NULL;
	own.in = STDIN_FILENO;
	if (isatty(STDIN_FILENO))
		return true;
	fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		own.keys = fdopen(fd, "r+");
	if (!own.keys) {
		if (fd >= 0)
			close(fd);
		*why = "standard input is not a terminal, and there is no other one to read keys from";
		return false;
	}
	own.in = fd;
	return true;
}

static void close_keys(void)
{
	if (own.keys)
		fclose(own.keys);
	own.keys = NULL;
	own.in = -1;
}

static bool check_terminal(const char **why)
{
	const char *term = getenv("TERM");

	*why = NULL;
	if (!isatty(STDOUT_FILENO))
		*why = "standard output is no terminal";
	else if (!term || !*term)
		*why = "TERM is not set";
	else if (!strcmp(term, "dumb"))
		*why = "TERM is \"dumb\"";
	else if (tcgetattr(STDOUT_FILENO, &own.before))
		*why = "the settings of the terminal cannot be read";
	return !*why;
}

/* newterm() would go on with a terminal that cannot move its cursor. */
static bool is_capable(const char **why)
{
	const char *cup;
	int status;

	if (setupterm(NULL, own.out, &status) == ERR) {
		*why = "TERM names an unknown terminal";
		return false;
	}
	cup = tigetstr("cup");
	if (!cup || cup == (const char *)-1)
		*why = "according to TERM, it cannot move its cursor";
	del_curterm(cur_term); /* newterm() makes another one */
	return !*why;
}

bool top_screen_open(bool colour, const char **why)
{
	if (!check_terminal(why) || !open_keys(why))
		return false;
	setlocale(LC_CTYPE, "");
	own.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	if (!is_capable(why)) {
		close_keys();
		return false;
	}
	/* The size is the terminal's, not that of variables that somebody exported once. */
	use_env(FALSE);
	use_tioctl(TRUE);
	set_escdelay(ESCAPE_MS);
	own.gone = false;
	catch_crashes();
	catch_stop();
	own.screen = newterm(NULL, stdout, own.keys ? own.keys : stdin);
	if (!own.screen) {
		release_signals();
		close_keys();
		*why = "the terminal cannot be used";
		return false;
	}
	prepare_leave();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	prepare_styles(colour);
	return true;
}

void top_screen_close(void)
{
	if (!own.screen)
		return;
	if (!own.gone)
		endwin();
	delscreen(own.screen);
	own.screen = NULL;
	/* endwin() restores what it found; this, also when it could not. */
	tcsetattr(own.out, TCSANOW, &own.before);
	release_signals();
	close_keys();
}

int top_screen_fd(void)
{
	return own.in;
}

bool top_screen_is_utf8(void)
{
	return own.utf8;
}

bool top_screen_is_gone(void)
{
	struct pollfd p[2] = { { .fd = own.in }, { .fd = own.out } };

	if (poll(p, 2, 0) > 0 && ((p[0].revents | p[1].revents) & (POLLHUP | POLLERR | POLLNVAL)))
		own.gone = true;
	return own.gone;
}

/* Drawing */

void top_screen_begin(int *rows, int *columns)
{
	struct winsize size;

	if (!ioctl(own.out, TIOCGWINSZ, &size) && size.ws_row && size.ws_col &&
	    (size.ws_row != LINES || size.ws_col != COLS)) {
		resizeterm(size.ws_row, size.ws_col);
		clearok(stdscr, TRUE);
	}
	erase();
	*rows = LINES;
	*columns = COLS;
}

void top_screen_end(void)
{
	refresh();
}

/* The next character of @s as it is shown: its columns; *@bytes it takes of the text. */
static int character(const char *s, wchar_t *ret, size_t *bytes)
{
	size_t n = utf8_len(s);
	wchar_t c = L'?';
	int columns;

	*bytes = n ? n : 1;
	if (n == 1) {
		c = (unsigned char)*s;
	} else if (n && own.utf8) {
		mbstate_t state = { 0 };

		if (mbrtowc(&c, s, n, &state) != n)
			c = L'?';
	}
	columns = c < 0x20 ? -1 : c < 0x7f ? 1 : wcwidth(c);
	if (columns < 0) {
		c = L'?';
		columns = 1;
	}
	*ret = c;
	return columns;
}

int top_screen_columns(const char *text)
{
	int n = 0;
	size_t bytes;
	wchar_t c;

	for (; *text; text += bytes)
		n += character(text, &c, &bytes);
	return n;
}

int top_screen_put(int row, int column, int width, enum top_style style, const char *text)
{
	int used = 0, columns;
	size_t bytes;
	wchar_t c;

	if (row < 0 || row >= LINES || column < 0 || column >= COLS)
		return 0;
	if (width > COLS - column)
		width = COLS - column;
	if (width <= 0)
		return 0;
	attrset(A_NORMAL);
	attron(own.style[style]);
	move(row, column);
	for (; *text; text += bytes) {
		columns = character(text, &c, &bytes);
		if (used + columns > width)
			break;
		addnwstr(&c, 1);
		used += columns;
	}
	attrset(A_NORMAL);
	return used;
}

void top_screen_fill(int row, int column, int width, enum top_style style)
{
	if (row < 0 || row >= LINES || column < 0 || column >= COLS)
		return;
	if (width > COLS - column)
		width = COLS - column;
	attron(own.style[style]);
	while (width-- > 0)
		mvaddch(row, column++, ' ');
	attrset(A_NORMAL);
}

/* Keys */

static int translate(wint_t c)
{
	static const struct {
		wint_t from;
		int to;
	} keys[] = {
		{ KEY_UP, TOP_KEY_UP },		{ KEY_DOWN, TOP_KEY_DOWN },
		{ KEY_PPAGE, TOP_KEY_PAGE_UP }, { KEY_NPAGE, TOP_KEY_PAGE_DOWN },
		{ KEY_HOME, TOP_KEY_HOME },	{ KEY_END, TOP_KEY_END },
		{ KEY_ENTER, TOP_KEY_ENTER },	{ KEY_BACKSPACE, TOP_KEY_BACKSPACE },
		{ KEY_RESIZE, TOP_KEY_RESIZE },
	};
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].from == c)
			return keys[i].to;
	return TOP_KEY_OTHER;
}

static int sequence_key(int number, wint_t final)
{
	static const struct {
		char final;
		int number, key;
	} keys[] = {
		{ 'A', 0, TOP_KEY_UP },	       { 'B', 0, TOP_KEY_DOWN }, { 'H', 0, TOP_KEY_HOME },
		{ 'F', 0, TOP_KEY_END },       { '~', 1, TOP_KEY_HOME }, { '~', 7, TOP_KEY_HOME },
		{ '~', 4, TOP_KEY_END },       { '~', 8, TOP_KEY_END },	 { '~', 5, TOP_KEY_PAGE_UP },
		{ '~', 6, TOP_KEY_PAGE_DOWN },
	};
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if ((wint_t)keys[i].final == final && keys[i].number == number)
			return keys[i].key;
	return TOP_KEY_OTHER;
}

/*
 * Behind an escape: alone, it is the key. With more behind it, it begins a key's sequence that TERM does not
 * report (ECMA-48: parameters, then a final byte): such a key must not be taken for Esc, which ends things.
 */
static int after_escape(void)
{
	int number = 0;
	wint_t c;

	if (get_wch(&c) == ERR)
		return TOP_KEY_ESCAPE;
	if (c != '[' && c != 'O')
		return TOP_KEY_OTHER;
	while (get_wch(&c) == OK && c >= 0x20 && c < 0x40)
		if (c >= '0' && c <= '9' && number < 1000)
			number = number * 10 + (int)(c - '0');
	return sequence_key(number, c);
}

int top_screen_key(void)
{
	wint_t c;
	int got = get_wch(&c);

	if (got == ERR)
		return TOP_KEY_NONE;
	if (got == KEY_CODE_YES)
		return translate(c);
	switch (c) {
	case '\r':
	case '\n':
		return TOP_KEY_ENTER;
	case 27:
		return after_escape();
	case 127:
	case 8:
		return TOP_KEY_BACKSPACE;
	case '\t':
		return TOP_KEY_TAB;
	default:
		return c < 0x20 ? TOP_KEY_OTHER : (int)c;
	}
}
