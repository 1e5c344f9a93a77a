#include "watchctl/step/model/range.h"

#include <string.h>

static bool lasts(const struct range *r)
{
	return r->state == RANGE_INSIDE || r->state == RANGE_SKIPPING;
}

static void range_begin(struct range *r, pid_t tid, uint64_t sp)
{
	r->occurrence++;
	r->tid = tid;
	r->sp = sp;
	r->state = r->occurrence >= r->options.occurrence ? RANGE_INSIDE : RANGE_SKIPPING;
}

static bool range_end(struct range *r)
{
	const struct range_options *o = &r->options;
	uint32_t first = o->occurrence ? o->occurrence : 1;

	if (!lasts(r))
		return false;
	/* Without a beginning there is no second one. */
	if (!o->has_from || (o->count && r->occurrence >= first && r->occurrence - first + 1 >= o->count))
		r->state = RANGE_DONE;
	else
		r->state = RANGE_OUTSIDE;
	r->tid = 0;
	r->sp = 0;
	return true;
}

void range_init(struct range *r, const struct range_options *o)
{
	memset(r, 0, sizeof(*r));
	r->options = *o;
	r->state = RANGE_OUTSIDE;
	if (!o->has_from)
		range_begin(r, 0, 0);
}

bool range_at_from(struct range *r, pid_t tid, uint64_t sp)
{
	r->from_seen++;
	if (r->state != RANGE_OUTSIDE || !r->options.has_from)
		return false;
	range_begin(r, tid, sp);
	return true;
}

bool range_at_to(struct range *r, pid_t tid)
{
	(void)tid; /* any thread's will do */
	r->to_seen++;
	return r->options.has_to && range_end(r);
}

bool range_from_ended(struct range *r, pid_t tid, uint64_t sp)
{
	if (!lasts(r) || !r->options.from_is_function || r->tid != tid || r->sp != sp)
		return false;
	return range_end(r);
}

bool range_cut(struct range *r)
{
	return range_end(r);
}

bool range_thread_ended(struct range *r, pid_t tid)
{
	return lasts(r) && r->tid && r->tid == tid && range_end(r);
}
