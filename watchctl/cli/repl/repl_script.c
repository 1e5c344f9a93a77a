#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/cli/repl/repl.h"
#include "watchctl/cli/repl/repl_feed.h"

#define SOURCES_MAX 16

/* Reports an error that ends nothing. */
static void repl_script_report(struct wc_error *err)
{
	fflush(stdout);
	fprintf(stderr, "watchctl: %s\n", err->text);
	wc_error_free(err);
}

static void catch_up(struct repl *r)
{
	while (repl_poll(r, stdout) && !*r->interrupted)
		;
}

static struct wc_error *run_line(struct repl *r, char *line, const char *name, unsigned int number)
{
	struct wc_error *err;

	line[strcspn(line, "\n")] = '\0';
	*r->interrupted = 0;
	catch_up(r); /* a command knows what came before it */
	err = repl_run_line(r, line);
	catch_up(r);
	fflush(stdout);
	return err ? wc_error_context(err, "%s:%u", name, number) : NULL;
}

struct wc_error *repl_script(struct repl *r, FILE *f, const char *name)
{
	struct wc_error *err = NULL, *first = NULL;
	scoped(freep) char *line = NULL;
	unsigned int number = 0;
	bool more = true;
	size_t cap = 0;

	while (!r->quit && !*r->ended && (more = (getline(&line, &cap, f) >= 0))) {
		err = run_line(r, line, name, ++number);
		if (err && !r->keep_going)
			return err;
		if (err && first)
			repl_script_report(err);
		else if (err) {
			repl_script_report(wc_error_new(err->kind, "%s", err->text));
			first = err;
		}
		if ((*r->interrupted && r->depth) || ferror(stdout))
			break; /* had enough; or nobody reads any more, which our caller finds too */
	}
	if ((ferror(f) || (!more && !feof(f))) && !first)
		first = wc_error_errno(WC_EFAIL, errno, "cannot read %s", name);
	return first;
}

struct wc_error *repl_source(struct repl *r, int argc, char **argv)
{
	scoped(fclosep) FILE *f = NULL;
	struct wc_error *err;

	if (argc != 2)
		return wc_error_new(WC_EUSAGE, "source takes one file");
	if (r->depth == SOURCES_MAX)
		return wc_error_new(WC_EUSAGE, "%s: the files run each other, %u levels deep, without end",
				    argv[1], SOURCES_MAX);
	f = fopen(argv[1], "re");
	if (!f)
		return wc_error_errno(WC_EUSAGE, errno, "cannot read %s", argv[1]);
	r->depth++;
	err = repl_script(r, f, argv[1]);
	r->depth--;
	return err;
}

struct waiting {
	uint64_t count, until_ns; /* 0: no bound */
};

static struct wc_error *take_seconds(void *request, const char *text)
{
	struct waiting *w = request;
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0) || seconds > 1e9)
		return wc_error_new(WC_EUSAGE, "wait %s: give a number of seconds, like 5 or 0.5", text);
	w->until_ns = monotonic_ns() + (uint64_t)(seconds * 1e9);
	return NULL;
}

static struct wc_error *set_until(const struct option_match *m, void *to)
{
	return take_seconds(to, m->value);
}

const struct option repl_wait_options[] = {
	{ "-t", "--time", "SECONDS", "no longer than this", COMPLETE_NOTHING, NULL, .set = set_until },
	{ "-n", "--count", "COUNT",
	  "until this number of further events has arrived (in a script: since the last wait); fewer events are an "
	  "error",
	  COMPLETE_NOTHING, NULL, OPTION_NUMBER(struct waiting, count, 1, UINT64_MAX) },
	{ 0 },
};

static struct wc_error *repl_script_parse(int argc, char **argv, struct waiting *ret)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = repl_wait_options };
	struct wc_error *err;
	struct option_match m;

	*ret = (struct waiting){ 0 };
	do {
		err = option_next(&scan, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = option_set(&m, ret);
		else if (!err && m.kind == OPTION_WORD)
			err = take_seconds(ret, m.value);
	} while (!err && m.kind != OPTION_END && m.kind != OPTION_DASHES);
	return err;
}

/*
 * A script cannot say whether an event comes just before or just after its wait begins, so each event counts
 * for one wait, whenever it came. A person means those that come from now on.
 */
static uint64_t counted_before(const struct repl *r)
{
	if (!r->feed)
		return 0;
	return r->interactive && !r->depth ? feed_count(r->feed) : r->waited;
}

struct wc_error *repl_wait(struct repl *r, int argc, char **argv)
{
	uint64_t before = counted_before(r), came;
	struct waiting w;
	struct wc_error *err = repl_script_parse(argc, argv, &w);

	if (err)
		return err;
	if (!r->feed && !w.until_ns)
		return wc_error_new(WC_ETARGET, "there is nothing to wait for: attach PID, or run PROGRAM");
	for (;;) {
		bool more = repl_poll(r, stdout);

		came = r->feed ? feed_count(r->feed) - before : 0;
		fflush(stdout);
		if (*r->interrupted || *r->ended || (w.count && came >= w.count))
			break;
		if ((w.until_ns && monotonic_ns() >= w.until_ns) ||
		    (!more && !repl_is_live(r) && !w.until_ns))
			break;
		if (!more && !repl_is_live(r) && w.count)
			break;
		if (!more)
			repl_rest(r);
	}
	if (r->feed)
		feed_settle(r->feed, stdout);
	r->waited = before + (w.count && came > w.count ? w.count : came);
	if (w.count && came < w.count && !*r->interrupted)
		return wc_error_new(WC_EFAIL, "only %" PRIu64 " of %" PRIu64 " events have arrived", came,
				    w.count);
	return NULL;
}
