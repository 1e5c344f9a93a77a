#include "watchctl/engine/intake/causeless.h"

#include <stdio.h>

#include "watchctl/base/clock.h"

struct wc_error *causeless_report(uint64_t *reported, uint64_t n, bool last, struct event_sink sink)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	char text[400];

	if (n == *reported || (*reported && !last))
		return NULL;
	snprintf(
		text, sizeof(text),
		"%llu time%s the processor raised a debug exception without a cause (DR6 was empty), as it does on some "
		"virtual machines: an access, most likely, of which nobody can say by which watch. It is in no count; "
		"with --engine ring, it would have ended the program",
		(unsigned long long)n, n == 1 ? "" : "s");
	*reported = n;
	event.note.text = text;
	return sink.put(sink.ctx, &event);
}
