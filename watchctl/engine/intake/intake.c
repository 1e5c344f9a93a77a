#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "handler/walk.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/tsc_clock.h"
#include "watchctl/engine/intake/access_fact.h"
#include "watchctl/engine/intake/intake_impl.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/engine/plan/watch_home.h"
#include "watchctl/target/proc/proc.h"

#define PASS_NS 20000000ull /* how long one pass may take */
#define LOOK_NS 1000000ull  /* while handing out: how often it looks for new records */
#define QUEUE_MAX 4096u
#define TAKE_MAX \
	(4u * QUEUE_MAX) /* records in one go: of those that are dropped, there may be any number \
			  */
#define STEPS_APART 128u /* accesses by other threads between two steps of one */

/*
 * A further step comes at once, but for a busy machine: it may run others between the two traps, or between
 * our two looks at the records. So it is waited for this long, and for so many looks.
 */
#define STEP_NS 200000000ull
#define STEP_LOOKS 3u
#define STEP_PAUSE_NS 200000

static struct wc_error *put(void *ctx, const struct trace_event *event)
{
	return intake_put(ctx, event);
}

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
	q->has_old = a->has_old && whole;
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
	ret->known |= (a->has_old ? FILTER_NEEDS_OLD : 0) | (a->has_new ? FILTER_NEEDS_NEW : 0);
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
	if (filter_callers(&w->filter, bits, false) == FILTER_DROP)
		return false;
	return is_due(in, w, e->time_ns);
}

enum fate { KEEP, FILTERED, NEVER_WAS };

static enum fate judge(const struct intake *in, struct intake_watch *w, const struct wire_record *r,
		       struct trace_event *e, struct access_query *q)
{
	struct access_verdict v = { 0 };

	if (r->flags & WIRE_KERNEL)
		kernel_access_fill(in->kernel, &w->w, r, &e->access, &v);
	/* Registers of another moment say nothing. */
	else if (!(r->flags & WIRE_ASYNC) && needs_verdict(w, r) && w->w.access != ACCESS_EXECUTE)
		intake_resolve(w, r, &e->access, q, &v);
	if ((r->flags & WIRE_TENTATIVE) && !was_hit(w, r, &v))
		return NEVER_WAS;
	if (is_unwanted(w, &e->access, &v))
		return FILTERED;
	if ((r->flags & WIRE_UNDECIDED) || ((r->flags & WIRE_TENTATIVE) && w->w.filter))
		return passes_filter(in, w, r, e, &v) ? KEEP : FILTERED;
	return KEEP;
}

/* Once is enough: such a thread delivers all its hits so. */
struct wc_error *intake_report_blocked(struct intake *in, pid_t tid)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	char text[250];

	if (in->reported_blocked)
		return NULL;
	in->reported_blocked = true;
	snprintf(text, sizeof(text),
		 "thread %d blocks SIGTRAP: its hits are merged while it does, and come late, with registers "
		 "and stack of "
		 "that later moment, or not at all; --engine ring records them",
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

/* The handler read memory, not knowing the instruction: what that one moved is exact. */
static void correct_value(const struct intake *in, const struct intake_watch *w, const struct wire_record *r,
			  const struct access_query *q, uint64_t time_ns, struct access_event *a)
{
	struct wire_access_fact fact;
	uint64_t value;

	if (!q->pc || w->w.access == ACCESS_EXECUTE)
		return;
	if (!(r->flags & (WIRE_NO_FACT | WIRE_KERNEL))) {
		if (in->samples || code_facts_doubt(in->facts, a->frame[0], time_ns) == CODE_SURE)
			return;
		a->has_new = false; /* by a fact about other code, perhaps */
	}
	if (!access_fact_make(q->pc, &fact) ||
	    !wire_value_from_fact(&fact, &a->regs, a->addr, a->size, &value))
		return;
	a->new_value = wire_truncate(value, a->size);
	a->has_new = true;
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
	for (size_t i = in->queued; i > in->handed && in->queued - i < STEPS_APART; i--) {
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

/* One record into the queue, with all that it needs made known. */
static struct wc_error *take_in(struct intake *in, const struct wire_record *r)
{
	struct intake_watch *w = &in->watch[r->watch];
	struct queued_access *q = &in->queue[in->queued];
	struct access_event *a = &q->event.access;
	struct access_query query = { 0 };
	struct followed_process *process;
	struct wc_error *err;
	uint64_t time_ns;
	enum fate fate;

	if (!w->w.size || (r->flags & WIRE_SELF_TEST)) {
		w->seen++;
		return NULL;
	}
	if (w->w.hook) {
		w->seen++;
		intake_take_hook(in, w, r);
		return NULL;
	}
	if (!(r->flags & WIRE_KERNEL))
		stuck_look(&in->stuck, in->pid, r);
	time_ns = record_time(in, r);
	err = intake_catch_up(in, time_ns);
	if (err)
		return err;
	q->event = (struct trace_event){ .type = EVENT_ACCESS, .time_ns = time_ns };
	fill_access(w, r, a);
	process = followed_process(&in->who, r->pid, time_ns, &err);
	if (!process)
		return err;
	a->pid = process->pid;
	err = intake_complete_stack(in, r, time_ns, process, q->frame, a);
	if (!err)
		err = followed_thread(&in->who, process, (pid_t)r->tid, time_ns, &a->tid);
	if (!err && a->displaced)
		err = intake_report_blocked(in, a->tid);
	else if (!err)
		err = intake_know_code(in, a, time_ns, &query);
	if (err)
		return err;
	correct_value(in, w, r, &query, time_ns, a);
	fate = judge(in, w, r, &q->event, &query);
	w->seen += fate != NEVER_WAS;
	w->filtered += fate == FILTERED;
	if (fate == KEEP && is_further_step(in, w, r, q))
		return NULL;
	w->recorded += fate == KEEP;
	in->queued += fate == KEEP;
	return NULL;
}

void intake_arm(struct intake *in, unsigned int i, const struct watchpoint *w)
{
	struct intake_watch *iw = &in->watch[i];

	free(iw->home);
	*iw = (struct intake_watch){ .w = *w };
	iw->home = in->facts ? watch_home(code_facts_modules(in->facts), w) : NULL;
	if (!w->want_size) {
		iw->w.want_addr = w->addr;
		iw->w.want_size = w->size;
	}
	if (w->filter) {
		iw->filter = *w->filter;
		iw->w.filter = &iw->filter;
	}
}

/* Empties the ring into the queue. */
static struct wc_error *take_all_in(struct intake *in, bool *any)
{
	const struct wire_record *r;
	struct wc_error *err = NULL;
	unsigned int n;

	if (!in->ring.area)
		return NULL;
	tsc_clock_sample(&in->clock);
	intake_take_late_hook(in);
	for (n = 0; !err && !in->hook_hit && !in->corrupt && in->queued < QUEUE_MAX && n < TAKE_MAX; n++) {
		enum ring_result result = ring_next(&in->ring, &r);

		in->corrupt = result == RING_CORRUPT;
		if (result != RING_RECORD)
			break;
		*any = true;
		err = take_in(in, r);
		if (in->queued % 32 == 0)
			ring_release(&in->ring);
	}
	ring_release(&in->ring);
	return err;
}

/* The next one to be handed out may get a further step yet; not when so many came after it. */
static bool is_unfinished(const struct intake *in, uint64_t now)
{
	const struct queued_access *q = &in->queue[in->handed];

	return in->handed < in->queued && q->goes_on && in->queued - in->handed <= STEPS_APART &&
	       (now < q->step_ns + STEP_NS || in->looks < q->step_look + STEP_LOOKS);
}

/* What waits must not take the place of what comes. */
static void move_to_front(struct intake *in)
{
	memmove(in->queue, in->queue + in->handed, (in->queued - in->handed) * sizeof(*in->queue));
	in->queued -= in->handed;
	in->handed = 0;
}

struct wc_error *intake_report_departures(struct intake *in, uint64_t n)
{
	struct wc_error *err = in->begun ? code_facts_hear(in->facts) : NULL;

	departures_were(&in->departures, n);
	return err ? err : departures_report_all(&in->departures, (struct event_sink){ put, in });
}

void intake_forget(struct intake *in, unsigned int i)
{
	in->watch[i].w.size = 0;
	in->watch[i].w.hook = false;
}

struct wc_error *intake_pass(struct intake *in, bool *any)
{
	uint64_t end, looked;
	struct wc_error *err;

	*any = false;
	if (!in->begun)
		return NULL;
	*any = in->queued > in->handed;
	in->looks++;
	code_facts_bound(in->facts);
	followed_bound(&in->who);
	err = code_facts_hear(in->facts);
	if (!err)
		err = departures_report(&in->departures, (struct event_sink){ put, in });
	if (!err)
		err = take_all_in(in, any);
	looked = monotonic_ns();
	end = looked + PASS_NS;
	while (!err && in->handed < in->queued && !is_unfinished(in, looked)) {
		uint64_t now;

		err = intake_hand_out_one(in);
		now = in->handed % 16 ? looked : monotonic_ns();
		if (err || now - looked < LOOK_NS)
			continue;
		looked = now;
		err = take_all_in(in, any);
		if (now > end)
			break;
	}
	if (in->handed == in->queued)
		in->handed = in->queued = 0;
	if (!err && !*any)
		err = intake_catch_up_idle(in);
	if (!err && is_unfinished(in, looked)) {
		move_to_front(in);
		nanosleep(&(struct timespec){ .tv_nsec = STEP_PAUSE_NS }, NULL);
	}
	return err;
}

bool intake_has_room(const struct intake *in)
{
	return in->queued < QUEUE_MAX;
}

struct wc_error *intake_take(struct intake *in, const struct wire_record *r)
{
	tsc_clock_sample(&in->clock);
	return take_in(in, r);
}

struct wc_error *intake_init(struct intake *in, pid_t pid, const struct engine_options *o,
			     struct event_sink sink, const struct wire_area *area,
			     const struct wire_control *layout)
{
	struct wc_error *err;

	in->pid = pid;
	in->frames = o->frames;
	in->sink = sink;
	followed_init(&in->who, pid, (struct event_sink){ put, in });
	in->queue = calloc(QUEUE_MAX, sizeof(*in->queue));
	tsc_clock_sample(&in->clock);
	if (!in->queue || (layout && !ring_init(&in->ring, area, layout->ring_offset, layout->ring_size,
						layout->commit_key)))
		return &wc_enomem;
	err = intake_code_init(in, area, o->follow_fork);
	in->begun = in->facts;
	return err;
}

void intake_deinit(struct intake *in)
{
	followed_deinit(&in->who);
	ring_deinit(&in->ring);
	code_facts_free(in->facts);
	free(in->queue);
	for (unsigned int i = 0; i < WIRE_WATCHES; i++)
		free(in->watch[i].home);
	*in = (struct intake){ 0 };
}
