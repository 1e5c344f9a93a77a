#include <stdlib.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/step/lldb/stepper_lldb_impl.h"

/* Reports the beginning or end of the present occurrence. @tid: in which; 0: in none. */
static struct wc_error *report_range(struct stepper *m, pid_t tid, enum range_what what)
{
	struct stepper_thread *t = stepper_thread_find(m, tid);
	struct step_record r = { .kind = STEP_RANGE,
				 .tid = tid ? tid : m->o.pid,
				 .range_what = what,
				 .occurrence = m->range.occurrence };

	return t ? stepper_report_of(m, t, &r) : stepper_report(m, &r);
}

static struct wc_error *report_ends(struct stepper *m, enum return_how how)
{
	const struct track_end *ended;
	const pid_t *tids;
	size_t n, i;
	struct wc_error *err = track_end_all(m->track, how, &ended, &tids, &n);

	for (i = 0; i < n && !err; i++) {
		struct stepper_thread *t = stepper_thread_find(m, tids[i]);

		if (t)
			err = stepper_report_ends(m, t, &ended[i], 1);
	}
	return err;
}

static struct wc_error *report_blocked(struct stepper *m, struct stepper_thread *t)
{
	const struct track_call *call = track_innermost(m->track, t->tid);
	struct step_record r = { .kind = STEP_BLOCKED,
				 .syscall = t->syscall,
				 .inside = call ? call->call : 0 };
	struct wc_error *err;
	uint8_t *stack;

	if (!t->recorded || !stepper_thread_load(m, t))
		return NULL;
	stack = stepper_thread_stack(m, t, &r.stack_len);
	if (!stack)
		return &wc_enomem;
	r.stack = stack;
	r.regs = t->regs;
	err = stepper_report_of(m, t, &r);
	free(stack);
	return err;
}

static struct wc_error *stepper_lldb_range_begin(struct stepper *m, pid_t tid)
{
	pid_t first = tid ? tid : m->o.pid;
	struct wc_error *err;
	size_t i;

	m->recording = true;
	m->entries = 0;
	m->counts.occurrences++;
	for (i = 0; i < m->nthreads; i++) {
		struct stepper_thread *t = m->thread[i];

		t->recorded = m->o.threads == STEPPER_THREADS_ALL || t->tid == first;
		t->fresh = t->tid == tid;
	}
	err = report_range(m, tid, RANGE_BEGIN);
	m->last_ns = monotonic_ns();
	return err ? err : stepper_places_sync(m);
}

/* The function that it began with is watched no longer. */
static struct wc_error *drop_from(struct stepper *m)
{
	struct place *p = m->from_tid ? stepper_place(m, m->from_return) : NULL;

	if (!m->from_tid)
		return NULL;
	m->from_tid = 0;
	if (!p)
		return &wc_enomem;
	p->once = false;
	return stepper_place_sync(m, p);
}

/* The recorded occurrence is told to have ended, and how, with what was open then. */
static struct wc_error *report_the_end(struct stepper *m, pid_t tid, enum range_what what,
				       enum return_how how)
{
	struct wc_error *err;
	size_t i;

	if (what == RANGE_EXITED || what == RANGE_EXECED) {
		err = report_ends(m, how);
		return err ? err : report_range(m, tid, what);
	}
	err = report_range(m, tid, what);
	for (i = 0; i < m->nthreads && !err && what == RANGE_STUCK; i++)
		err = report_blocked(m, m->thread[i]);
	return err ? err : report_ends(m, how);
}

/* The occurrence has ended, says m->range. */
static struct wc_error *stepper_lldb_range_end(struct stepper *m, pid_t tid, enum range_what what,
					       enum return_how how)
{
	struct wc_error *err = drop_from(m);
	size_t i;

	if (err || !m->recording)
		return err;
	err = report_the_end(m, tid, what, how);
	m->recording = false;
	for (i = 0; i < m->nthreads; i++)
		m->thread[i]->recorded = m->thread[i]->stepping = false;
	return err ? err : stepper_places_sync(m);
}

struct wc_error *stepper_range_start(struct stepper *m)
{
	range_init(&m->range, &m->o.range);
	if (m->range.state == RANGE_INSIDE)
		return stepper_lldb_range_begin(m, 0);
	return stepper_places_sync(m);
}

struct wc_error *stepper_range_at_from(struct stepper *m, struct stepper_thread *t, uint32_t point)
{
	struct wc_error *err = NULL;
	struct place *p;
	uint64_t to;

	if (!range_at_from(&m->range, t->tid, t->sp))
		return NULL;
	if (m->point[point].is_function && stepper_read(m, t->sp, &to, sizeof(to))) {
		p = stepper_place(m, to);
		if (!p)
			return &wc_enomem;
		m->from_tid = t->tid;
		m->from_sp = t->sp;
		m->from_return = to;
		p->once = true;
		err = stepper_place_sync(m, p);
	}
	if (!err && m->range.state == RANGE_INSIDE)
		err = stepper_lldb_range_begin(m, t->tid);
	return err;
}

struct wc_error *stepper_range_at_to(struct stepper *m, struct stepper_thread *t)
{
	return range_at_to(&m->range, t->tid) ? stepper_lldb_range_end(m, t->tid, RANGE_REACHED, RETURN_NEVER)
					      : NULL;
}

struct wc_error *stepper_range_from_ended(struct stepper *m)
{
	pid_t tid = m->from_tid;

	if (range_from_ended(&m->range, tid, m->from_sp))
		return stepper_lldb_range_end(m, tid, RANGE_RETURNED, RETURN_NEVER);
	return drop_from(m);
}

/* By itself, or by an exception or longjmp to where it was called. */
struct wc_error *stepper_range_look(struct stepper *m, struct stepper_thread *t)
{
	if (m->from_tid == t->tid && t->pc == m->from_return && t->sp > m->from_sp)
		return stepper_range_from_ended(m);
	return NULL;
}

struct wc_error *stepper_range_cut(struct stepper *m, pid_t tid, enum range_what what)
{
	if (!tid && what == RANGE_STUCK)
		tid = m->range.tid;
	return range_cut(&m->range) ? stepper_lldb_range_end(m, tid, what, RETURN_NEVER) : NULL;
}

struct wc_error *stepper_range_thread_ended(struct stepper *m, pid_t tid)
{
	return range_thread_ended(&m->range, tid) ? stepper_lldb_range_end(m, tid, RANGE_EXITED, RETURN_NEVER)
						  : NULL;
}

struct wc_error *stepper_range_over(struct stepper *m, enum range_what what, enum return_how how)
{
	return range_cut(&m->range) ? stepper_lldb_range_end(m, 0, what, how) : NULL;
}
