/* annotate_probe - the part of annotate for what probes record: sites with their places, events with their texts. */
#ifndef WATCHCTL_VIEW_EVENT_ANNOTATE_PROBE_H
#define WATCHCTL_VIEW_EVENT_ANNOTATE_PROBE_H

#include "watchctl/base/map64.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/frames.h"

struct annotate_probes;

/* @frames and @threads (pid and tid -> name) and @views must outlive it. NULL: no memory. */
struct annotate_probes *annotate_probes_new(struct frames *frames, const struct map64 *threads,
					    unsigned int flags, const struct views *views);

/* EVENT_PROBE_SITE to EVENT_PROBE_TOTAL. Fails only for lack of memory. */
struct wc_error *annotate_probes_put(struct annotate_probes *p, const struct trace_event *e,
				     struct view_time time, enum insn_syntax syntax);

/* So many records were lost, as an event of its own says. */
void annotate_probes_lost(struct annotate_probes *p, uint64_t count);

/* Reports a summary, once: @e, or (NULL) one from what was seen, if there was any probe. */
void annotate_probes_sum_up(struct annotate_probes *p, const struct summary_event *e, bool partial);

/* Accepts NULL. */
void annotate_probes_free(struct annotate_probes *p);

#endif
