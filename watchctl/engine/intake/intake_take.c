#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handler/walk.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/time/tsc_clock.h"
#include "watchctl/engine/intake/intake_impl.h"

static uint64_t record_time(struct intake *in, const struct wire_record *r)
{
	uint64_t t;

	if (!(r->flags & WIRE_TIME_NS) && r->time > in->clock.tsc)
		tsc_clock_sample(&in->clock);
	t = r->flags & WIRE_TIME_NS ? r->time : tsc_clock_ns(&in->clock, r->time);
	/* The target's word: a time from the future, or from long ago, is not believed. */
	if (t > in->clock.ns)
		t = monotonic_ns() < t ? in->clock.ns : t;
	return t < in->clock.ns0 ? in->clock.ns0 : t;
}

static struct wc_error *report_jump(struct intake *in)
{
	char text[250];
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = in->clock.ns, .note.text = text };

	return tsc_clock_tell_jump(&in->clock, text, sizeof(text)) ? intake_put(in, &event) : NULL;
}

/* Once is enough: such a thread delivers all its hits so. */
struct wc_error *intake_report_blocked(struct intake *in, pid_t tid)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	char text[250];

	if (in->reported_blocked)
		return NULL;
	in->reported_blocked = true;
	snprintf(
		text, sizeof(text),
		"thread %d blocks SIGTRAP: meanwhile its hits are merged into one, which is reported late, with "
		"registers and stack of the later moment, or not at all; --engine ring records all of them",
		tid);
	event.note.text = text;
	return intake_put(in, &event);
}

static void fill_access(const struct intake_watch *w, const struct wire_record *r, struct access_event *a)
{
	a->watch = w->w.id;
	a->addr = w->w.want_addr;
	if (w->w.address && r->addr)
		a->addr = r->addr;
	a->size = w->w.want_size;
	a->has_old = r->flags & WIRE_HAS_OLD;
	a->has_new = r->flags & WIRE_HAS_NEW;
	a->old_value = r->old_value;
	a->new_value = r->new_value;
	a->regs = r->regs;
	a->displaced = r->flags & WIRE_ASYNC;
	a->in_kernel = r->flags & WIRE_KERNEL;
	a->syscall = a->in_kernel ? r->syscall : -1;
}

/* A further step of the access that was queued before it, by the same instruction of the kernel: part of it.
 */
static bool is_further_step(struct intake *in, struct intake_watch *w, const struct wire_record *r,
			    struct queued_access *q)
{
	struct access_event *a = &q->event.access, *before;

	q->goes_on = false;
	if (!(r->flags & WIRE_KERNEL))
		return false;
	q->goes_on = kernel_access_goes_on(in->kernel, &w->w, r);
	q->step_ns = q->event.time_ns;
	q->step_look = in->looks;
	for (size_t i = in->queued; i > in->handed && in->queued - i < INTAKE_STEPS_APART; i--) {
		struct queued_access *p = &in->queue[i - 1];

		before = &p->event.access;
		if (before->tid != a->tid || before->pid != a->pid)
			continue;
		if (!p->goes_on || before->watch != a->watch || before->addr != a->addr ||
		    before->kernel_kind != a->kernel_kind ||
		    before->regs.r[WREG_RSP] != a->regs.r[WREG_RSP] ||
		    before->regs.r[WREG_RIP] != a->regs.r[WREG_RIP])
			return false;
		before->has_new = a->has_new;
		before->new_value = a->new_value;
		p->goes_on = q->goes_on;
		p->step_ns = q->step_ns;
		p->step_look = q->step_look;
		w->steps++;
		return true;
	}
	return false;
}

/* What becomes of one record on its way into the queue. */
struct taking {
	const struct wire_record *r;
	struct intake_watch *w;
	struct queued_access *q;
	struct followed_process *process;
	struct access_query code; /* the facts about its instruction and its caller's */
};

/* Steps */

static struct wc_error *look_for_stuck(struct intake *in, struct taking *t)
{
	if (!(t->r->flags & WIRE_KERNEL))
		stuck_look(&in->stuck, in->pid, t->r);
	return NULL;
}

static struct wc_error *set_time(struct intake *in, struct taking *t)
{
	t->q->event = (struct trace_event){ .type = EVENT_ACCESS, .time_ns = record_time(in, t->r) };
	return NULL;
}

static struct wc_error *catch_up_with_modules(struct intake *in, struct taking *t)
{
	return intake_catch_up(in, t->q->event.time_ns);
}

static struct wc_error *set_access(struct intake *in, struct taking *t)
{
	(void)in;
	fill_access(t->w, t->r, &t->q->event.access);
	return NULL;
}

static struct wc_error *name_process(struct intake *in, struct taking *t)
{
	struct wc_error *err = NULL;

	t->process = followed_process(&in->who, t->r->pid, t->q->event.time_ns, &err);
	if (t->process)
		t->q->event.access.pid = t->process->pid;
	return err;
}

static struct wc_error *complete_stack(struct intake *in, struct taking *t)
{
	return intake_complete_stack(in, t->r, t->q->event.time_ns, t->process, t->q->frame,
				     &t->q->event.access);
}

static struct wc_error *name_thread(struct intake *in, struct taking *t)
{
	return followed_thread(&in->who, t->process, (pid_t)t->r->tid, t->q->event.time_ns,
			       &t->q->event.access.tid);
}

/* Of a hit that came late, registers and stack are of another moment: no instruction is looked for. */
static struct wc_error *know_instruction(struct intake *in, struct taking *t)
{
	const struct access_event *a = &t->q->event.access;

	return a->displaced ? intake_report_blocked(in, a->tid)
			    : intake_know_code(in, a, t->q->event.time_ns, &t->code);
}

static struct wc_error *correct_values(struct intake *in, struct taking *t)
{
	intake_correct_values(in, t->w, t->r, &t->code, &t->q->event);
	return NULL;
}

static struct wc_error *judge_and_queue(struct intake *in, struct taking *t)
{
	enum intake_fate fate = intake_judge(in, t->w, t->r, &t->q->event, &t->code);

	t->w->seen += fate != INTAKE_NEVER_WAS;
	t->w->filtered += fate == INTAKE_FILTERED;
	if (fate != INTAKE_KEEP || is_further_step(in, t->w, t->r, t->q))
		return NULL;
	t->w->recorded++;
	in->queued++;
	return NULL;
}

/* The way of a hit from the record to the queue, in order; an error ends it. */
static struct wc_error *(*const steps[])(struct intake *in, struct taking *t) = {
	look_for_stuck, set_time,    catch_up_with_modules, set_access,	    name_process,
	complete_stack, name_thread, know_instruction,	    correct_values, judge_and_queue,
};

/*
 * An instruction that a patch has moved runs as a copy: what it did is told of where it stands in the program. Returns @r, or a copy
 * of it in *ret, which is the caller's.
 */
static const struct wire_record *as_without_patches(struct intake *in, const struct wire_record *r,
						    struct wire_record **ret)
{
	const uint64_t rip = r->regs.r[WREG_RIP], original = code_facts_original(in->facts, rip);
	uint64_t *frames;
	struct regs *outer;

	if (!original || r->size < sizeof(*r) + 8 * (uint64_t)r->nframes + sizeof(*outer))
		return r;
	*ret = malloc(r->size);
	if (!*ret)
		return r;
	memcpy(*ret, r, r->size);
	frames = (uint64_t *)(*ret + 1);
	outer = (struct regs *)(frames + r->nframes);
	(*ret)->regs.r[WREG_RIP] = original;
	if (r->nframes && frames[0] == rip)
		frames[0] = original;
	if (outer->r[WREG_RIP] == rip)
		outer->r[WREG_RIP] = original;
	return *ret;
}

struct wc_error *intake_take_in(struct intake *in, const struct wire_record *record)
{
	scoped(freep) struct wire_record *copy = NULL;
	const struct wire_record *r = as_without_patches(in, record, &copy);
	struct taking t = { .r = r, .w = &in->watch[r->watch], .q = &in->queue[in->queued] };
	struct wc_error *err = r->flags & WIRE_TIME_NS ? NULL : report_jump(in);

	if (err)
		return err;
	if (!t.w->w.size || (r->flags & WIRE_SELF_TEST)) {
		t.w->seen++;
		return NULL;
	}
	if (t.w->w.hook) {
		t.w->seen++;
		intake_take_hook(in, t.w, r);
		return NULL;
	}
	for (size_t i = 0; !err && i < sizeof(steps) / sizeof(*steps); i++)
		err = steps[i](in, &t);
	return err;
}
