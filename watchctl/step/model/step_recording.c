#include "watchctl/step/model/step_recording.h"

#include <stdio.h>
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"

struct wc_error *step_recording_put(const struct step_recording *r, uint64_t time_ns, struct event_sink sink)
{
	static const char *const threads[] = { "all threads", "threads of the range", "one thread" };
	scoped(freep) char *selection = step_selection_text(r->selection);
	scoped(freep) char *range = NULL;
	scoped(freep) char *filters = NULL;
	scoped(freep) char *depth = NULL;
	struct trace_event e = { .type = EVENT_RECORDING, .time_ns = time_ns };

	if (!selection || asprintf(&range, "%s%s%s%s", r->from ? "from " : RECORDING_FROM_START,
				   r->from ? r->from : "", r->to ? " to " : "", r->to ? r->to : "") < 0)
		return &wc_enomem;
	if (r->depth && asprintf(&depth, "depth %u, ", r->depth) < 0)
		return &wc_enomem;
	if (asprintf(&filters, "%s%s%s, strings of %u bytes, pointees of %u", selection, depth ? depth : "",
		     threads[r->threads], r->plans->string_max, r->plans->pointee_max) < 0)
		return &wc_enomem;
	e.recording = (struct recording_event){
		.stepper = r->stepper,
		.planner = r->planner,
		.range = range,
		.filters = filters,
		.instructions = r->instructions,
		.inputs = (uint8_t)r->inputs,
		.changes = r->changes,
	};
	return sink.put(sink.ctx, &e);
}
