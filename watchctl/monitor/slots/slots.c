#include "watchctl/monitor/slots/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/engine/arm/perf_bp.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/target/stop/debugreg.h"
#include "watchctl/target/stop/tracee.h"

#define STOP_MS 200u

/* Sessions */

static enum access_kind wire_access(uint32_t flags)
{
	if (flags & WIRE_WATCH_EXECUTE)
		return ACCESS_EXECUTE;
	if (flags & WIRE_WATCH_READS_ONLY)
		return ACCESS_READ;
	return flags & WIRE_WATCH_READS ? ACCESS_READWRITE : ACCESS_WRITE;
}

/* Watch @i of @c is armed, or was when its controller was killed. */
static bool is_armed(const struct wire_control *c, unsigned int i)
{
	return i < c->nwatches && c->watch[i].size && !(c->watch[i].flags & WIRE_WATCH_OFF);
}

static void take_watch(struct slot_session *s, const struct wire_control *c, unsigned int i, bool by_ptrace)
{
	const struct wire_watch *w = &c->watch[i];

	s->watch[s->nwatches++] = (struct slot_watch){
		.addr = w->flags & WIRE_WATCH_PER_THREAD ? 0 : w->addr,
		.size = w->size,
		.access = wire_access(w->flags),
		.for_itself = w->flags & WIRE_WATCH_HOLD,
		.by_ptrace = by_ptrace,
		.slot = -1,
	};
}

/* The kernel disarms perf's events when their owner dies; what ptrace has set stays. */
static void take_watches(struct slot_session *s, const struct wire_control *c)
{
	unsigned int i;

	s->knows_watches = true;
	for (i = 0; i < WIRE_WATCHES; i++) {
		bool by_ptrace = c->hwbkpt_watch == i + 1;

		if (is_armed(c, i) &&
		    (by_ptrace || (s->lives && (!s->inherited_from || s->follows_children))))
			take_watch(s, c, i, by_ptrace);
	}
}

static struct slot_session handler_session(const struct slots *s, const struct placed *p)
{
	const struct wire_control *c = p->control;
	struct slot_session one = { .engine = SLOT_HANDLER, .placed = p };
	struct proc_namespace ns;

	one.other_version = p->version != WIRE_VERSION;
	if (one.other_version)
		return one;
	one.lives = placed_owner_wait(s->pid, p, &one.owner) == PLACED_OWNED;
	if (!one.lives)
		one.owner = c->owner_pid;
	proc_namespace_read(s->pid, &ns);
	if (placed_is_inherited(s->pid, c))
		one.inherited_from = proc_global_pid(&ns, c->target_pid);
	one.follows_children = c->flags & WIRE_CHILDREN;
	if (!(c->flags & WIRE_TAKEN_OVER))
		take_watches(&one, c);
	else
		one.knows_watches = true;
	return one;
}

static struct slot_session own_tracer_session(const struct holder *h)
{
	const struct wire_control *c = h->control;
	struct slot_session one = { .engine = SLOT_PTRACE, .own_tracer = h->pid, .knows_watches = true };
	unsigned int i;

	one.lives = placed_owner(c, &one.owner) == PLACED_OWNED;
	if (!one.lives)
		one.owner = c->owner_pid;
	for (i = 0; i < WIRE_WATCHES; i++) {
		if (!is_armed(c, i))
			continue;
		take_watch(&one, c, i, false);
		one.watch[one.nwatches - 1].slot = h->box->watch[i].slot;
	}
	return one;
}

static bool has_handler_here(const struct slots *s, pid_t owner)
{
	size_t i;

	for (i = 0; i < s->nsessions; i++)
		if (s->session[i].engine == SLOT_HANDLER && s->session[i].lives &&
		    s->session[i].owner == owner)
			return true;
	return false;
}

static bool add_session(struct slots *s, struct slot_session one, const struct holder_list *holders)
{
	const struct holder *h = one.lives && one.owner ? holders_find(holders, one.owner) : NULL;

	one.command = h ? h->command : NULL;
	one.owner_start = one.lives && one.owner ? proc_start_time(one.owner) : 0;
	return vec_push(s->session, s->nsessions, s->session_cap, one);
}

static struct wc_error *find_sessions(struct slots *s, const struct holder_list *holders)
{
	struct wc_error *err = placed_find(s->pid, &s->placed);
	bool ok = true;
	size_t i;

	if (err)
		return err;
	for (i = 0; i < s->placed.n && ok; i++)
		ok = add_session(s, handler_session(s, &s->placed.v[i]), holders);
	for (i = 0; i < holders->n && ok; i++) {
		const struct holder *h = &holders->v[i];

		if (holder_keeps(h, s->pid))
			ok = add_session(s, own_tracer_session(h), holders);
		else if (holder_watches(h, s->pid) && !has_handler_here(s, h->pid))
			ok = add_session(
				s,
				(struct slot_session){ .engine = SLOT_RING, .lives = true, .owner = h->pid },
				holders);
	}
	return ok ? NULL : &wc_enomem;
}

/* Registers that the sessions have armed in every thread by perf or their tracer: at least, and at most. */
static void count_known(const struct slots *s, unsigned int *ret_min, unsigned int *ret_max)
{
	size_t i;
	unsigned int k;

	*ret_min = *ret_max = 0;
	for (i = 0; i < s->nsessions; i++) {
		const struct slot_session *one = &s->session[i];

		if (one->lives && !one->knows_watches && !one->other_version)
			*ret_max += SLOTS;
		for (k = 0; k < one->nwatches; k++) {
			if (one->watch[k].by_ptrace)
				continue;
			*ret_min += one->watch[k].addr != 0;
			++*ret_max;
		}
	}
}

/* Threads */

/* The -i watch that this register is armed for, by address and control bits; -1: none of ours. */
static int session_of(const struct slots *s, unsigned int slot, uint64_t addr, uint64_t dr7)
{
	size_t i;
	unsigned int k;

	for (i = 0; i < s->nsessions; i++) {
		for (k = 0; k < s->session[i].nwatches; k++) {
			const struct slot_watch *w = &s->session[i].watch[k];

			if (w->by_ptrace && w->addr == addr &&
			    ((dr7 ^ dregs_dr7(slot, w->size, w->access)) &
			     (dregs_dr7_mask(slot) & ~(2ull << (2 * slot)))) == 0)
				return (int)i;
		}
	}
	return -1;
}

static void note_slot(struct slot_session *s, unsigned int slot)
{
	unsigned int k;

	for (k = 0; k < s->nwatches; k++)
		if (s->watch[k].by_ptrace)
			s->watch[k].slot = (int)slot;
}

/* False: it does not stand still any more. */
static bool read_registers(const struct slots *s, struct slot_thread *t)
{
	unsigned int n;
	uint64_t dr7;

	if (!debugreg_read(t->tid, DEBUGREG_CONTROL, &dr7))
		return false;
	for (n = 0; n < SLOTS; n++) {
		struct slot_register *r = &t->reg[n];

		r->session = -1;
		r->armed = dregs_decode(dr7, n, &r->size, &r->access);
		if (!r->armed)
			continue;
		if (!debugreg_read(t->tid, n, &r->addr))
			return false;
		r->session = session_of(s, n, r->addr, dr7);
		if (r->session >= 0)
			note_slot(&s->session[r->session], n);
	}
	return true;
}

static unsigned int count_armed(const struct slot_thread *t)
{
	unsigned int n, armed = 0;

	for (n = 0; n < SLOTS; n++)
		armed += t->reg[n].armed;
	return armed;
}

/* False: the thread has ended. */
static bool look_at_registers(struct slots *s, struct slot_thread *t)
{
	struct tracee tracee;

	switch (tracee_stop(s->pid, t->tid, STOP_MS, &tracee)) {
	case TRACEE_STOPPED:
		t->sight = SLOT_SEEN;
		if (!read_registers(s, t)) {
			t->sight = SLOT_BUSY;
			memset(t->reg, 0, sizeof(t->reg));
		}
		tracee_release(&tracee);
		return true;
	case TRACEE_GONE:
		return false;
	case TRACEE_TRACED:
		t->sight = SLOT_TRACED;
		return true;
	case TRACEE_DENIED:
		t->sight = SLOT_DENIED;
		return true;
	default:
		t->sight = SLOT_BUSY;
		return true;
	}
}

static bool is_own_tracer(const struct slots *s, pid_t pid)
{
	size_t i;

	for (i = 0; i < s->nsessions; i++)
		if (s->session[i].own_tracer == pid)
			return true;
	return false;
}

static void note_tracer(struct slots *s, pid_t tracer)
{
	struct proc_status status;

	if (!tracer || s->tracer || is_own_tracer(s, tracer))
		return;
	s->tracer = tracer;
	if (proc_status_read(tracer, tracer, &status))
		snprintf(s->tracer_name, sizeof(s->tracer_name), "%s", status.name);
}

static unsigned int above(int used, unsigned int known)
{
	return used > (int)known ? (unsigned int)used - known : 0;
}

/* False: no memory. */
static bool look_at_thread(struct slots *s, pid_t tid, unsigned int known_min, unsigned int known_max)
{
	struct slot_thread t = { .tid = tid, .sight = SLOT_NONE };
	struct proc_status status;

	if (!proc_status_read(s->pid, tid, &status) || status.state == 'Z' || status.state == 'X')
		return true;
	snprintf(t.name, sizeof(t.name), "%s", status.name);
	note_tracer(s, status.tracer);
	t.used = perf_bp_used(tid);
	if (status.tracer)
		t.sight = SLOT_TRACED;
	else if ((t.used < 0 || t.used > (int)known_min) && !look_at_registers(s, &t))
		return true;
	t.unexplained_min = above(t.used, known_max + count_armed(&t));
	t.unexplained_max = above(t.used, known_min + count_armed(&t));
	return vec_push(s->thread, s->nthreads, s->thread_cap, t);
}

static struct wc_error *look_at_threads(struct slots *s)
{
	unsigned int known_min, known_max;
	struct thread_ids ids;
	bool ok = true;
	size_t i;

	if (!proc_threads(s->pid, &ids))
		return proc_unread_error(s->pid);
	count_known(s, &known_min, &known_max);
	for (i = 0; i < ids.n && ok; i++)
		ok = look_at_thread(s, ids.v[i], known_min, known_max);
	thread_ids_deinit(&ids);
	if (!ok)
		return &wc_enomem;
	return s->nthreads ? NULL : wc_error_new(WC_ETARGET, "process %d ended", s->pid);
}

/* Others */

static bool any_unexplained(const struct slots *s)
{
	size_t i;

	for (i = 0; i < s->nthreads; i++)
		if (s->thread[i].unexplained_max || s->thread[i].used < 0)
			return true;
	return false;
}

/* A session that is known to watch others does not watch this one as well, but for the children of those. */
static bool may_hold(const struct slots *s, const struct holder *h)
{
	size_t i;

	if (!h->perf_events || (h->is_watchctl && h->ntargets && !h->follows_fork))
		return false;
	for (i = 0; i < s->nsessions; i++)
		if (s->session[i].lives && s->session[i].owner == h->pid)
			return false;
	return true;
}

static struct wc_error *find_perf(struct slots *s, const struct holder_list *holders)
{
	bool ok = true;
	size_t i;

	if (!any_unexplained(s))
		return NULL;
	for (i = 0; i < holders->n && ok; i++)
		if (may_hold(s, &holders->v[i]))
			ok = vec_push(s->perf, s->nperf, s->perf_cap, &holders->v[i]);
	return ok ? NULL : &wc_enomem;
}

static struct wc_error *read_symbols(struct slots *s)
{
	struct module_list modules = { 0 };
	struct wc_error *err;
	bool ok = true;
	size_t i;

	s->symbols = symbolizer_new();
	if (!s->symbols)
		return &wc_enomem;
	err = module_list_read(s->pid, &modules);
	if (err)
		return err;
	for (i = 0; i < modules.n && ok; i++)
		ok = symbolizer_add(s->symbols, &modules.v[i]);
	module_list_deinit(&modules);
	return ok ? NULL : &wc_enomem;
}

static struct wc_error *read_all(struct slots *s, const struct holder_list *holders)
{
	struct wc_error *err = proc_check(s->pid);
	struct proc_status status;

	if (!err && !proc_status_read(s->pid, s->pid, &status))
		err = wc_error_new(WC_ETARGET, "process %d ended", s->pid);
	if (err)
		return err;
	snprintf(s->name, sizeof(s->name), "%s", status.name);
	err = find_sessions(s, holders);
	if (!err)
		err = look_at_threads(s);
	if (!err)
		err = find_perf(s, holders);
	if (!err)
		err = read_symbols(s);
	return err;
}

struct wc_error *slots_read(pid_t pid, const struct holder_list *holders, struct slots *ret)
{
	struct slots s = { .pid = pid };
	struct wc_error *err = read_all(&s, holders);

	if (err) {
		slots_deinit(&s);
		return err;
	}
	*ret = s;
	return NULL;
}

void slots_deinit(struct slots *s)
{
	free(s->session);
	placed_list_deinit(&s->placed);
	free(s->thread);
	free(s->perf);
	symbolizer_free(s->symbols);
	*s = (struct slots){ 0 };
}

bool slots_name(const struct slots *s, uint64_t addr, char buf[SLOT_NAME])
{
	return addr && symbolizer_data_name(s->symbols, addr, buf, SLOT_NAME);
}

bool slots_alike(const struct slot_thread *a, const struct slot_thread *b)
{
	unsigned int n;

	if (a->used != b->used || a->sight != b->sight)
		return false;
	for (n = 0; n < SLOTS; n++) {
		const struct slot_register *x = &a->reg[n], *y = &b->reg[n];

		if (x->armed != y->armed ||
		    (x->armed && (x->addr != y->addr || x->size != y->size || x->access != y->access ||
				  x->session != y->session)))
			return false;
	}
	return true;
}

/* All processes */

struct find {
	const struct holder_list *holders;
	struct thread_ids found;
	bool no_memory;
};

static bool has_something(const struct find *f, pid_t pid)
{
	struct placed_list placed = { 0 };
	bool found = false;
	size_t i;

	for (i = 0; i < f->holders->n && !found; i++)
		found = holder_watches(&f->holders->v[i], pid) || holder_keeps(&f->holders->v[i], pid);
	if (found)
		return true;
	wc_error_free(placed_find(pid, &placed)); /* not ours to look at, or gone: nothing is found */
	found = placed.n;
	placed_list_deinit(&placed);
	return found;
}

static bool search_process(void *ctx, pid_t pid)
{
	struct find *f = ctx;

	if (pid != getpid() && has_something(f, pid))
		f->no_memory = !vec_push(f->found.v, f->found.n, f->found.cap, pid);
	return !f->no_memory;
}

static int by_number(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

struct wc_error *slots_find_ours(const struct holder_list *holders, struct thread_ids *ret)
{
	struct find f = { .holders = holders };

	proc_each(search_process, &f);
	if (f.no_memory) {
		thread_ids_deinit(&f.found);
		return &wc_enomem;
	}
	if (f.found.n)
		qsort(f.found.v, f.found.n, sizeof(f.found.v[0]), by_number);
	*ret = f.found;
	return NULL;
}
