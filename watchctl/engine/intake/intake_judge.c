/* Whether a hit is what its watch asked for: what it did, to which bytes, and what the filter says of it. */
#include <string.h>

#include "watchctl/code/insn/access.h"
#include "watchctl/engine/intake/intake_impl.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/target/proc/proc.h"

static bool needs_verdict(const struct intake_watch *w, const struct wire_record *r)
{
	return w->w.access == ACCESS_READ || w->w.want_size != w->w.size ||
	       (r->flags & (WIRE_TENTATIVE | WIRE_UNDECIDED));
}

/* What fired is the register; the values are those of the bytes asked for. */
static void intake_resolve(const struct intake_watch *w, const struct wire_record *r,
			   const struct access_event *a, struct access_query *q, struct access_verdict *ret)
{
	bool whole = w->w.want_size == w->w.size;

	q->regs = &a->regs;
	q->addr = r->addr ? r->addr : w->w.addr;
	q->size = w->w.size;
	q->armed = w->w.access == ACCESS_WRITE ? ACCESS_WRITE : ACCESS_READWRITE;
	q->steps_trap = dregs_steps_trap();
	q->has_old = a->has_old && !a->old_uncertain && whole;
	q->has_new = a->has_new && whole;
	q->old_value = a->old_value;
	q->new_value = a->new_value;
	access_resolve(q, ret);
}

static bool ranges_overlap(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b ? b - a < a_len : a - b < b_len;
}

/* Recorded because it might have been hit as well, by an instruction that hit another watch. */
static bool was_hit(const struct intake_watch *w, const struct wire_record *r, const struct access_verdict *v)
{
	uint64_t addr = r->addr ? r->addr : w->w.addr;

	return v->has_range && ranges_overlap(v->range_addr, v->range_len, addr, w->w.size) &&
	       (w->w.access != ACCESS_WRITE || (v->kind & ACCESS_WRITE));
}

/* Only what is known not to have been asked for is dropped. */
static bool is_unwanted(const struct intake_watch *w, const struct access_event *a,
			const struct access_verdict *v)
{
	if (w->w.access == ACCESS_READ && v->kind == ACCESS_WRITE)
		return true;
	return v->has_range && !ranges_overlap(v->range_addr, v->range_len, a->addr, a->size);
}

static void fill_input(const struct intake *in, const struct wire_record *r, const struct access_event *a,
		       const struct access_verdict *v, struct filter_input *ret)
{
	struct proc_status s;

	*ret = (struct filter_input){
		.known = FILTER_NEEDS_TID, .tid = r->tid, .old_value = a->old_value, .new_value = a->new_value
	};
	ret->known |= (a->has_old && !a->old_uncertain ? FILTER_NEEDS_OLD : 0) |
		      (a->has_new ? FILTER_NEEDS_NEW : 0);
	if (v->has_range) {
		ret->size = v->range_len;
		ret->known |= FILTER_NEEDS_SIZE;
	}
	if (proc_status_read(a->pid, a->tid, &s)) {
		memcpy(ret->name, s.name, sizeof(ret->name));
		ret->known |= FILTER_NEEDS_NAME;
	}
	/* Registers of another moment say nothing. */
	if (!(r->flags & WIRE_ASYNC)) {
		memcpy(ret->reg, r->regs.r, sizeof(r->regs.r));
		ret->known |= FILTER_NEEDS_REGS;
	}
}

/* The counter that those share who decide where the hit happens, if it is in memory that we share with them.
 */
static uint64_t *passed_counter(const struct intake *in, struct intake_watch *w)
{
	struct wire_control *shared = in->ring.area ? in->ring.area->mapped : NULL;

	return shared ? &shared->watch[w - in->watch].passed : &w->passed;
}

static bool is_due(const struct intake *in, struct intake_watch *w, uint64_t time_ns)
{
	const struct wire_filter *f = &w->filter;

	if (f->sample > 1 && __atomic_fetch_add(passed_counter(in, w), 1, __ATOMIC_RELAXED) % f->sample)
		return false;
	if (f->interval_ns && w->recorded_ns && time_ns - w->recorded_ns < f->interval_ns)
		return false;
	w->recorded_ns = time_ns;
	return true;
}

/* What cannot be decided here either is kept: a condition never hides what is not known. */
static bool passes_filter(const struct intake *in, struct intake_watch *w, const struct wire_record *r,
			  const struct trace_event *e, const struct access_verdict *v)
{
	const struct access_event *a = &e->access;
	int64_t scratch[FILTER_OPS];
	struct filter_input input;
	unsigned int bits = 0;
	uint32_t i;

	fill_input(in, r, a, v, &input);
	if (filter_condition(&w->filter, &input, scratch) == FILTER_DROP)
		return false;
	for (i = 0; i < a->nframes; i++)
		bits |= filter_caller_bits(&w->filter, i ? a->frame[i] - 1 : a->frame[i]);
	if (filter_callers(&w->filter, bits, walk_end_hides_callers(a->walk_end)) == FILTER_DROP)
		return false;
	return is_due(in, w, e->time_ns);
}

enum intake_fate intake_judge(const struct intake *in, struct intake_watch *w, const struct wire_record *r,
			      struct trace_event *e, struct access_query *code)
{
	struct access_verdict v = { 0 };

	if (r->flags & WIRE_KERNEL)
		kernel_access_fill(in->kernel, &w->w, r, &e->access, &v);
	/* Registers of another moment say nothing. */
	else if (!(r->flags & WIRE_ASYNC) && needs_verdict(w, r) && w->w.access != ACCESS_EXECUTE)
		intake_resolve(w, r, &e->access, code, &v);
	if ((r->flags & WIRE_TENTATIVE) && !was_hit(w, r, &v))
		return INTAKE_NEVER_WAS;
	if (is_unwanted(w, &e->access, &v))
		return INTAKE_FILTERED;
	if ((r->flags & WIRE_UNDECIDED) || ((r->flags & WIRE_TENTATIVE) && w->w.filter))
		return passes_filter(in, w, r, e, &v) ? INTAKE_KEEP : INTAKE_FILTERED;
	return INTAKE_KEEP;
}
