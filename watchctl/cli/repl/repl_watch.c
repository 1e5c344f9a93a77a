#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/repl/repl.h"
#include "watchctl/cli/repl/repl_feed.h"

const struct option repl_watch_options[] = {
	{ .more = watch_filter_options },
	{ "--no-values", NULL, NULL, "withhold its values, and from then on all registers", 0, NULL,
	  OPTION_FLAG(struct watch_ask, redact.all) },
	{ 0 },
};

static void watch_deinit(struct repl_watch *w)
{
	for (size_t i = 0; w->words && w->words[i]; i++)
		free(w->words[i]);
	free(w->words);
	free(w->text);
	*w = (struct repl_watch){ 0 };
}

void repl_watches_deinit(struct repl *r)
{
	for (size_t i = 0; i < r->nwatches; i++)
		watch_deinit(&r->watch[i]);
	free(r->watch);
	r->watch = NULL;
	r->nwatches = r->watch_cap = 0;
}

static bool needs_quotes(const char *word)
{
	return !*word || strpbrk(word, " \t\"'\\;&|<>()$*?");
}

static char *repl_watch_join(int argc, char **argv)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	int i;

	if (!f)
		return NULL;
	for (i = 1; i < argc; i++) {
		const char *quote = i > 1 && needs_quotes(argv[i]) ? strchr(argv[i], '\'') ? "\"" : "'" : "";

		fprintf(f, "%s%s%s%s", i > 1 ? " " : "", quote, argv[i], quote);
	}
	return fclose(f) ? (free(text), NULL) : text;
}

static bool copy_words(int argc, char **argv, struct repl_watch *w)
{
	int i;

	w->text = repl_watch_join(argc, argv);
	w->words = calloc((size_t)argc + 1, sizeof(*w->words));
	if (!w->words || !w->text)
		return false;
	for (i = 0; i < argc; i++) {
		w->words[i] = strdup(argv[i]);
		if (!w->words[i])
			return false;
	}
	return true;
}

/* The expression, which may stand anywhere among the options. */
static struct wc_error *find_expr(int argc, char **argv, const char **ret)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = repl_watch_options };
	const char *expr = NULL;
	struct option_match m;
	struct wc_error *err;

	do {
		err = option_next(&scan, &m);
		if (err)
			return err;
		if (m.kind == OPTION_WORD && expr)
			return wc_error_new(WC_EUSAGE,
					    "watch takes one expression, and \"%s\" is another one: if both "
					    "belong together, put quotes around them",
					    m.value);
		if (m.kind == OPTION_WORD)
			expr = m.value;
	} while (m.kind != OPTION_END && m.kind != OPTION_DASHES);
	if (!expr)
		return wc_error_new(WC_EUSAGE, "watch what? Name a variable: watch flag -rw");
	*ret = expr;
	return NULL;
}

/* @argv outlives the request. */
static struct wc_error *repl_watch_parse(int argc, char **argv, struct watch_request *ret)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = repl_watch_options };
	struct watch_ask q;
	struct option_match m;
	const char *expr;
	struct wc_error *err = find_expr(argc, argv, &expr);

	if (err)
		return err;
	watch_ask_init(&q);
	err = watch_ask_add(&q, expr);
	while (!err) {
		err = option_next(&scan, &m);
		if (err || m.kind == OPTION_END || m.kind == OPTION_DASHES)
			break;
		if (m.kind == OPTION_FOUND)
			err = option_set(&m, &q);
	}
	if (!err)
		err = watch_ask_check_watches(&q);
	if (err)
		return err;
	*ret = q.monitor.watch[0];
	ret->withheld = q.redact.all;
	return NULL;
}

static struct wc_error *report_session(struct repl *r, struct repl_watch *w)
{
	struct wc_error *err = live_add(r->live, &w->request, &w->id);

	w->is_reported = !err;
	return err;
}

struct wc_error *repl_watch(struct repl *r, int argc, char **argv)
{
	struct repl_watch w = { .enabled = true };
	struct wc_error *err = copy_words(argc, argv, &w) ? NULL : &wc_enomem;

	if (!err)
		err = repl_watch_parse(argc, w.words, &w.request);
	if (!err && repl_is_live(r))
		err = report_session(r, &w);
	if (!err && !vec_push(r->watch, r->nwatches, r->watch_cap, w))
		err = &wc_enomem;
	if (err) {
		watch_deinit(&w);
		return err;
	}
	r->watch[r->nwatches - 1].number = ++r->last_number;
	printf("watch %u: %s%s\n", r->last_number, w.text,
	       w.is_reported ? "" : ", to be armed with the next attach or run");
	if (w.is_reported)
		repl_hear(r);
	return NULL;
}

/* Which watch @word is the number of. */
static struct wc_error *repl_watch_find(struct repl *r, const char *word, struct repl_watch **ret)
{
	char *end;
	unsigned long n = strtoul(word, &end, 10);

	for (size_t i = 0; i < r->nwatches && end != word && !*end; i++) {
		if (r->watch[i].number == n) {
			*ret = &r->watch[i];
			return NULL;
		}
	}
	return wc_error_new(r->nwatches && end != word && !*end ? WC_ENAME : WC_EUSAGE,
			    r->nwatches ? "there is no watch \"%s\": info watches lists them"
					: "there is no watch \"%s\": none was requested yet",
			    word);
}

static struct wc_error *set_enabled(struct repl *r, struct repl_watch *w, bool on)
{
	struct wc_error *err = NULL;

	if (w->enabled == on)
		return NULL;
	if (repl_is_live(r))
		err = w->is_reported ? live_enable(r->live, w->id, on) : on ? report_session(r, w) : NULL;
	if (!err)
		w->enabled = on;
	return err;
}

static struct wc_error *enable(struct repl *r, int argc, char **argv, bool on)
{
	struct repl_watch *w;
	struct wc_error *err = NULL;
	int i;

	if (argc < 2)
		return wc_error_new(WC_EUSAGE, "%s which watch? Give its number: info watches lists them",
				    argv[0]);
	for (i = 1; i < argc && !err; i++) {
		err = repl_watch_find(r, argv[i], &w);
		if (!err)
			err = set_enabled(r, w, on);
	}
	return err;
}

struct wc_error *repl_enable(struct repl *r, int argc, char **argv)
{
	return enable(r, argc, argv, true);
}

struct wc_error *repl_disable(struct repl *r, int argc, char **argv)
{
	return enable(r, argc, argv, false);
}

static struct wc_error *delete_one(struct repl *r, struct repl_watch *w)
{
	struct wc_error *err = NULL;
	size_t at = (size_t)(w - r->watch);

	if (repl_is_live(r) && w->is_reported)
		err = live_remove(r->live, w->id);
	if (err && err->kind != WC_ETARGET)
		return err;
	wc_error_free(err); /* the session has just ended: it is gone there too */
	watch_deinit(w);
	memmove(w, w + 1, (r->nwatches - at - 1) * sizeof(*w));
	r->nwatches--;
	return NULL;
}

struct wc_error *repl_delete(struct repl *r, int argc, char **argv)
{
	struct repl_watch *w;
	struct wc_error *err = NULL;
	int i;

	if (argc < 2) {
		while (r->nwatches && !err)
			err = delete_one(r, &r->watch[r->nwatches - 1]);
		return err;
	}
	for (i = 1; i < argc && !err; i++) {
		err = repl_watch_find(r, argv[i], &w);
		if (!err)
			err = delete_one(r, w);
	}
	return err;
}

struct wc_error *repl_watches_give(struct repl *r, struct monitor_options *o)
{
	for (size_t i = 0; i < r->nwatches; i++) {
		if (!r->watch[i].enabled)
			continue;
		if (o->nwatches == MONITOR_WATCHES)
			return wc_error_new(WC_ESLOTS,
					    "more than %u watches are enabled, and a CPU has %u debug "
					    "registers: disable some",
					    MONITOR_WATCHES, MONITOR_WATCHES);
		o->watch[o->nwatches++] = r->watch[i].request;
	}
	return NULL;
}

void repl_watches_reported(struct repl *r)
{
	uint32_t id = 0;

	for (size_t i = 0; i < r->nwatches; i++) {
		r->watch[i].is_reported = r->watch[i].enabled;
		if (r->watch[i].enabled)
			r->watch[i].id = id++;
	}
}

void repl_watches_print(const struct repl *r, FILE *out)
{
	if (!r->nwatches)
		fputs("no watches: add one with watch EXPR\n", out);
	for (size_t i = 0; i < r->nwatches; i++) {
		const struct repl_watch *w = &r->watch[i];
		uint64_t n = w->is_reported && r->feed ? feed_count_of(r->feed, w->id) : 0;

		fprintf(out, "%4u  %-8s  %10" PRIu64 " event%s  %s\n", w->number,
			!w->enabled			    ? "disabled"
			: repl_is_live(r) && w->is_reported ? "on"
							    : "waiting",
			n, n == 1 ? " " : "s", w->text);
	}
}
