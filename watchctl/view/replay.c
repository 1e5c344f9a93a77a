#include "watchctl/view/replay.h"

#include "watchctl/base/cleanup.h"
#include "watchctl/trace/tracelog.h"
#include "watchctl/trace/tracelog_symbols.h"

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

struct wc_error *replay(const char *path, struct event_sink sink, FILE *out, struct replay_ending *ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;
	struct wc_error *err;

	err = tracelog_reader_open(path, &r);
	if (!err)
		err = replay_symbols(path, sink);
	while (!err && !ferror(out)) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		err = sink.put(sink.ctx, &e);
	}
	if (err)
		return err;
	ret->ignored = tracelog_ignored(r, &ret->why);
	return NULL;
}
