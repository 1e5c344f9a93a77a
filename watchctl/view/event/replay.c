#include "watchctl/view/event/replay.h"

#include "watchctl/base/cleanup.h"
#include "watchctl/base/progress.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_symbols.h"

/* Names that were added later come first: whoever reads the events then knows them. */
static struct wc_error *replay_symbols(const char *path, struct event_sink sink)
{
	struct trace_event note = { .type = EVENT_NOTE };
	struct wc_error *err;
	const char *why;
	char text[256];

	err = tracelog_symbols_read(path, sink, &why);
	if (err || !why)
		return err;
	snprintf(text, sizeof(text),
		 "some of the names that were added to the log cannot be read, because %s: "
		 "watchctl symbolize makes them anew",
		 why);
	note.note.text = text;
	return sink.put(sink.ctx, &note);
}

/* What is missing in the middle is reported where it is missing. */
static struct wc_error *report_missed(struct tracelog_reader *r, struct event_sink sink, uint64_t time_ns,
				      struct replay_ending *ret)
{
	struct trace_event note = { .type = EVENT_NOTE, .time_ns = time_ns };
	uint64_t missed = tracelog_missed(r, &ret->why_missed), more = missed - ret->missed;
	char text[256];

	if (!more)
		return NULL;
	ret->missed = missed;
	snprintf(text, sizeof(text), "about %llu bytes of the log are missing here: %s",
		 (unsigned long long)more, ret->why_missed);
	note.note.text = text;
	return sink.put(sink.ctx, &note);
}

/* Before the first access: it is not the first one that was recorded. */
static struct wc_error *report_rest(const struct tracelog_reader *r, struct event_sink sink,
				    const struct trace_event *e, bool *reported)
{
	struct trace_event note = { .type = EVENT_NOTE, .time_ns = e->time_ns };

	if (*reported || (e->type != EVENT_ACCESS && e->type != EVENT_CAPTURE && e->type != EVENT_CALL))
		return NULL;
	*reported = true;
	note.note.text =
		"what was recorded before is not in this log: a flight recorder keeps what its bounds "
		"allow, and a snapshot what was asked for";
	return tracelog_is_rest(r) ? sink.put(sink.ctx, &note) : NULL;
}

struct wc_error *replay(const char *path, struct event_sink sink, FILE *out, struct replay_ending *ret)
{
	return replay_shown(path, sink, out, NULL, ret);
}

struct wc_error *replay_shown(const char *path, struct event_sink sink, FILE *out, struct progress *p,
			      struct replay_ending *ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;
	struct wc_error *err;
	bool reported = false;

	*ret = (struct replay_ending){ 0 };
	err = tracelog_reader_open(path, &r);
	if (!err)
		err = replay_symbols(path, sink);
	while (!err && !ferror(out)) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		err = report_missed(r, sink, e.time_ns, ret);
		if (!err)
			err = report_rest(r, sink, &e, &reported);
		if (!err)
			err = sink.put(sink.ctx, &e);
		if (p)
			progress_at(p, tracelog_progress(r));
	}
	if (err)
		return err;
	ret->ignored = tracelog_ignored(r, &ret->why);
	return NULL;
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
