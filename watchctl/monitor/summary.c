#include "watchctl/base/clock.h"
#include "watchctl/monitor/monitored.h"

void monitor_add_counts(struct engine_counts *sum, const struct engine_counts *c)
{
	sum->has_counted |= c->has_counted;
	sum->counted += c->counted;
	sum->recorded += c->recorded;
	sum->filtered += c->filtered;
	sum->lost_full += c->lost_full;
	sum->lost_merged += c->lost_merged;
	sum->replaced |= c->replaced;
	sum->ended |= c->ended;
	sum->corrupt |= c->corrupt;
}

static const char *why_merged(const struct engine_counts *c)
{
	return c->corrupt    ? "the program wrote into the event buffer, which was not read any further"
	       : c->replaced ? "the program had replaced watchctl's SIGTRAP handler"
	       : c->ended
		       ? "not read before the program ended, because the event buffer was in its own memory"
		       : "merged by the kernel with a hit not yet delivered";
}

static struct wc_error *report_lost(struct monitor *m, uint32_t watch, uint64_t count, const char *why_lost)
{
	struct trace_event e = { .type = EVENT_LOST,
				 .lost = { .watch = watch, .count = count, .why = why_lost } };

	return count ? monitor_put(m, &e) : NULL;
}

struct wc_error *monitor_report_summary(struct monitor *m, unsigned int i, const struct engine_counts *counts)
{
	struct trace_event e = { .type = EVENT_SUMMARY };
	const struct monitored *w = &m->watch[i];
	struct engine_counts c = *counts;
	struct wc_error *err = NULL;

	if (!w->reported)
		return NULL;
	monitor_add_counts(&c, &w->past);
	/* First what was recorded: it is held where captures are. */
	if (m->timeline)
		err = timeline_release(m->timeline, UINT64_MAX);
	if (!err)
		err = monitor_report_changes(m, i);
	if (!err)
		err = report_lost(m, w->id, c.lost_full,
				  "the event buffer was full (a larger --buffer loses fewer)");
	if (!err)
		err = report_lost(m, w->id, c.lost_merged, why_merged(&c));
	if (err)
		return err;
	e.summary = (struct summary_event){
		.watch = w->id,
		.has_counted = c.has_counted,
		.counted = c.counted,
		.recorded = w->forwarded,
		.lost = c.lost_full + c.lost_merged,
		.filtered = c.filtered + (c.recorded - w->forwarded),
		.duration_ns = monotonic_ns() - w->armed_ns,
	};
	return monitor_put(m, &e);
}
