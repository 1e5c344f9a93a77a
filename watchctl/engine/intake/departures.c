#include "watchctl/engine/intake/departures.h"

#include <stdio.h>

#include "watchctl/base/clock.h"

void departures_add(struct departures *d, pid_t pid, const char *program, uint64_t time_ns)
{
	if (d->named < DEPARTURES_REPORTED) {
		struct departure *one = &d->first[d->named++];

		one->pid = pid;
		one->time_ns = time_ns;
		snprintf(one->program, sizeof(one->program), "%s", program);
	}
	d->n++;
}

void departures_were(struct departures *d, uint64_t n)
{
	d->n = n > d->n ? n : d->n;
}

static struct wc_error *report(struct event_sink sink, const char *text, uint64_t time_ns)
{
	struct trace_event e = { .type = EVENT_NOTE, .time_ns = time_ns, .note.text = text };

	return sink.put(sink.ctx, &e);
}

struct wc_error *departures_report(struct departures *d, struct event_sink sink)
{
	struct wc_error *err = NULL;
	char text[160];

	while (!err && d->reported < d->named) {
		const struct departure *one = &d->first[d->reported++];

		snprintf(
			text, sizeof(text),
			"process %d, a followed child, has executed another program (%s): it is no longer watched",
			one->pid, one->program);
		err = report(sink, text, one->time_ns);
	}
	return err;
}

struct wc_error *departures_report_all(struct departures *d, struct event_sink sink)
{
	struct wc_error *err = departures_report(d, sink);
	uint64_t more = d->n - d->named;
	bool one = more == 1;
	char text[160];

	if (err || !more)
		return err;
	snprintf(text, sizeof(text),
		 "%llu%s of the followed children %s executed another program, and %s no longer watched",
		 (unsigned long long)more, d->named ? " more" : "", one ? "has" : "have",
		 one ? "was" : "were");
	*d = (struct departures){ 0 };
	return report(sink, text, monotonic_ns());
}
