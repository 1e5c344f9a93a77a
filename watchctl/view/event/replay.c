#include "watchctl/view/event/replay.h"

#include <fcntl.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/progress.h"
#include "watchctl/trace/calls/call_merge.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_files.h"
#include "watchctl/trace/log/tracelog_symbols.h"

/* Names that were added later come first: whoever reads the events then knows them. */
static struct wc_error *replay_symbols(const char *path, struct event_sink sink, const char **ret)
{
	struct trace_event note = { .type = EVENT_NOTE };
	struct wc_error *err;
	const char *why = NULL;
	char text[256];

	err = tracelog_symbols_read(path, sink, &why);
	*ret = why;
	if (err || !why)
		return err;
	snprintf(text, sizeof(text),
		 "some of the names that were added to the log cannot be read, because %s: "
		 "watchctl symbolize makes them anew",
		 why);
	note.note.text = text;
	return sink.put(sink.ctx, &note);
}

/* As a note for people, and behind it for programs. */
static struct wc_error *report_one(struct event_sink sink, uint64_t time_ns, const char *text,
				   const struct missing_event *m)
{
	struct trace_event note = { .type = EVENT_NOTE, .time_ns = time_ns, .note.text = text };
	struct trace_event missing = { .type = EVENT_MISSING, .time_ns = time_ns, .missing = *m };
	struct wc_error *err = sink.put(sink.ctx, &note);

	return err ? err : sink.put(sink.ctx, &missing);
}

/* What is missing in the middle is reported where it is missing. */
static struct wc_error *report_gaps(struct tracelog_reader *r, struct event_sink sink, uint64_t time_ns,
				    size_t *reported)
{
	const struct log_gap *gap;
	const size_t n = tracelog_gaps(r, &gap);
	struct log_damage d;
	struct wc_error *err = NULL;
	char span[160], text[512];

	for (; *reported < n && !err; ++*reported) {
		const struct log_gap *g = &gap[*reported];
		const struct missing_event m = { g->bytes, 0, g->from_ns, g->to_ns, g->why };

		tracelog_damage(r, &d);
		log_span_text(g->from_ns, g->to_ns, d.realtime_ns, span, sizeof(span));
		snprintf(text, sizeof(text), "about %llu bytes of the log are missing here, %s: %s",
			 (unsigned long long)g->bytes, span, g->why);
		err = report_one(sink, time_ns, text, &m);
	}
	return err;
}

/* What is missing at the end, and what was left out for what is missing. */
static struct wc_error *report_end(struct event_sink sink, const struct log_damage *d)
{
	const struct missing_event end = { d->ignored, 0, d->last_ns, 0, d->why };
	const struct missing_event left_out = {
		0, d->left_out, d->from_ns, 0, "what they refer to was in a part of the log that is missing"
	};
	struct wc_error *err = NULL;
	char text[512];

	snprintf(text, sizeof(text), "the log is not whole: its last %llu bytes cannot be read, because %s",
		 (unsigned long long)d->ignored, d->why ? d->why : "");
	if (d->why)
		err = report_one(sink, d->last_ns, d->ignored ? text : d->why, &end);
	snprintf(text, sizeof(text), "%llu events are left out: %s", (unsigned long long)d->left_out,
		 left_out.why);
	if (!err && d->left_out)
		err = report_one(sink, d->last_ns, text, &left_out);
	return err;
}

/* Before the first access: it is not the first one that was recorded. */
static struct wc_error *report_rest(const struct tracelog_reader *r, struct event_sink sink,
				    const struct trace_event *e, bool *reported)
{
	struct trace_event note = { .type = EVENT_NOTE, .time_ns = e->time_ns };

	if (*reported || !event_is(e->type, EVENT_RECORDED))
		return NULL;
	*reported = true;
	note.note.text =
		"what was recorded before is not in this log: a flight recorder keeps what its bounds "
		"allow, and a snapshot what was asked for";
	return tracelog_is_rest(r) ? sink.put(sink.ctx, &note) : NULL;
}

/* Calls */

/* Those that happened before @before_ns. @m may be NULL. */
static struct wc_error *replay_calls(struct call_merge *m, uint64_t before_ns, struct event_sink sink,
				     FILE *out, struct progress *p)
{
	const struct trace_event *e;
	struct wc_error *err = NULL;

	while (m && !err && !ferror(out)) {
		err = call_merge_next(m, before_ns, &e);
		if (err || !e)
			return err;
		err = sink.put(sink.ctx, e);
		if (p)
			progress_at(p, call_merge_progress(m));
	}
	return err;
}

/* An exit whose call began before the recording did is none that is missing: a note says so, and nothing more. */
static struct wc_error *report_exits(const struct call_merge_sums *s, struct event_sink sink)
{
	struct trace_event note = { .type = EVENT_NOTE, .time_ns = s->last_ns };
	struct wc_error *err = NULL;
	char text[256];

	note.note.text = text;
	snprintf(text, sizeof(text),
		 "%llu exits of functions are left out: their calls began before the recording did",
		 (unsigned long long)s->exits_before);
	if (s->exits_before)
		err = sink.put(sink.ctx, &note);
	snprintf(text, sizeof(text),
		 "%llu exits of functions are left out: their calls are in what is missing",
		 (unsigned long long)s->exits_behind_gap);
	return !err && s->exits_behind_gap ? sink.put(sink.ctx, &note) : err;
}

bool replay_is_abandoned(const char *path)
{
	const int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const bool ret = dir >= 0 && tracelog_mark_exists(dir) && !tracelog_mark_held(dir, NULL);

	if (dir >= 0)
		close(dir);
	return ret;
}

static struct wc_error *report_abandoned(const char *path, struct event_sink sink, uint64_t last_ns)
{
	const struct trace_event note = {
		.type = EVENT_NOTE,
		.time_ns = last_ns,
		.note.text =
			"the program has not closed its log: it was killed, or ended without exit(). "
			"The last calls of each thread are missing, up to 12277 entries and exits: its core, if "
			"there is one, has them (watchctl report CORE)"
	};

	return replay_is_abandoned(path) ? sink.put(sink.ctx, &note) : NULL;
}

/* Reports the calls that are missing at the ends of their files, and those that were left out. */
static struct wc_error *report_calls(const char *path, struct call_merge *m, struct event_sink sink,
				     struct log_damage *ret)
{
	static const char no_function[] = "the log does not tell their functions";
	struct missing_event missing = { 0 };
	struct call_merge_sums s;
	struct wc_error *err;
	struct call_damage d;
	char text[512];

	call_merge_sums(m, &s);
	call_merge_damage(m, &d);
	ret->call_packets = d.packets;
	ret->call_bytes = d.ignored;
	ret->calls_left_out = s.unknown;
	ret->why_calls = d.why ? d.why : s.unknown ? no_function : NULL;
	err = report_exits(&s, sink);
	if (!err && s.unknown) {
		missing = (struct missing_event){ .events = s.unknown, .why = no_function };
		snprintf(text, sizeof(text), "%llu calls are left out: %s, the first of which has the id %u",
			 (unsigned long long)s.unknown, no_function, s.unknown_function);
		err = report_one(sink, s.last_ns, text, &missing);
	}
	if (!err && d.ignored) {
		missing = (struct missing_event){ .bytes = d.ignored, .from_ns = s.last_ns, .why = d.why };
		snprintf(
			text, sizeof(text),
			"the calls are not whole: %llu bytes at the ends of their files cannot be read, because %s",
			(unsigned long long)d.ignored, d.why);
		err = report_one(sink, s.last_ns, text, &missing);
	}
	return err ? err : report_abandoned(path, sink, s.last_ns);
}

static struct wc_error *last_call_time(const char *path, uint64_t *ret)
{
	scoped(call_merge_closep) struct call_merge *m = NULL;
	struct wc_error *err = call_merge_open(path, &m);

	*ret = m ? call_merge_last_time(m) : 0;
	return err;
}

struct wc_error *replay_last_time(const char *path, uint64_t *ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	uint64_t last_call = 0;
	enum log_outcome outcome = LOG_EVENT;
	struct log_damage d;
	struct trace_event e;
	struct wc_error *err;

	err = tracelog_reader_open(path, &r);
	while (!err && outcome == LOG_EVENT)
		err = tracelog_next(r, &e, &outcome);
	if (!err)
		err = last_call_time(path, &last_call);
	if (err)
		return err;
	tracelog_damage(r, &d);
	*ret = last_call > d.last_ns ? last_call : d.last_ns;
	return NULL;
}

struct wc_error *replay(const char *path, struct event_sink sink, FILE *out, struct replay_ending *ret)
{
	return replay_shown(path, sink, out, NULL, ret);
}

/* The files of calls are opened first: the functions of all calls in them are in the log by then. */
static struct wc_error *open_log(const char *path, struct tracelog_reader **r, struct call_merge **calls)
{
	struct wc_error *of_calls = call_merge_open(path, calls);

	return wc_error_first(tracelog_reader_open(path, r), of_calls);
}

/*
 * The threads of the log, all at once: a recorder of calls cannot name a thread while it calls, and does it later, when
 * it ends.
 */
static struct wc_error *replay_threads(const char *path, struct event_sink sink)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;
	struct wc_error *err = tracelog_reader_open(path, &r);

	while (!err) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_THREAD)
			err = sink.put(sink.ctx, &e);
	}
	return err;
}

/* An event of the log at @path itself, behind all @calls that happened before it. */
static struct wc_error *replay_event(const char *path, struct call_merge *calls, const struct trace_event *e,
				     struct event_sink sink, bool *has_threads)
{
	struct wc_error *err = NULL;

	if (calls && !call_merge_tell(calls, e))
		return &wc_enomem;
	if (!calls || e->type != EVENT_THREAD)
		err = sink.put(sink.ctx, e);
	if (!err && calls && !*has_threads) {
		*has_threads = true;
		err = replay_threads(path, sink);
	}
	return err;
}

struct wc_error *replay_shown(const char *path, struct event_sink sink, FILE *out, struct progress *p,
			      struct replay_ending *ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	scoped(call_merge_closep) struct call_merge *calls = NULL;
	const struct trace_event rest = { .type = EVENT_MISSING };
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;
	struct wc_error *err;
	bool reported = false, has_threads = false;
	const char *why_names = NULL;
	size_t gaps = 0;

	*ret = (struct replay_ending){ 0 };
	err = open_log(path, &r, &calls);
	if (!err && tracelog_is_rest(r))
		err = sink.put(sink.ctx, &rest);
	if (!err)
		err = replay_symbols(path, sink, &why_names);
	while (!err && !ferror(out)) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		err = replay_calls(calls, e.time_ns, sink, out, p);
		if (!err)
			err = report_gaps(r, sink, e.time_ns, &gaps);
		if (!err)
			err = report_rest(r, sink, &e, &reported);
		if (!err)
			err = replay_event(path, calls, &e, sink, &has_threads);
		if (p && !calls)
			progress_at(p, tracelog_progress(r));
	}
	if (!err)
		err = replay_calls(calls, UINT64_MAX, sink, out, p);
	if (err)
		return err;
	tracelog_damage(r, &ret->damage);
	ret->damage.why_names = why_names;
	err = report_gaps(r, sink, ret->damage.last_ns, &gaps);
	if (!err && calls)
		err = report_calls(path, calls, sink, &ret->damage);
	return err ? err : report_end(sink, &ret->damage);
}

static void redact_freep(struct redact **r)
{
	redact_free(*r);
}

struct wc_error *replay_redacted(const char *path, const struct redact_rules *rules, struct event_sink sink,
				 FILE *out, struct progress *p, struct replay_ending *ret)
{
	scoped(redact_freep) struct redact *r = NULL;
	struct wc_error *err;
	size_t i = 0;

	if (!redact_is_asked(rules))
		return replay_shown(path, sink, out, p, ret);
	err = redact_new(rules, sink, &r);
	if (!err)
		err = replay_shown(path, redact_sink(r), out, p, ret);
	if (!err)
		ret->unused = redact_unused(r, &i);
	return err;
}
