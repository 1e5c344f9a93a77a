#include "watchctl/base/error.h"
#include "watchctl/engine/intake/intake_impl.h"

struct wc_error *intake_put(struct intake *in, const struct trace_event *event)
{
	struct wc_error *err = in->muted ? NULL : in->sink.put(in->sink.ctx, event);

	in->muted = in->muted || err;
	return err;
}

struct wc_error *intake_hand_out_one(struct intake *in)
{
	struct queued_access *q = &in->queue[in->handed++];

	q->event.access.frame = q->frame;
	return intake_put(in, &q->event);
}

struct wc_error *intake_report_queued(struct intake *in)
{
	struct wc_error *err = NULL;

	while (in->handed < in->queued)
		err = wc_error_first(err, intake_hand_out_one(in));
	return err;
}

struct wc_error *intake_hand_out(struct intake *in)
{
	struct wc_error *err = intake_report_queued(in);

	in->handed = in->queued = 0;
	return err;
}
