#include "watchctl/engine/intake/unheld.h"

#include <stdio.h>

#include "watchctl/base/clock.h"

const char unheld_in_time[] = "watchctl had stopped responding, or took too long";

struct wc_error *unheld_report(struct unheld *u, uint32_t n, const char *why, struct event_sink sink)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	uint32_t more = n - u->reported;
	char text[512];

	if (!more)
		return NULL;
	snprintf(
		text, sizeof(text),
		"%u time%s a thread did not wait until a watch was armed (on a loaded library, the target of a "
		"pointer, or its own copy of a variable): %s. Accesses before that watch was armed are not seen",
		more, more > 1 ? "s" : "", why);
	u->reported = n;
	u->lags = true;
	event.note.text = text;
	return sink.put(sink.ctx, &event);
}
