#include "watchctl/view/replay.h"

#include "watchctl/base/cleanup.h"
#include "watchctl/trace/tracelog.h"

struct wc_error *replay(const char *path, struct event_sink sink, FILE *out, struct replay_ending *ret)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;
	struct wc_error *err;

	err = tracelog_reader_open(path, &r);
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
