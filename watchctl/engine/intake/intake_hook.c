#include "watchctl/engine/intake/intake_impl.h"

void intake_take_hook(struct intake *in, struct intake_watch *w, const struct wire_record *r)
{
	struct engine_hook hook = {
		.id = w->w.id,
		.pid = in->pid,
		.tid = followed_global_tid(in->pid, (pid_t)r->tid),
		.regs = r->regs,
	};

	if (in->hooks_wait || (in->ring.area && in->ring.tail <= in->behind)) {
		w->late = true;
		w->hook = hook;
		return;
	}
	in->hook_hit = true;
	in->hook = hook;
}

void intake_take_late_hook(struct intake *in)
{
	if (in->hooks_wait || in->ring.tail < in->behind)
		return;
	for (unsigned int i = 0; i < WIRE_WATCHES && !in->hook_hit; i++) {
		struct intake_watch *w = &in->watch[i];

		in->hook_hit = w->late;
		if (w->late)
			in->hook = w->hook;
		w->late = false;
	}
}
