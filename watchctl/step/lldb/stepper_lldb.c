#include "watchctl/step/lldb/stepper_lldb.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/step/lldb/stepper_lldb_impl.h"
#include "watchctl/step/ptrace/step_errno.h"
#include "watchctl/target/stop/tracee.h"

#define NS_PER_MS 1000000ull
#define ERRNO_TRIES 3u
#define AGAIN_NS \
	300000000ull /* LLDB may miss an interrupt that comes while it is between two stops of its own */

static struct wc_error *lldb_close(struct stepper *m);

static struct wc_error *get_process(struct stepper *m)
{
	if (m->o.host) {
		m->process = m->o.host;
		lldb_process_borrow(m->process);
		return NULL;
	}
	m->owns_process = true;
	return m->o.held ? lldb_process_take_over(m->o.held, &m->process)
			 : lldb_process_attach(m->o.pid, &m->process);
}

static struct wc_error *stepper_lldb_prepare(struct stepper *m)
{
	struct wc_error *err;
	size_t i;

	m->track = track_new();
	if (!m->track)
		return &wc_enomem;
	err = get_process(m);
	err = err ? err : stepper_places_prepare(m);
	err = err ? err : stepper_threads_look(m);
	for (i = 0; i < m->nthreads; i++)
		m->thread[i]->due = 0; /* what stopped it was our coming, or the user's doing */
	m->pausing = false;
	return err ? err : stepper_forks_look(m, false);
}

static struct wc_error *lldb_open(const struct stepper_options *o, struct stepper **ret)
{
	struct stepper *m = calloc(1, sizeof(*m));
	struct wc_error *err;

	if (!m)
		return &wc_enomem;
	m->o = *o;
	m->last = &m->first;
	err = stepper_lldb_prepare(m);
	if (err) {
		wc_error_free(lldb_close(m));
		return err;
	}
	*ret = m;
	return NULL;
}

/* Points */

static struct wc_error *add_point(struct stepper *m, const struct step_point *p)
{
	struct place *at = stepper_place(m, p->address);
	uint32_t n = (uint32_t)m->npoints;

	if (!at ||
	    !vec_reserve((void **)&m->plan, &m->plans_cap, m->npoints + 1, sizeof(struct step_plan *)) ||
	    !vec_push(m->point, m->npoints, m->points_cap, *p))
		return &wc_enomem;
	m->plan[n] = NULL;
	if (p->use == POINT_TO)
		at->to = true;
	else if (p->use == POINT_FROM)
		at->from = n;
	else
		at->point = n;
	return NULL;
}

static struct wc_error *lldb_add_points(struct stepper *m, const struct step_point *p, size_t n)
{
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < n && !err; i++)
		err = add_point(m, &p[i]);
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct stepper_code *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static struct wc_error *lldb_set_code(struct stepper *m, const struct stepper_code *c, size_t n)
{
	struct stepper_code *copy = malloc((n ? n : 1) * sizeof(*copy));

	if (!copy)
		return &wc_enomem;
	if (n)
		memcpy(copy, c, n * sizeof(*copy));
	qsort(copy, n, sizeof(*copy), by_start);
	free(m->code);
	m->code = copy;
	m->ncode = n;
	return NULL;
}

static struct wc_error *lldb_remove_points(struct stepper *m, uint64_t start, uint64_t end)
{
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < m->nplaces && !err; i++) {
		struct place *p = m->place[i];

		if (p->address < start || p->address >= end)
			continue;
		p->point = p->from = NO_POINT;
		p->to = p->loader = false;
		p->makes = MAKES_NOTHING;
		err = stepper_place_sync(m, p);
	}
	return err;
}

/* Found when the first plan asks for it: by then libc has set its threads up. */
static void find_errno(struct stepper *m, const struct step_plan *plan)
{
	struct stepper_thread *t = stepper_thread_find(m, m->asking);
	bool asks = false;
	uint32_t i;

	for (i = 0; i < plan->leave.n; i++)
		asks |= plan->leave.v[i].op == FETCH_ERRNO;
	if (!asks || m->errno_offset || m->errno_tries >= ERRNO_TRIES || !t || !t->regs.r[WREG_FS_BASE])
		return;
	m->errno_tries++;
	if (!step_errno_offset(m->o.pid, t->regs.r[WREG_FS_BASE], &m->errno_offset))
		m->errno_offset = 0;
}

static struct wc_error *lldb_set_plan(struct stepper *m, uint32_t point, const struct step_plan *plan)
{
	struct step_plan *copy;

	if (point >= m->npoints)
		return wc_error_new(WC_EFAIL, "got a plan for point %u, which does not exist", point);
	copy = malloc(sizeof(*copy));
	if (!copy)
		return &wc_enomem;
	*copy = *plan;
	free(m->plan[point]);
	m->plan[point] = copy;
	m->waits_for_plan = false;
	find_errno(m, plan);
	return NULL;
}

static struct wc_error *lldb_modules_done(struct stepper *m)
{
	struct wc_error *err = stepper_places_prepare(m);

	m->waits_for_modules = false;
	return err ? err : stepper_places_sync(m);
}

/* Its life */

/* The user has given it back, perhaps somewhere else. */
static struct wc_error *resume(struct stepper *m)
{
	struct wc_error *err;
	size_t i;

	lldb_process_borrow(m->process);
	m->resuming = true;
	err = stepper_threads_look(m);
	m->resuming = false;
	m->pausing = false;
	for (i = 0; i < m->nthreads; i++)
		m->thread[i]->due &= ~DUE_SIGNAL; /* reported before */
	return err ? err : stepper_places_sync(m);
}

static struct wc_error *lldb_start(struct stepper *m)
{
	bool goes_on = m->phase == PHASE_PAUSED;

	if (m->phase != PHASE_NEW && !goes_on)
		return NULL;
	m->phase = PHASE_STOPPED;
	m->last_ns = monotonic_ns();
	return goes_on ? resume(m) : stepper_range_start(m);
}

/* Breakpoints are out. The process is the user's, or runs on. */
static struct wc_error *let_go(struct stepper *m)
{
	struct lldb_process *p = m->process;

	if (!p)
		return NULL;
	stepper_places_clear(m);
	m->process = NULL;
	if (m->owns_process)
		return lldb_process_close(p);
	lldb_process_give_back(p);
	return NULL;
}

static struct wc_error *over(struct stepper *m, struct step_record *last)
{
	struct wc_error *err;

	m->phase = PHASE_OVER;
	err = let_go(m);
	return err ? err : stepper_report(m, last);
}

static struct wc_error *done(struct stepper *m)
{
	struct step_record r = { .kind = STEP_DONE };

	return over(m, &r);
}

static struct wc_error *pause_it(struct stepper *m)
{
	struct step_record r = { .kind = STEP_PAUSED };

	m->pausing = false;
	m->phase = PHASE_PAUSED;
	stepper_places_clear(m);
	lldb_process_give_back(m->process);
	return stepper_report(m, &r);
}

static struct wc_error *on_exec(struct stepper *m)
{
	struct step_record r = { .kind = STEP_EXEC };
	struct wc_error *err = stepper_range_over(m, RANGE_EXECED, RETURN_EXEC);

	return err ? err : over(m, &r);
}

static struct wc_error *on_end(struct stepper *m)
{
	struct step_record r = { .kind = STEP_EXIT, .status = lldb_process_status(m->process) };
	struct wc_error *err = stepper_range_over(m, RANGE_EXITED, RETURN_PROCESS_EXIT);

	return err ? err : over(m, &r);
}

/* The process has stopped: who has what to do is found out, and then done thread by thread. */
static struct wc_error *stepper_lldb_look(struct stepper *m)
{
	struct wc_error *err;
	size_t i;

	m->phase = PHASE_STOPPED;
	m->interrupted_ns = 0;
	m->counts.stops++;
	err = stepper_threads_look(m);
	for (i = 0; i < m->nthreads && !err; i++)
		if (m->thread[i]->why == LLDB_WHY_EXEC)
			return on_exec(m);
	m->alone = 0;
	m->lending = false;
	return err || !m->recording ? err : stepper_forks_look(m, true);
}

/* Of the threads that stand at a breakpoint of ours: one, and how many there are. */
static struct stepper_thread *standing(const struct stepper *m, size_t *n)
{
	struct stepper_thread *found = NULL;
	size_t i;

	*n = 0;
	for (i = 0; i < m->nthreads; i++) {
		const struct place *p = m->thread[i]->at ? stepper_place_find(m, m->thread[i]->at) : NULL;

		if (p && p->set) {
			found = m->thread[i];
			++*n;
		}
	}
	return found;
}

static struct wc_error *stepper_lldb_step(struct stepper *m, const struct stepper_thread *t)
{
	m->alone = t->tid;
	return lldb_process_step(m->process, t->tid);
}

static struct wc_error *lend(struct stepper *m)
{
	scoped(freep) pid_t *held = calloc(m->nthreads + 1, sizeof(*held));
	size_t i, n = 0;

	if (!held)
		return &wc_enomem;
	for (i = 0; i < m->nthreads; i++)
		if (m->thread[i]->stepping)
			held[n++] = m->thread[i]->tid;
	return lldb_process_go(m->process, held, n);
}

static struct wc_error *go_on(struct stepper *m)
{
	struct stepper_thread *next = stepper_insn_next(m), *t;
	size_t n;

	m->phase = PHASE_RUNNING;
	if (next)
		return stepper_lldb_step(m, next);
	t = standing(m, &n);
	if (n > 1)
		return stepper_lldb_step(m, t);
	return m->lending ? lend(m) : lldb_process_go(m->process, NULL, 0);
}

/* Nothing happened for so long: this is where everybody stands. */
static struct wc_error *on_stuck(struct stepper *m)
{
	m->stuck = false;
	if (!m->recording || monotonic_ns() - m->last_ns < m->o.stuck_ns)
		return NULL;
	return stepper_range_cut(m, 0, RANGE_STUCK);
}

/* One thing of all that is to be done while the process stands. */
static struct wc_error *stepper_lldb_work(struct stepper *m)
{
	struct wc_error *err;
	size_t i;

	for (i = 0; i < m->nthreads; i++)
		if (m->thread[i]->due)
			return stepper_hit(m, m->thread[i]);
	if (m->stuck) {
		err = on_stuck(m);
		if (err)
			return err;
	}
	if (m->stopping) {
		err = stepper_range_cut(m, 0, RANGE_STOPPED);
		return err ? err : done(m);
	}
	if (m->range.state == RANGE_DONE)
		return done(m);
	if (lldb_process_take_pause(m->process) || m->pausing)
		return pause_it(m);
	return go_on(m);
}

/* When something other than a stop is due: the earlier of @until and whatever this stepper has in mind. */
static uint64_t due(const struct stepper *m, uint64_t until)
{
	uint64_t stuck = m->last_ns + m->o.stuck_ns;

	if (m->interrupted_ns)
		return until;
	if (m->recording && m->o.stuck_ns && stuck < until)
		until = stuck;
	if (m->lending && m->lend_until < until)
		until = m->lend_until;
	return until;
}

static void interrupt(struct stepper *m)
{
	m->interrupted_ns = monotonic_ns();
	lldb_process_interrupt(m->process);
}

static void check_clock(struct stepper *m)
{
	uint64_t now = monotonic_ns();

	if (m->interrupted_ns) {
		if (now - m->interrupted_ns >= AGAIN_NS)
			interrupt(m);
	} else if (m->recording && m->o.stuck_ns && now - m->last_ns >= m->o.stuck_ns) {
		m->stuck = true;
		stepper_threads_syscalls(m);
		interrupt(m);
	} else if (m->lending && now >= m->lend_until) {
		interrupt(m);
	}
}

static struct wc_error *wait_for_stop(struct stepper *m, uint64_t until, bool *late)
{
	uint64_t now = monotonic_ns(), end = due(m, until);
	enum lldb_state state;
	struct wc_error *err;

	err = lldb_process_wait(m->process, end > now ? (int)((end - now) / NS_PER_MS) + 1 : 0, &state);
	if (err)
		return err;
	switch (state) {
	case LLDB_STOPPED:
		return stepper_lldb_look(m);
	case LLDB_ENDED:
		return on_end(m);
	case LLDB_RUNNING:
		break;
	}
	check_clock(m);
	*late = monotonic_ns() >= until;
	return NULL;
}

static struct reported *take_first(struct stepper *m)
{
	struct reported *t = m->first;

	m->first = t->next;
	if (!m->first)
		m->last = &m->first;
	return t;
}

static struct wc_error *lldb_next(struct stepper *m, int timeout_ms, const struct step_record **ret)
{
	uint64_t until = monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	struct wc_error *err = NULL;
	bool late = false;

	*ret = NULL;
	stepper_reported_free(m->current);
	m->current = NULL;
	while (!err && !m->first && !late) {
		if (m->phase == PHASE_RUNNING)
			err = wait_for_stop(m, until, &late);
		else if (m->phase == PHASE_STOPPED && !m->waits_for_plan && !m->waits_for_modules)
			err = stepper_lldb_work(m);
		else
			return NULL;
	}
	if (err || !m->first)
		return err;
	m->current = take_first(m);
	*ret = &m->current->record;
	return NULL;
}

static struct wc_error *lldb_stop(struct stepper *m)
{
	m->stopping = true;
	m->waits_for_plan = m->waits_for_modules = false;
	if (m->phase == PHASE_RUNNING)
		interrupt(m);
	else if (m->phase == PHASE_NEW || m->phase == PHASE_PAUSED)
		m->phase = PHASE_STOPPED;
	return NULL;
}

static void lldb_counts(const struct stepper *m, struct stepper_counts *ret)
{
	*ret = m->counts;
	ret->from_seen = m->range.from_seen;
	ret->to_seen = m->range.to_seen;
}

/* A process that runs is brought to a stop first: only then can its breakpoints be taken out. */
static struct wc_error *bring_to_stop(struct stepper *m)
{
	enum lldb_state state = LLDB_RUNNING;
	struct wc_error *err = NULL;
	unsigned int i;

	for (i = 0; m->phase == PHASE_RUNNING && state == LLDB_RUNNING && i < 10 && !err; i++) {
		lldb_process_interrupt(m->process);
		err = lldb_process_wait(m->process, 1000, &state);
	}
	m->phase = PHASE_OVER;
	return err;
}

static struct wc_error *lldb_close(struct stepper *m)
{
	struct wc_error *err = NULL;
	size_t i;

	if (!m)
		return NULL;
	if (m->process) {
		err = bring_to_stop(m);
		err = wc_error_first(err, let_go(m));
	}
	while (m->first)
		stepper_reported_free(take_first(m));
	stepper_reported_free(m->current);
	stepper_threads_free(m);
	stepper_places_free(m);
	for (i = 0; i < m->npoints; i++)
		free(m->plan[i]);
	free(m->plan);
	free(m->point);
	free(m->code);
	map64_deinit(&m->children);
	track_free(m->track);
	free(m);
	return err;
}

const struct stepper_ops stepper_lldb = {
	.name = "lldb",
	.open = lldb_open,
	.add_points = lldb_add_points,
	.set_code = lldb_set_code,
	.remove_points = lldb_remove_points,
	.start = lldb_start,
	.next = lldb_next,
	.set_plan = lldb_set_plan,
	.modules_done = lldb_modules_done,
	.stop = lldb_stop,
	.counts = lldb_counts,
	.close = lldb_close,
};
