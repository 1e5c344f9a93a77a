/* The session that goes on, as all commands see it: whether it lives, what it says, the process to look at. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/utf8.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/repl/repl.h"
#include "watchctl/cli/repl/repl_feed.h"

#define POLL_NS 20000000ull
#define FIRST_WORDS_NS 300000000ull
#define WAIT_MS 50

bool repl_is_live(const struct repl *r)
{
	return r->live && !r->live_over;
}

/* Nobody has seen its end: it still runs. */
static void stop_session(struct repl *r)
{
	struct wc_error *stop_err = live_stop(r->live);
	enum session_end end;

	r->failure = wc_error_first(r->failure, wc_error_first(live_end(r->live, &end), stop_err));
	r->live_over = true;
}

static void forget_watches(struct repl *r)
{
	for (size_t i = 0; i < r->nwatches; i++)
		r->watch[i].is_reported = false;
}

void repl_close_session(struct repl *r)
{
	if (repl_is_live(r))
		stop_session(r);
	feed_close(r->feed);
	inspect_close(r->inspect);
	live_close(r->live);
	free(r->log);
	r->feed = NULL;
	r->inspect = NULL;
	r->live = NULL;
	r->log = NULL;
	r->live_over = false;
	r->pid = 0;
	r->launched = false;
	r->waited = 0;
	r->examine.has_next = false;
	forget_watches(r);
}

void repl_init(struct repl *r)
{
	*r = (struct repl){ .examine = { .count = 1, .format = 'x', .size = 'w' } };
}

static const char *ending_text(enum session_end end)
{
	switch (end) {
	case SESSION_EXITED:
		return "the program has ended";
	case SESSION_EXECED:
		return "the process has executed another program: the session ended there";
	case SESSION_GAVE_UP:
		return "the session was ended to protect the program: see the note above";
	case SESSION_SUPPLANTED:
		return "another process has begun to collect the captures: the session ended there";
	default:
		return "the session has ended";
	}
}

/* All of the log has been read, and nobody writes to it any more. */
static void report_end(struct repl *r, FILE *out)
{
	enum session_end end = SESSION_STOPPED;
	struct wc_error *err = live_end(r->live, &end);

	r->live_over = true;
	feed_settle(r->feed, out);
	fprintf(out, "%s\n", err ? err->text : ending_text(end));
	if (r->interactive)
		wc_error_free(err);
	else
		r->failure = wc_error_first(r->failure, err);
	if (end == SESSION_EXITED)
		r->pid = 0;
	inspect_close(r->inspect);
	r->inspect = NULL;
}

bool repl_poll(struct repl *r, FILE *out)
{
	enum feed_state state;
	struct wc_error *err;
	bool over;

	if (!r->feed)
		return false;
	over = repl_is_live(r) && live_state(r->live) == LIVE_ENDED;
	err = feed_pump(r->feed, POLL_NS, r->interactive ? terminal_width(STDOUT_FILENO) : 0, out, &state);
	if (err) {
		fprintf(out, "the events cannot be read any further: %s\n", err->text);
		wc_error_free(err);
		state = FEED_ENDED;
	}
	if (over && state != FEED_MORE)
		report_end(r, out);
	return state == FEED_MORE;
}

void repl_rest(struct repl *r)
{
	struct pollfd p = { .fd = repl_is_live(r) ? live_fd(r->live) : -1, .events = POLLIN };

	poll(&p, 1, WAIT_MS);
}

/* Whether the log has reported all watches that the session has. */
static bool all_reported(const struct repl *r)
{
	for (size_t i = 0; i < r->nwatches; i++)
		if (r->watch[i].is_reported && r->watch[i].enabled && !feed_watch(r->feed, r->watch[i].id))
			return false;
	return true;
}

/* What the session says first: what it armed. */
void repl_hear(struct repl *r)
{
	uint64_t end = monotonic_ns() + FIRST_WORDS_NS;

	while (!r->live_over && monotonic_ns() < end) {
		bool more = repl_poll(r, stdout);

		if (feed_has_begun(r->feed) && all_reported(r))
			break;
		if (!more)
			repl_rest(r);
	}
}

struct wc_error *repl_inspect(struct repl *r, struct inspect **ret)
{
	struct wc_error *err = NULL;

	if (!r->pid)
		return wc_error_new(WC_ETARGET, "there is no process to read: attach PID, or run PROGRAM");
	if (!r->inspect)
		err = inspect_open(r->pid, &r->inspect);
	if (!err)
		*ret = r->inspect;
	return err;
}

void repl_print_clean(const char *text)
{
	scoped(freep) char *clean = malloc(4 * strlen(text) + 1);
	scoped(freep) char *copy = strdup(text);
	char *line, *rest = copy;

	if (!clean || !copy)
		return;
	/* Tabs and ends of lines are ours. */
	while ((line = strsep(&rest, "\n\t"))) {
		utf8_clean(line, clean, 4 * strlen(text) + 1);
		fputs(clean, stdout);
		if (rest)
			putchar(text[rest - copy - 1]);
	}
}
