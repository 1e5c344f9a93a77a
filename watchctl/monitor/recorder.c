#include "watchctl/monitor/recorder.h"

#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"

struct recorder {
	struct tracelog_writer *log;
	struct event_sink next;
};

static struct wc_error *open_log(const char *path, const struct tracelog_bounds *b, struct event_sink next,
				 struct recorder **ret)
{
	scoped(freep) struct recorder *r = calloc(1, sizeof(*r));
	struct wc_error *err;

	if (!r)
		return &wc_enomem;
	r->next = next;
	err = b ? tracelog_writer_open_ring(path, b, &r->log) : tracelog_writer_open(path, &r->log);
	if (err)
		return err;
	*ret = take_ptr(r);
	return NULL;
}

struct wc_error *recorder_open(const char *path, struct event_sink next, struct recorder **ret)
{
	return open_log(path, NULL, next, ret);
}

struct wc_error *recorder_open_ring(const char *path, const struct tracelog_bounds *b, struct event_sink next,
				    struct recorder **ret)
{
	return open_log(path, b, next, ret);
}

static struct wc_error *recorder_put(void *ctx, const struct trace_event *e)
{
	struct recorder *r = ctx;
	struct event_sink log = tracelog_writer_sink(r->log);
	struct wc_error *err = log.put(log.ctx, e);

	return err ? err : r->next.put(r->next.ctx, e);
}

struct event_sink recorder_sink(struct recorder *r)
{
	return (struct event_sink){ recorder_put, r };
}

struct wc_error *recorder_note(struct recorder *r, const char *text)
{
	const struct trace_event e = { .type = EVENT_NOTE, .time_ns = monotonic_ns(), .note.text = text };
	struct event_sink log = tracelog_writer_sink(r->log);

	return log.put(log.ctx, &e);
}

struct wc_error *recorder_flush(struct recorder *r)
{
	return tracelog_writer_flush(r->log);
}

struct wc_error *recorder_close(struct recorder *r)
{
	struct wc_error *err;

	if (!r)
		return NULL;
	err = tracelog_writer_close(r->log);
	free(r);
	return err;
}

void recorder_discard(struct recorder *r)
{
	if (!r)
		return;
	tracelog_writer_discard(r->log);
	free(r);
}
