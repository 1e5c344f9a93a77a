/*
 * The terminal: readline, fed a character at a time (its callback interface), so that events can be printed
 * while a line is being typed. They appear above the prompt: the line is taken off the screen, they are
 * printed, and it is drawn again. Whatever ends this process, readline's settings of the terminal are undone
 * first where that can be.
 */
#include "watchctl/cli/repl/repl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/repl/repl_feed.h"

#define HISTORY_LINES 1000
#define LOOK_MS 100 /* how often the log is looked at */

/* readline's callbacks are given nothing of ours. */
static struct {
	struct repl *repl;
	char *history; /* the file; NULL: there can be none */
	bool prompt;   /* it is on the screen */
	volatile sig_atomic_t resized, stopped;
} terminal;

/* History */

static bool make_folders(char *path)
{
	for (char *c = path + 1; *c; c++) {
		if (*c != '/')
			continue;
		*c = '\0';
		if (mkdir(path, 0700) && errno != EEXIST) {
			*c = '/';
			return false;
		}
		*c = '/';
	}
	return true;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Where it is to be, with its folder made, but no home for its user; NULL: nowhere. */
static char *history_path(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int n = -1;

	if (state && *state == '/')
		n = asprintf(&path, "%s/watchctl/history", state);
	else if (home && *home == '/' && is_folder(home))
		n = asprintf(&path, "%s/.local/state/watchctl/history", home);
	if (n < 0)
		return NULL;
	/* Made for its owner alone: expressions may contain secrets. */
	scoped(closep) int fd =
		make_folders(path)
			? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)
			: -1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || fchmod(fd, 0600)) {
		free(path);
		return NULL;
	}
	return path;
}

static void begin_history(void)
{
	using_history();
	terminal.history = history_path();
	if (!terminal.history)
		return;
	read_history(terminal.history);
	if (history_length > HISTORY_LINES) {
		stifle_history(HISTORY_LINES);
		write_history(terminal.history);
	}
	stifle_history(HISTORY_LINES);
}

static void remember(const char *line)
{
	const HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;

	if (!*line || *line == ' ' || (last && !strcmp(last->line, line)))
		return;
	add_history(line);
	/* At once: a session that is killed keeps its lines. */
	if (terminal.history)
		append_history(1, terminal.history);
}

/* Completion */

static char **matches_left;

static char *next_match(const char *text, int state)
{
	(void)text;
	(void)state;
	return *matches_left ? *matches_left++ : NULL;
}

static char **complete(const char *text, int start, int end)
{
	bool files, unfinished;
	char **v = repl_complete(terminal.repl, rl_line_buffer, (size_t)start, text, &files, &unfinished),
	     **out;

	rl_attempted_completion_over = !files;
	if (!v)
		return NULL;
	if (unfinished)
		rl_completion_append_character = '\0'; /* members may follow */
	matches_left = v;
	out = rl_completion_matches(text, next_match); /* takes the texts */
	free(v);
	return out;
}

/* The screen */

static void hide_line(void)
{
	if (!terminal.prompt)
		return;
	rl_clear_visible_line();
	fflush(rl_outstream);
}

static void draw_line(void)
{
	if (!terminal.prompt)
		return;
	rl_on_new_line();
	rl_redisplay();
}

/* Prints what has arrived. True: there is more. */
static bool repl_look(struct repl *r)
{
	scoped(freep) char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	bool more;

	if (!f)
		return false;
	more = repl_poll(r, f);
	fclose(f);
	if (!len)
		return more;
	hide_line();
	fwrite(text, 1, len, stdout);
	fflush(stdout);
	draw_line();
	return more;
}

static void repl_report(struct repl *r, struct wc_error *err)
{
	fflush(stdout);
	if (err)
		fprintf(stderr, "%s%s%s\n", r->colour ? "\033[31m" : "", err->text,
			r->colour ? "\033[0m" : "");
	wc_error_free(err);
}

static void on_line(char *line)
{
	struct repl *r = terminal.repl;
	struct wc_error *err;

	terminal.prompt = false;
	if (!line) {
		puts("quit");
		r->quit = true;
	} else if (!line[strspn(line, " \t")]) {
		err = repl_run_empty(r);
		repl_report(r, err);
	} else {
		remember(line);
		err = repl_run_line(r, line);
		repl_report(r, err);
	}
	free(line);
	if (*r->interrupted)
		puts(""); /* behind the terminal's ^C */
	*r->interrupted = 0;
	if (r->quit)
		rl_callback_handler_remove();
	else
		terminal.prompt = true;
	fflush(stdout);
}

/* Signals */

static void on_resize(int sig)
{
	(void)sig;
	terminal.resized = 1;
}

static void on_stop(int sig)
{
	(void)sig;
	terminal.stopped = 1;
}

static void clear_line(struct repl *r)
{
	*r->interrupted = 0;
	rl_callback_sigcleanup();
	rl_free_line_state();
	fputs("^C\n", stdout);
	fflush(stdout);
	rl_replace_line("", 0);
	rl_on_new_line();
	rl_redisplay();
}

/* Ctrl-Z: as a shell's user expects, and with the terminal as it was. */
static void stop_for_a_while(void)
{
	terminal.stopped = 0;
	hide_line();
	rl_deprep_terminal();
	kill(getpid(), SIGSTOP);
	rl_prep_terminal(1);
	rl_resize_terminal();
	rl_forced_update_display();
}

static void handle_signals(struct repl *r)
{
	if (*r->interrupted)
		clear_line(r);
	if (terminal.stopped)
		stop_for_a_while();
	if (terminal.resized) {
		terminal.resized = 0;
		rl_resize_terminal();
	}
}

static void repl_step(struct repl *r, bool more)
{
	struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
			       { .fd = repl_is_live(r) ? live_fd(r->live) : -1, .events = POLLIN } };
	int n = poll(p, 2, more ? 0 : LOOK_MS);

	if (n > 0 && p[0].revents & POLLIN)
		rl_callback_read_char();
	else if (n > 0 && p[0].revents & (POLLHUP | POLLERR | POLLNVAL))
		*r->ended = SIGHUP;
}

struct wc_error *repl_terminal(struct repl *r)
{
	struct sigaction resize = { .sa_handler = on_resize }, stop = { .sa_handler = on_stop };
	bool more = false;

	terminal.repl = r;
	begin_history();
	rl_readline_name = "watchctl";
	rl_catch_signals = 0;
	rl_catch_sigwinch = 0;
	rl_change_environment = 0;
	rl_attempted_completion_function = complete;
	rl_basic_word_break_characters = " \t\n\"'";
	rl_completer_quote_characters = "\"'";
	rl_filename_quote_characters = " \t\n\"'\\<>#"; /* names with these are completed within quotes */
	sigaction(SIGWINCH, &resize, NULL);
	sigaction(SIGTSTP, &stop, NULL);
	puts("watchctl " WATCHCTL_VERSION
	     ": help lists the commands, Ctrl-D ends; the program then continues.");
	fflush(stdout);
	rl_callback_handler_install("(watchctl) ", on_line);
	terminal.prompt = true;
	while (!r->quit && !*r->ended) {
		repl_step(r, more);
		if (r->quit)
			break;
		handle_signals(r);
		more = repl_look(r);
	}
	terminal.prompt = false;
	rl_callback_handler_remove();
	free(terminal.history);
	return NULL;
}
