#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "handler/walk.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/engine/intake/intake_impl.h"

#define MODULES_MIN_NS 20000000ull /* how often an address in no module makes it look at the modules */
#define CODE_MIN_NS 200000ull	   /* how often it compares what is mapped, at most */
#define CODE_SHARE 20u		   /* and then for one part in so many of the time */
#define LATE_NS 50000000ull	   /* records come no later than this after the access, where none wait */

struct raw_stack {
	const uint8_t *bytes;
	uint64_t addr, len;
};

static bool read_raw(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct raw_stack *raw = ctx;

	if (addr < raw->addr || addr - raw->addr > raw->len || len > raw->len - (addr - raw->addr))
		return false;
	memcpy(buf, raw->bytes + (addr - raw->addr), len);
	return true;
}

/* Modules */

static struct wc_error *report_homes(struct intake *in)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	char text[PATH_MAX + 200];

	event.note.text = text;
	for (unsigned int i = 0; i < WIRE_WATCHES; i++) {
		struct intake_watch *w = &in->watch[i];
		struct wc_error *err;

		if (!w->w.size ||
		    !watch_home_look(&w->home, code_facts_modules(in->facts), &w->w, text, sizeof(text)))
			continue;
		err = intake_put(in, &event);
		if (err)
			return err;
	}
	return NULL;
}

static struct wc_error *intake_code_refresh(struct intake *in, uint64_t now, bool *changed)
{
	struct wc_error *err = code_facts_refresh(in->facts, in->code_ns, changed);

	in->modules_ns = in->code_ns = now;
	return err || !*changed ? err : report_homes(in);
}

struct wc_error *intake_catch_up(struct intake *in, uint64_t time_ns)
{
	bool changed = false;
	struct wc_error *err = code_facts_catch_up(in->facts, time_ns, &changed);
	uint64_t now;

	if (!err && changed)
		err = report_homes(in);
	if (err || !code_facts_want_look(in->facts))
		return err;
	now = monotonic_ns();
	return now - in->modules_ns < MODULES_MIN_NS ? NULL : intake_code_refresh(in, now, &changed);
}

struct wc_error *intake_catch_up_idle(struct intake *in)
{
	uint64_t now = monotonic_ns();

	return intake_catch_up(in, now > LATE_NS ? now - LATE_NS : 0);
}

/*
 * A library may have come where another was, and nobody reported: before a record is believed that is younger
 * than our last look at what is mapped, we look again, as often as can be afforded.
 */
static struct wc_error *compare_code(struct intake *in, uint64_t time_ns)
{
	struct wc_error *err = NULL;
	uint64_t now, begin;
	bool changed;

	if (time_ns < in->code_ns + in->code_every_ns)
		return NULL;
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID); /* not time: a look may wait long for a CPU */
	now = monotonic_ns();
	if (code_facts_moved(in->facts))
		err = intake_code_refresh(in, now, &changed);
	in->code_ns = now;
	in->code_every_ns = CODE_SHARE * (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
	if (in->code_every_ns < CODE_MIN_NS)
		in->code_every_ns = CODE_MIN_NS;
	return err;
}

struct wc_error *intake_refresh_modules(struct intake *in, uint64_t now_ns, uint64_t min_age_ns)
{
	bool changed;

	return now_ns - in->modules_ns < min_age_ns ? NULL : intake_code_refresh(in, now_ns, &changed);
}

struct wc_error *intake_other_program(struct intake *in)
{
	bool changed;
	struct wc_error *err = intake_report_queued(in);

	in->modules_ns = in->code_ns = monotonic_ns();
	in->execed = false;
	followed_other_program(&in->who);
	return err ? err : code_facts_restart(in->facts, &changed);
}

bool intake_is_reported(const struct intake *in)
{
	return code_facts_are_reported(in->facts);
}

/* An address in no module we know: look again, unless we just did and found nothing new (a JIT's code). */
static struct wc_error *look_for_module(struct intake *in, bool *ret_looked)
{
	uint64_t now = monotonic_ns();
	bool changed = false;
	struct wc_error *err;

	*ret_looked = now - in->modules_ns >= in->modules_backoff_ns;
	if (!*ret_looked)
		return NULL;
	err = intake_code_refresh(in, now, &changed);
	in->modules_backoff_ns = changed ? 0 : MODULES_MIN_NS;
	return err;
}

/* The same of a child, which does not say what it maps. */
static struct wc_error *look_at_child(struct intake *in, struct followed_process *p, bool *ret_looked)
{
	uint64_t now = monotonic_ns();
	bool changed;

	if (p->pid == in->pid || code_facts_hear_children(in->facts) || now - p->searched_ns < MODULES_MIN_NS)
		return NULL;
	p->searched_ns = now;
	*ret_looked = true;
	return code_facts_look_at_child(in->facts, p->pid, &changed);
}

/* Stacks */

/*
 * The handler may have met code it has no rule for: we walk on from there, and the rules go back to it.
 * @final: the modules are those of now. Returns how many frames there are.
 */
static unsigned int walk_on(struct intake *in, const struct wire_record *r, bool final, uint64_t *frame,
			    enum walk_end *why)
{
	const uint64_t *frames = (const uint64_t *)(r + 1);
	const struct regs *outer = (const struct regs *)(frames + r->nframes);
	struct raw_stack raw = { (const uint8_t *)(outer + 1), r->raw_addr, r->raw_len };
	struct memory_view mem = { read_raw, &raw };
	unsigned int cap = in->frames < WIRE_FRAMES ? in->frames : WIRE_FRAMES;
	unsigned int n = r->nframes;

	*why = (enum walk_end)r->walk_end;
	memcpy(frame, frames, 8 * r->nframes);
	code_facts_check(in->facts, frame, &n, why);
	if (*why == WALK_END_UNKNOWN_PC)
		*why = code_facts_walk(in->facts, *outer, r->flags & WIRE_EXACT_PC, &mem, final, frame, &n,
				       cap);
	return n;
}

/* The first @walked of the @n frames were walked by published rules, which may have been those of other code.
 */
static unsigned int sure_frames(const struct intake *in, const uint64_t *frame, unsigned int n,
				unsigned int walked, uint64_t time_ns)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		enum code_doubt doubt = code_facts_doubt(in->facts, frame[i], time_ns);

		if (doubt == CODE_IN_DOUBT)
			return i ? i : 1;
		if (doubt == CODE_RULES_IN_DOUBT && i + 1 < walked)
			return i + 1;
	}
	return n;
}

/* Rules of the target's code say nothing about other code that a child has mapped at the same place. */
static unsigned int frames_of(struct intake *in, struct followed_process *p, const uint64_t *frame,
			      unsigned int n)
{
	n = code_facts_shared(in->facts, p->pid, frame, n);
	if (p->pid == in->pid || code_facts_hear_children(in->facts))
		return n;
	return followed_frames(p, code_facts_modules(in->facts), frame, n, monotonic_ns());
}

/* Once: what is missing everywhere has one reason. */
static struct wc_error *report_once(struct intake *in, bool *reported, const char *text, uint64_t time_ns)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = time_ns, .note.text = text };

	if (*reported)
		return NULL;
	*reported = true;
	return intake_put(in, &event);
}

static struct wc_error *report_unknown(struct intake *in, const uint64_t *frame, unsigned int n,
				       uint64_t time_ns)
{
	char text[300];
	unsigned int i;

	for (i = 0; i < n && code_facts_covers(in->facts, frame[i]); i++)
		;
	if (i == n || !code_facts_over(in->facts))
		return NULL;
	snprintf(
		text, sizeof(text),
		"the code mapped at 0x%llx is not known: process %d has ended, and %s. Frames there have no names, "
		"and stacks end there",
		(unsigned long long)frame[i], in->pid,
		intake_is_reported(in)
			? "its file has been removed or replaced since, or the kernel did not report the mapping"
			: "perf events, by which the kernel would have reported the mapping, are not permitted");
	return report_once(in, &in->reported_unknown, text, time_ns);
}

/* The file was there when it was mapped, and could be looked at then. */
static struct wc_error *report_lost_file(struct intake *in, uint64_t frame, uint64_t time_ns)
{
	const struct module *m = module_find(code_facts_modules(in->facts), frame);
	char text[PATH_MAX + 150];

	if (in->reported_lost_file || !m || m->open_path[0] != '/' || access(m->open_path, R_OK) == 0)
		return NULL;
	snprintf(
		text, sizeof(text),
		"%s can no longer be opened, because it was removed or replaced after it was mapped. Frames there "
		"have no names, and stacks end there",
		m->path);
	return report_once(in, &in->reported_lost_file, text, time_ns);
}

struct wc_error *intake_complete_stack(struct intake *in, const struct wire_record *r, uint64_t time_ns,
				       struct followed_process *p, uint64_t *frame, struct access_event *a)
{
	struct wc_error *err = compare_code(in, time_ns);
	enum walk_end why;
	unsigned int n, sure;

	if (err)
		return err;
	n = walk_on(in, r, false, frame, &why);
	if (code_facts_met_unknown(in->facts)) {
		bool looked;

		err = look_for_module(in, &looked);
		if (!err)
			err = look_at_child(in, p, &looked);
		if (err)
			return err;
		n = walk_on(in, r, looked, frame, &why);
		if (code_facts_met_unknown(in->facts))
			err = report_unknown(in, frame, n, time_ns);
		if (err)
			return err;
	}
	if (why == WALK_END_NO_RULE && n)
		err = report_lost_file(in, frame[n - 1], time_ns);
	if (err)
		return err;
	sure = frames_of(in, p, frame, sure_frames(in, frame, n, in->samples ? 0 : r->nframes, time_ns));
	if (sure < n) {
		n = sure ? sure : 1;
		why = WALK_END_NO_RULE;
	}
	a->nframes = n;
	a->walk_end = (uint8_t)why;
	a->frame = frame;
	return NULL;
}

struct wc_error *intake_know_code(struct intake *in, const struct access_event *a, uint64_t now,
				  struct access_query *q)
{
	struct wc_error *err = code_facts_at(in->facts, a->frame[0], now, &q->pc);

	if (!err && a->nframes > 1)
		err = code_facts_at(in->facts, a->frame[1], now, &q->caller);
	return err;
}

/* Beginning */

static struct wc_error *intake_code_put(void *ctx, const struct trace_event *event)
{
	return intake_put(ctx, event);
}

static struct wc_error *intake_code_flush(void *ctx)
{
	return intake_report_queued(ctx);
}

static struct wc_error *report_child(void *ctx, pid_t pid, uint64_t time_ns)
{
	struct intake *in = ctx;

	return followed_report(&in->who, pid, time_ns);
}

static void take_task(void *ctx, const struct map_event *e)
{
	struct intake *in = ctx;

	if (e->kind == MAP_EVENT_EXEC && e->pid == in->pid)
		in->execed = true;
	else if (e->kind == MAP_EVENT_EXEC && followed_is_ours(&in->who, e->pid, e->pid))
		departures_add(&in->departures, e->pid, e->name, e->time_ns);
	else if (e->kind == MAP_EVENT_NAME && followed_is_ours(&in->who, e->pid, e->tid))
		followed_named(&in->who, e->tid, e->name);
	else if (e->kind == MAP_EVENT_END && e->pid == in->pid)
		thread_ends_ended(&in->ends, e->tid, e->time_ns);
	else if (e->kind == MAP_EVENT_FORK)
		followed_born(&in->who, e->tid, e->parent_tid);
	if (e->kind == MAP_EVENT_FORK && e->pid == in->pid)
		thread_ends_born(&in->ends, e->tid, e->time_ns);
}

struct wc_error *intake_code_init(struct intake *in, const struct wire_area *area, bool family)
{
	const struct code_facts_hooks hooks = { intake_code_flush, report_child, take_task, in };
	struct wc_error *err;
	bool changed;

	in->facts = code_facts_new(in->pid, area, (struct event_sink){ intake_code_put, in });
	if (!in->facts)
		return &wc_enomem;
	if (code_facts_listen(in->facts, family, &hooks))
		followed_hears(&in->who);
	in->code_ns = monotonic_ns();
	err = intake_code_refresh(in, in->code_ns, &changed);
	if (!err)
		code_facts_warm_up(in->facts);
	return err;
}
