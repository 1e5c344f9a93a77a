#include "watchctl/cli/repl/repl_feed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/monitor/live/live.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/view/table/sites.h"

#define POSITIONS (1u << 22) /* of the latest events: 32 MB */
#define WINDOW_NS 1000000000ull
#define NUMBER_WIDTH 8

struct repl_feed {
	const char *path;
	bool colour;
	struct tracelog_reader *reader;
	struct annotate *annotate; /* of events as they come */
	struct annotate *detail;   /* of one that is asked for: it knows all but the events themselves */
	struct view again;	   /* who asked */
	struct annotate *reporter; /* which of them tells him; NULL: @detail */
	struct sites sites;

	/* The latest POSITIONS events; event n is at (n - 1) % POSITIONS. */
	uint64_t *position;
	size_t npositions, position_cap;
	uint64_t n;
	uint64_t gone; /* where in the log modules went last: names of earlier events are looked up apart */
	const char **tag;
	size_t ntags, tag_cap;
	const struct view_watch **watch; /* those that were armed */
	size_t nwatches, watch_cap;
	bool begun, no_memory, reported_ignored;
	uint64_t missed; /* bytes of the log, told */

	enum feed_mode mode;
	struct printer *printer;
	unsigned int width;
	char *text; /* what @printer writes */
	size_t len;
	FILE *stream;
	uint64_t window_ns; /* since when: */
	uint64_t shown, allowed, held, first_held;
	bool was_held; /* in this window: the next one is not to be flooded, either */
};

static char *text_count(uint64_t n, char buf[32])
{
	char plain[32];
	size_t len = (size_t)snprintf(plain, sizeof(plain), "%" PRIu64, n), at = 0, i;

	for (i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = plain[i];
	}
	buf[at] = '\0';
	return buf;
}

static void start_window(struct repl_feed *f, uint64_t now)
{
	f->allowed = f->was_held ? FEED_PER_SECOND_OF_MANY : FEED_PER_SECOND;
	f->was_held = false;
	f->window_ns = now;
	f->shown = f->held = 0;
}

static void put_held(struct repl_feed *f)
{
	char count[32];

	if (!f->held)
		return;
	fprintf(f->stream, "... %s %s (%" PRIu64 " to %" PRIu64 "): sites, show N\n",
		text_count(f->held, count),
		f->mode == FEED_SUMMARY ? f->held == 1 ? "event" : "events" : "more", f->first_held, f->n);
	f->held = 0;
}

static void drain(struct repl_feed *f, FILE *out)
{
	fflush(f->stream);
	fwrite(f->text, 1, f->len, out);
	rewind(f->stream);
}

void feed_settle(struct repl_feed *f, FILE *out)
{
	put_held(f);
	drain(f, out);
}

/* Numbers an event. True: it is to be printed; its number has been. */
static bool number(struct repl_feed *f)
{
	uint64_t at = tracelog_position(f->reader);
	char text[32];

	if (f->npositions < POSITIONS)
		f->no_memory |= !vec_push(f->position, f->npositions, f->position_cap, at);
	else
		f->position[f->n % POSITIONS] = at;
	f->n++;
	if (f->mode == FEED_OFF)
		return false;
	if (f->mode == FEED_SUMMARY || f->shown >= f->allowed) {
		if (!f->held++)
			f->first_held = f->n;
		f->was_held = true;
		return false;
	}
	f->shown++;
	snprintf(text, sizeof(text), "#%" PRIu64, f->n);
	fprintf(f->stream, "%s%-*s%s", f->colour ? "\033[2m" : "", NUMBER_WIDTH - 1, text,
		f->colour ? "\033[0m " : " ");
	return true;
}

/* The length of the escape sequence at @s; 0: there is none. */
static size_t escape(const char *s)
{
	const char *c = s + 2;

	if (s[0] != '\033' || s[1] != '[')
		return 0;
	while (*c && (*c < '@' || *c > '~'))
		c++;
	return (size_t)(c - s) + (*c != '\0');
}

/* What was printed from @start on is one line: its end, mostly the instruction, goes where it does not fit.
 */
static void cut_line(struct repl_feed *f, size_t start)
{
	size_t columns = 0, from, to;

	fflush(f->stream);
	for (from = to = start; from < f->len && f->text[from] != '\n';) {
		size_t len = escape(f->text + from);

		/* Colours are kept: what was begun is ended. */
		if (!len) {
			len = 1;
			if (((unsigned char)f->text[from] & 0xc0) != 0x80 && columns <= f->width)
				columns++;
			if (columns > f->width) {
				from++;
				continue;
			}
		}
		memmove(f->text + to, f->text + from, len);
		from += len;
		to += len;
	}
	if (columns <= f->width)
		return;
	f->text[to++] = '\n';
	fseek(f->stream, (long)to, SEEK_SET);
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct repl_feed *f = ctx;
	struct view v = printer_view(f->printer);
	size_t start;

	fflush(f->stream);
	start = f->len;
	if (!number(f))
		return;
	v.ops->access(v.ctx, a);
	if (f->width)
		cut_line(f, start);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct repl_feed *f = ctx;
	struct view v = printer_view(f->printer);

	if (c->tag->captures == 1)
		f->no_memory |= !vec_push(f->tag, f->ntags, f->tag_cap, c->tag->text);
	if (number(f))
		v.ops->capture(v.ctx, c);
}

static void on_process(void *ctx, const struct view_event *e)
{
	const struct process_event *p = &e->raw->process;
	struct repl_feed *f = ctx;
	char comm[64], cmdline[160];

	f->begun = true;
	utf8_clean(p->comm ? p->comm : "?", comm, sizeof(comm));
	utf8_clean(p->cmdline ? p->cmdline : "?", cmdline, sizeof(cmdline));
	fprintf(f->stream, "process %d (%s): %s\n", p->pid, comm, cmdline);
}

static void on_note(void *ctx, const struct view_event *e)
{
	struct repl_feed *f = ctx;
	struct view v = printer_view(f->printer);

	view_put(&v, e);
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct repl_feed *f = ctx;
	struct view v = printer_view(f->printer);

	if (!feed_watch(f, w->e.id))
		f->no_memory |= !vec_push(f->watch, f->nwatches, f->watch_cap, w);
	v.ops->armed(v.ctx, w, time);
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct repl_feed *f = ctx;
	struct view v = printer_view(f->printer);

	v.ops->lost(v.ctx, w, l, time);
}

static void on_summary(void *ctx, const struct view_summary *s)
{
	struct repl_feed *f = ctx;
	struct view v = printer_view(f->printer);

	put_held(f);
	v.ops->summary(v.ctx, s);
}

static void again_access(void *ctx, const struct view_access *a)
{
	struct repl_feed *f = ctx;

	if (f->again.ops && f->again.ops->access)
		f->again.ops->access(f->again.ctx, a);
}

static void again_capture(void *ctx, const struct view_capture *c)
{
	struct repl_feed *f = ctx;

	if (f->again.ops && f->again.ops->capture)
		f->again.ops->capture(f->again.ctx, c);
}

static struct annotate *detail_new(struct repl_feed *f)
{
	static const struct view_ops ops = { .access = again_access, .capture = again_capture };
	struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT);

	if (!a)
		return NULL;
	annotate_set_syntax(a, annotate_syntax(f->annotate));
	annotate_add_view(a, (struct view){ &ops, f });
	return a;
}

static bool make_printer(struct repl_feed *f, unsigned int width)
{
	struct print_options o = { .no_stack = true, .colour = f->colour, .width = width };

	if (f->printer && f->width == width)
		return true;
	printer_free(f->printer);
	f->printer = print_text_new(f->stream, &o);
	f->width = width;
	return f->printer;
}

void feed_close(struct repl_feed *f)
{
	if (!f)
		return;
	sites_deinit(&f->sites);
	printer_free(f->printer);
	annotate_free(f->annotate);
	annotate_free(f->detail);
	tracelog_reader_close(f->reader);
	if (f->stream)
		fclose(f->stream);
	free(f->text);
	free(f->tag);
	free(f->watch);
	free(f->position);
	free(f);
}

static void feed_closep(struct repl_feed **f)
{
	feed_close(*f);
}

struct wc_error *feed_open(const char *path, bool colour, enum insn_syntax syntax, struct repl_feed **ret)
{
	static const struct view_subscription events[] = {
		{ EVENT_PROCESS, on_process },
		{ EVENT_NOTE, on_note },
		{ 0 },
	};
	static const struct view_ops ops = {
		.access = on_access,
		.capture = on_capture,
		.events = events,
		.armed = on_armed,
		.lost = on_lost,
		.summary = on_summary,
	};
	scoped(feed_closep) struct repl_feed *f = calloc(1, sizeof(*f));
	struct wc_error *err;

	if (!f)
		return &wc_enomem;
	f->path = path;
	f->colour = colour;
	f->stream = open_memstream(&f->text, &f->len);
	f->annotate = annotate_new(NULL, ANNOTATE_TEXT);
	if (!f->stream || !f->annotate || !make_printer(f, 0))
		return &wc_enomem;
	annotate_set_syntax(f->annotate, syntax);
	f->detail = detail_new(f);
	if (!f->detail)
		return &wc_enomem;
	annotate_add_view(f->annotate, (struct view){ &ops, f });
	annotate_add_view(f->annotate, sites_view(&f->sites));
	err = tracelog_reader_open(path, &f->reader);
	if (err)
		return err;
	tracelog_follow(f->reader);
	*ret = take_ptr(f);
	return NULL;
}

static struct wc_error *repl_feed_put(struct repl_feed *f, const struct trace_event *e)
{
	struct event_sink sink = annotate_sink(f->annotate), detail = annotate_sink(f->detail);
	struct wc_error *err = NULL;

	if (e->type != EVENT_ACCESS && e->type != EVENT_CAPTURE)
		err = detail.put(detail.ctx, e);
	if (e->type == EVENT_MODULE_GONE || e->type == EVENT_PROCESS)
		f->gone = tracelog_position(f->reader);
	if (!err)
		err = sink.put(sink.ctx, e);
	return err ? err : f->no_memory ? &wc_enomem : NULL;
}

/* What cannot be read is not passed over in silence. */
static void report_gaps(struct repl_feed *f)
{
	const char *why = NULL;
	uint64_t missed = tracelog_missed(f->reader, &why), ignored;

	if (missed > f->missed)
		fprintf(f->stream, "%" PRIu64 " bytes of events were not read%s%s\n", missed - f->missed,
			why ? ": " : "", why ? why : "");
	f->missed = missed;
	ignored = tracelog_ignored(f->reader, &why);
	if (why && !ignored && !f->reported_ignored)
		fprintf(f->stream, "the log is not whole: %s\n", why);
	else if (ignored && !f->reported_ignored)
		fprintf(f->stream,
			"the log is not whole: its last %" PRIu64 " bytes were ignored, because %s\n",
			ignored, why);
	f->reported_ignored = why != NULL;
}

static struct wc_error *read_on(struct repl_feed *f, uint64_t until_ns, enum feed_state *ret)
{
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;
	struct wc_error *err = NULL;
	unsigned int n = 0;

	do {
		err = tracelog_next(f->reader, &e, &outcome);
		if (!err && outcome == LOG_EVENT)
			err = repl_feed_put(f, &e);
	} while (!err && outcome == LOG_EVENT && (++n % 64 || monotonic_ns() < until_ns));
	*ret = outcome == LOG_EVENT ? FEED_MORE : outcome == LOG_WAIT ? FEED_WAITS : FEED_ENDED;
	report_gaps(f);
	return err;
}

struct wc_error *feed_pump(struct repl_feed *f, uint64_t budget_ns, unsigned int width, FILE *out,
			   enum feed_state *ret)
{
	uint64_t now = monotonic_ns();
	struct wc_error *err;

	if (!make_printer(f, width))
		return &wc_enomem;
	if (now - f->window_ns >= WINDOW_NS) {
		put_held(f);
		start_window(f, now);
	}
	err = read_on(f, now + budget_ns, ret);
	drain(f, out);
	return err;
}

void feed_set_mode(struct repl_feed *f, enum feed_mode mode)
{
	f->mode = mode;
	f->held = 0;
}

enum feed_mode feed_mode(const struct repl_feed *f)
{
	return f->mode;
}

bool feed_has_begun(const struct repl_feed *f)
{
	return f->begun;
}

uint64_t feed_count(const struct repl_feed *f)
{
	return f->n;
}

const struct view_watch *feed_watch(const struct repl_feed *f, uint32_t id)
{
	for (size_t i = 0; i < f->nwatches; i++)
		if (f->watch[i]->e.id == id)
			return f->watch[i];
	return NULL;
}

uint64_t feed_count_of(const struct repl_feed *f, uint32_t id)
{
	const struct view_watch *w = feed_watch(f, id);

	return w ? w->shown : 0;
}

const char *feed_tag(const struct repl_feed *f, size_t i)
{
	return i < f->ntags ? f->tag[i] : NULL;
}

/* One more time from the beginning, for an event after which modules went: names are those of its moment. */
static struct wc_error *again_from_start(struct repl_feed *f, const struct trace_event *wanted)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *reader = NULL;
	scoped(annotate_freep) struct annotate *a = detail_new(f);
	struct event_sink sink;
	struct trace_event e;
	enum log_outcome outcome;
	struct wc_error *err;

	if (!a)
		return &wc_enomem;
	err = tracelog_reader_open(f->path, &reader);
	if (err)
		return err;
	sink = annotate_sink(a);
	f->reporter = a;
	for (;;) {
		bool is_it;

		err = tracelog_next(reader, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		is_it = e.type == wanted->type && e.time_ns == wanted->time_ns &&
			(e.type == EVENT_ACCESS ? e.access.tid == wanted->access.tid
						: e.capture.tid == wanted->capture.tid);
		if (is_it || (e.type != EVENT_ACCESS && e.type != EVENT_CAPTURE))
			err = sink.put(sink.ctx, &e);
		if (err || is_it)
			return err;
	}
	return err ? err : wc_error_new(WC_ELOG, "the modules of that event are no longer in the log");
}

static struct wc_error *repl_feed_find(struct repl_feed *f, uint64_t number, struct trace_event *e)
{
	enum log_outcome outcome;
	struct wc_error *err;

	if (!number || number > f->n)
		return wc_error_new(WC_ENAME,
				    f->n ? "there is no event %" PRIu64 ": they go from 1 to %" PRIu64
					 : "there is no event %" PRIu64 ": none has arrived yet",
				    number, f->n);
	if (f->n - number < f->npositions) {
		err = tracelog_read_again(f->reader, f->position[(number - 1) % POSITIONS], e, &outcome);
		if (err || (outcome == LOG_EVENT && (e->type == EVENT_ACCESS || e->type == EVENT_CAPTURE)))
			return err;
	}
	return wc_error_new(WC_ENAME,
			    "the event %" PRIu64 " is no longer available: newer ones have replaced it",
			    number);
}

struct wc_error *feed_again(struct repl_feed *f, uint64_t number, struct view v)
{
	struct event_sink sink = annotate_sink(f->detail);
	struct trace_event e;
	struct wc_error *err = repl_feed_find(f, number, &e);

	if (err)
		return err;
	f->again = v;
	err = f->position[(number - 1) % POSITIONS] > f->gone ? sink.put(sink.ctx, &e)
							      : again_from_start(f, &e);
	f->again = (struct view){ 0 };
	f->reporter = NULL;
	return err;
}

void feed_sites(struct repl_feed *f, unsigned int width, FILE *out)
{
	const struct print_options o = { .colour = f->colour, .width = width };
	scoped(printer_freep) struct printer *p = print_text_new(out, &o);

	sites_sort(&f->sites);
	if (p)
		printer_sites(p, &f->sites);
}

struct symbolizer *feed_symbolizer(struct repl_feed *f)
{
	return annotate_symbolizer(f->reporter ? f->reporter : f->detail);
}
