#include <dirent.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/step/lldb/stepper_lldb_impl.h"
#include "watchctl/target/proc/proc.h"

#define PAGE 4096u

/* What is read of a stopped thread */

bool stepper_read(struct stepper *m, uint64_t addr, void *buf, size_t len)
{
	struct memory_view mem = lldb_process_memory(m->process);

	return memory_read(&mem, addr, buf, len);
}

bool stepper_thread_load(struct stepper *m, struct stepper_thread *t)
{
	if (!t->has_regs)
		t->has_regs = lldb_process_regs(m->process, t->tid, &t->regs);
	return t->has_regs;
}

struct vectors {
	struct stepper *m;
	pid_t tid;
};

static bool vector(void *ctx, unsigned int reg, uint8_t ret[64])
{
	const struct vectors *v = ctx;

	return lldb_process_vector(v->m->process, v->tid, reg, ret);
}

static bool x87(void *ctx, unsigned int reg, uint8_t ret[10])
{
	const struct vectors *v = ctx;

	return lldb_process_x87(v->m->process, v->tid, reg, ret);
}

void stepper_thread_fetch(struct stepper *m, struct stepper_thread *t, const struct fetch_list *l,
			  uint64_t entry_sp, struct fetched *ret)
{
	struct vectors v = { m, t->tid };
	struct fetch_source s = {
		.regs = &t->regs,
		.entry_sp = entry_sp,
		.memory = lldb_process_memory(m->process),
		.vector = vector,
		.x87 = x87,
		.ctx = &v,
	};

	if (m->errno_offset && t->regs.r[WREG_FS_BASE])
		s.errno_address = t->regs.r[WREG_FS_BASE] + (uint64_t)m->errno_offset;
	fetch_run(l, &s, ret);
}

uint8_t *stepper_thread_stack(struct stepper *m, const struct stepper_thread *t, uint32_t *len)
{
	uint64_t sp = t->regs.r[WREG_RSP];
	uint32_t want = m->o.stack_bytes < STEPPER_STACK_MAX ? m->o.stack_bytes : STEPPER_STACK_MAX;
	uint8_t *bytes = malloc(want ? want : 1);

	want &= ~7u;
	*len = 0;
	if (bytes && stepper_read(m, sp, bytes, want))
		*len = want;
	/* The stack may end before: page by page. */
	while (bytes && *len < want) {
		uint32_t part = PAGE - (uint32_t)((sp + *len) & (PAGE - 1));

		if (part > want - *len)
			part = want - *len;
		if (!stepper_read(m, sp + *len, bytes + *len, part))
			break;
		*len += part;
	}
	return bytes;
}

void stepper_thread_bounds(struct stepper *m, struct stepper_thread *t)
{
	struct proc_map map;

	if (!stepper_thread_load(m, t) || !proc_map_at(m->o.pid, t->regs.r[WREG_RSP], &map))
		return;
	t->stack_start = map.start;
	t->stack_end = map.end;
}

/* Who there is */

struct stepper_thread *stepper_thread_find(const struct stepper *m, pid_t tid)
{
	size_t i;

	for (i = 0; i < m->nthreads; i++)
		if (m->thread[i]->tid == tid)
			return m->thread[i];
	return NULL;
}

/*
 * glibc and musl give pthread_create()'s caller the address of the new thread's descriptor, which is its
 * thread pointer, before the thread runs.
 */
static void find_creator(struct stepper *m, struct stepper_thread *new)
{
	size_t i;

	if (!stepper_thread_load(m, new) || !new->regs.r[WREG_FS_BASE])
		return;
	for (i = 0; i < m->nthreads; i++) {
		const struct stepper_thread *t = m->thread[i];
		const struct track_call *call;
		uint64_t made;

		if (t->makes != MAKES_THREAD || !stepper_read(m, t->make_result, &made, sizeof(made)) ||
		    made != new->regs.r[WREG_FS_BASE])
			continue;
		call = track_innermost(m->track, t->tid);
		new->creator = t->tid;
		new->creating_call = call ? call->call : 0;
		if (m->recording && m->o.threads == STEPPER_THREADS_RANGE)
			new->recorded = t->recorded;
		return;
	}
}

static struct wc_error *meet(struct stepper *m, pid_t tid, struct stepper_thread **ret)
{
	struct stepper_thread *t = calloc(1, sizeof(*t));

	if (!t || !vec_push(m->thread, m->nthreads, m->threads_cap, t)) {
		free(t);
		return &wc_enomem;
	}
	t->tid = tid;
	t->syscall = -1;
	t->recorded = m->recording && m->o.threads == STEPPER_THREADS_ALL;
	t->fresh = m->phase != PHASE_NEW; /* else it was there before us */
	*ret = t;
	return NULL;
}

static struct wc_error *report_end(struct stepper *m, struct stepper_thread *t)
{
	struct step_record r = { .kind = STEP_THREAD_END, .tid = t->tid };
	const struct track_end *ended;
	struct wc_error *err;
	size_t n;

	err = track_thread_end(m->track, t->tid, RETURN_CANCELLED, &ended, &n);
	t->has_regs = true; /* there are none any more: those of its last stop */
	err = err ? err : stepper_report_ends(m, t, ended, n);
	if (!err && t->reported)
		err = stepper_report(m, &r);
	return err ? err : stepper_range_thread_ended(m, t->tid);
}

static struct wc_error *forget_gone(struct stepper *m)
{
	struct wc_error *err = NULL;
	size_t i, n = 0;

	for (i = 0; i < m->nthreads; i++)
		if (!m->thread[i]->present && !err)
			err = report_end(m, m->thread[i]);
	for (i = 0; i < m->nthreads; i++) {
		if (m->thread[i]->present)
			m->thread[n++] = m->thread[i];
		else
			free(m->thread[i]);
	}
	m->nthreads = n;
	return err;
}

/*
 * Whether @t has come to where it stands since the last stop. One that stood at a breakpoint when it was let
 * run executes the instruction first: it is somewhere else, or has come back and met the breakpoint again.
 */
static bool has_arrived(const struct stepper *m, const struct stepper_thread *t)
{
	if ((m->alone && m->alone != t->tid) || (m->lending && t->stepping))
		return false;
	if (t->at != t->pc || t->at_sp != t->sp)
		return true;
	if (m->resuming)
		return false;
	return t->why == LLDB_WHY_BREAKPOINT || t->why == LLDB_WHY_STEP;
}

static uint32_t todo_at(const struct stepper *m, const struct stepper_thread *t)
{
	const struct place *p = stepper_place_find(m, t->pc);
	uint32_t due = 0;

	if (!p)
		return 0;
	due |= p->loader ? DUE_LOADER : 0;
	due |= p->makes || (t->makes && t->make_return == t->pc) ? DUE_MAKES : 0;
	due |= p->once || track_awaits(m->track, t->pc) ? DUE_RETURN : 0;
	due |= p->to ? DUE_TO : 0;
	due |= p->from != NO_POINT ? DUE_FROM : 0;
	due |= p->point != NO_POINT ? DUE_POINT : 0;
	return due;
}

static void look_at(struct stepper *m, struct stepper_thread *t, const struct lldb_thread *now)
{
	t->present = true;
	t->has_regs = false;
	t->why = now->why;
	t->pc = now->pc;
	t->sp = now->sp;
	t->signal = now->signal;
	t->code = now->code;
	t->due = 0;
	if (now->why == LLDB_WHY_SIGNAL && (!m->alone || m->alone == t->tid))
		t->due |= DUE_SIGNAL;
	if (!has_arrived(m, t)) {
		if (t->due & DUE_SIGNAL) {
			t->redo = t->at;
			t->redo_sp = t->at_sp;
		}
		return;
	}
	t->at = t->at_sp = 0;
	if (t->redo == t->pc && t->redo_sp == t->sp) {
		t->at = t->redo; /* back from the signal handler */
		t->at_sp = t->redo_sp;
		t->redo = 0;
		return;
	}
	t->due |= todo_at(m, t);
	t->due |= m->o.instructions ? DUE_INSN : 0;
}

struct wc_error *stepper_threads_look(struct stepper *m)
{
	size_t n, i;
	const struct lldb_thread *now = lldb_process_threads(m->process, &n);
	struct wc_error *err = NULL;

	for (i = 0; i < m->nthreads; i++)
		m->thread[i]->present = false;
	for (i = 0; i < n && !err; i++) {
		struct stepper_thread *t = stepper_thread_find(m, now[i].tid);
		bool is_new = !t;

		if (is_new)
			err = meet(m, now[i].tid, &t);
		if (err)
			return err;
		look_at(m, t, &now[i]);
		if (is_new && t->fresh)
			find_creator(m, t);
		m->pausing |= now[i].user;
	}
	return err ? err : forget_gone(m);
}

void stepper_threads_free(struct stepper *m)
{
	size_t i;

	for (i = 0; i < m->nthreads; i++)
		free(m->thread[i]);
	free(m->thread);
	m->thread = NULL;
	m->nthreads = 0;
}

/* Children */

static struct wc_error *meet_child(struct stepper *m, struct stepper_thread *t, pid_t child, bool report)
{
	struct step_record r = { .kind = STEP_FORK, .child = child };

	if (map64_get(&m->children, (uint64_t)child))
		return NULL;
	if (!map64_put(&m->children, (uint64_t)child, m))
		return &wc_enomem;
	return report && t->recorded ? stepper_report_of(m, t, &r) : NULL;
}

/* fork() has returned. */
static struct wc_error *met_by_return(struct stepper *m, struct stepper_thread *t)
{
	pid_t child;

	if (!stepper_thread_load(m, t))
		return NULL;
	child = (pid_t)t->regs.r[WREG_RAX];
	return child > 0 ? meet_child(m, t, child, true) : NULL;
}

static struct wc_error *leave_maker(struct stepper *m, struct stepper_thread *t)
{
	struct place *p = stepper_place(m, t->make_return);
	bool returns = t->pc == t->make_return && t->sp == t->make_sp + 8;
	struct wc_error *err = NULL;

	if (!p)
		return &wc_enomem;
	if (returns && t->makes == MAKES_PROCESS)
		err = met_by_return(m, t);
	t->makes = MAKES_NOTHING;
	p->homes--;
	return err ? err : stepper_place_sync(m, p);
}

struct wc_error *stepper_thread_makes(struct stepper *m, struct stepper_thread *t)
{
	const struct place *here = stepper_place_find(m, t->pc);
	struct wc_error *err = NULL;
	struct place *back;
	uint64_t to;

	if (t->makes && t->sp > t->make_sp)
		err = leave_maker(m, t);
	if (err || !here || !here->makes || t->makes)
		return err;
	if (!stepper_thread_load(m, t) || !stepper_read(m, t->sp, &to, sizeof(to)))
		return NULL;
	back = stepper_place(m, to);
	if (!back)
		return &wc_enomem;
	t->makes = here->makes;
	t->make_result = t->regs.r[WREG_RDI];
	t->make_return = to;
	t->make_sp = t->sp;
	back->homes++;
	return stepper_place_sync(m, back);
}

struct wc_error *stepper_forks_look(struct stepper *m, bool report)
{
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < m->nthreads && !err; i++) {
		char path[64];
		int child;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", m->o.pid, m->thread[i]->tid);
		scoped(fclosep) FILE *f = fopen(path, "re");
		while (f && !err && fscanf(f, "%d", &child) == 1)
			err = meet_child(m, m->thread[i], child, report);
	}
	return err;
}

void stepper_threads_syscalls(struct stepper *m)
{
	size_t i;

	for (i = 0; i < m->nthreads; i++) {
		struct stepper_thread *t = m->thread[i];
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", m->o.pid, t->tid);
		scoped(fclosep) FILE *f = fopen(path, "re");
		/* "running", or the number first; -1: it is blocked, and not in a call. */
		if (!f || fscanf(f, "%d", &t->syscall) != 1)
			t->syscall = -1;
	}
}
