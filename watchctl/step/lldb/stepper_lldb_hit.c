#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/step/lldb/stepper_lldb_impl.h"

/* mov $15, %rax (or %eax); syscall: what a signal handler returns to. */
static bool is_sigreturn(struct stepper *m, uint64_t address)
{
	static const uint8_t wide[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static const uint8_t narrow[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uint8_t code[sizeof(wide)];

	return stepper_read(m, address, code, sizeof(code)) &&
	       (!memcmp(code, wide, sizeof(wide)) || !memcmp(code, narrow, sizeof(narrow)));
}

static bool is_reported(const struct stepper *m, const struct track_call *c)
{
	return c->call != m->hidden && (!m->o.depth || c->depth < m->o.depth);
}

/* Without asking the tracker, which would have to be reported the call's end. */
static bool is_too_deep(const struct stepper *m, const struct stepper_thread *t)
{
	const struct track_call *in = track_innermost(m->track, t->tid);

	return m->o.depth && in && in->depth + 1 >= m->o.depth && t->sp < in->sp;
}

static struct wc_error *report_end(struct stepper *m, struct stepper_thread *t, const struct track_end *e)
{
	struct track_call call = e->call;
	struct step_record r = { .kind = STEP_RETURN, .point = call.point, .call = &call, .how = e->how };
	const struct step_plan *plan = call.point < m->npoints ? m->plan[call.point] : NULL;
	struct fetched *fetched = NULL;
	struct wc_error *err;

	if (!is_reported(m, &call))
		return NULL;
	if (e->how == RETURN_RETURNED && plan && plan->leave.n && stepper_thread_load(m, t)) {
		fetched = malloc(sizeof(*fetched));
		if (!fetched)
			return &wc_enomem;
		stepper_thread_fetch(m, t, &plan->leave, call.sp, fetched);
	}
	r.fetched = fetched;
	r.regs = t->regs;
	err = stepper_report_of(m, t, &r);
	free(fetched);
	return err;
}

struct wc_error *stepper_report_ends(struct stepper *m, struct stepper_thread *t,
				     const struct track_end *ended, size_t n)
{
	bool from_ended = false;
	struct wc_error *err = NULL;
	size_t i;

	for (i = 0; i < n && !err; i++) {
		struct place *p = stepper_place(m, ended[i].call.return_address);

		if (!p)
			return &wc_enomem;
		if (m->recording)
			err = report_end(m, t, &ended[i]);
		from_ended |= m->from_tid == t->tid && ended[i].call.sp == m->from_sp;
		err = err ? err : stepper_place_sync(m, p);
	}
	return err || !from_ended ? err : stepper_range_from_ended(m);
}

static struct wc_error *on_signal(struct stepper *m, struct stepper_thread *t)
{
	const struct track_call *call = track_innermost(m->track, t->tid);
	struct step_record r = {
		.kind = STEP_SIGNAL, .signal = t->signal, .code = t->code, .inside = call ? call->call : 0
	};

	if (!m->recording || !t->recorded || !stepper_thread_load(m, t))
		return NULL;
	t->handling = true;
	r.regs = t->regs;
	return stepper_report_of(m, t, &r);
}

static struct wc_error *on_loader(struct stepper *m, struct stepper_thread *t)
{
	struct step_record r = { .kind = STEP_MODULES, .tid = t->tid };
	int32_t state;

	/* RT_CONSISTENT is 0: else the list is being changed, and the hook will be called again. */
	if (m->loader_state && stepper_read(m, m->loader_state, &state, sizeof(state)) && state)
		return NULL;
	m->waits_for_modules = true;
	return stepper_report(m, &r);
}

static struct wc_error *on_return(struct stepper *m, struct stepper_thread *t)
{
	const struct track_end *ended;
	struct wc_error *err = NULL;
	size_t n;

	if (m->recording) {
		err = track_reached(m->track, t->tid, t->pc, t->sp, &ended, &n);
		if (!err)
			err = stepper_report_ends(m, t, ended, n);
	}
	return err ? err : stepper_range_look(m, t);
}

/* The code that called is the parent's, as far as can be known: then its return address is all of the stack.
 */
static bool is_called_by(const struct stepper *m, const struct track_call *parent, uint64_t return_address)
{
	const struct step_point *p = &m->point[parent->point];

	if (parent->over)
		return false;
	if (p->size)
		return return_address >= p->address && return_address - p->address < p->size;
	return stepper_is_code(m, return_address);
}

/* How far the stack is wanted, up to the parent's return address; 0: not at all. @parent: NULL: not known. */
static uint64_t stack_wanted(const struct stepper *m, const struct track_call *c,
			     const struct track_call *parent)
{
	if (c->flags & CALL_TAIL || (parent && is_called_by(m, parent, c->return_address)))
		return 0;
	return parent && parent->sp > c->sp ? parent->sp : UINT64_MAX;
}

/* @stack_end: where the stack is no longer wanted; 0: it is not wanted at all. */
static struct wc_error *report_entry(struct stepper *m, struct stepper_thread *t, struct track_call *c,
				     uint64_t stack_end)
{
	struct step_record r = { .kind = STEP_ENTRY, .point = c->point, .call = c, .regs = t->regs };
	struct fetched *fetched = malloc(sizeof(*fetched));
	struct wc_error *err = fetched ? NULL : &wc_enomem;
	uint8_t *bytes = NULL;

	if (fetched)
		stepper_thread_fetch(m, t, &m->plan[c->point]->entry, c->sp, fetched);
	if (!err && stack_end) {
		bytes = stepper_thread_stack(m, t, &r.stack_len);
		err = bytes ? NULL : &wc_enomem;
		if (r.stack_len > stack_end - c->sp)
			r.stack_len = (uint32_t)(stack_end - c->sp);
	}
	r.fetched = fetched;
	r.stack = bytes;
	err = err ? err : stepper_report_of(m, t, &r);
	free(bytes);
	free(fetched);
	return err;
}

static uint8_t flags_of(struct stepper *m, struct stepper_thread *t, uint64_t return_address)
{
	uint8_t flags = t->fresh ? CALL_FIRST : 0;

	if (t->handling && is_sigreturn(m, return_address))
		flags |= CALL_SIGNAL;
	t->fresh = t->handling = false;
	return flags;
}

static struct wc_error *stepper_lldb_hit_enter(struct stepper *m, struct stepper_thread *t, uint32_t point,
					       uint64_t return_address, struct track_call *ret)
{
	const struct track_call *before = track_innermost(m->track, t->tid);
	const struct track_call outer = before ? *before : (struct track_call){ 0 };
	const struct track_entry e = { .tid = t->tid,
				       .point = point,
				       .sp = t->sp,
				       .return_address = return_address,
				       .over = m->point[point].use == POINT_OVER,
				       .leaves = m->point[point].leaves,
				       .flags = flags_of(m, t, return_address) };
	const struct track_end *ended;
	struct wc_error *err;
	struct place *back;
	size_t n;

	err = track_enter(m->track, &e, ret, &ended, &n);
	if (err)
		return err;
	m->hidden = ret->call; /* until it is reported: the range may end first */
	err = stepper_report_ends(m, t, ended, n);
	if (err || !m->recording)
		return err;
	m->hidden = 0;
	if (is_reported(m, ret)) {
		bool known = before && outer.call == ret->parent;

		m->entries++;
		err = report_entry(m, t, ret, stack_wanted(m, ret, known ? &outer : NULL));
	}
	back = stepper_place(m, return_address);
	return err ? err : back ? stepper_place_sync(m, back) : &wc_enomem;
}

static struct wc_error *ask_for_plan(struct stepper *m, struct stepper_thread *t, uint32_t point)
{
	struct step_record r = { .kind = STEP_NEED_PLAN, .tid = t->tid, .point = point };

	m->waits_for_plan = true;
	m->asking = t->tid;
	t->due |= DUE_POINT; /* again, when it is there */
	return stepper_report(m, &r);
}

static struct wc_error *on_point(struct stepper *m, struct stepper_thread *t, uint32_t point)
{
	bool over = m->point[point].use == POINT_OVER;
	struct track_call call;
	struct wc_error *err;
	uint64_t to;

	if (!m->recording || !t->recorded || !stepper_thread_load(m, t))
		return NULL;
	if (!stepper_read(m, t->sp, &to, sizeof(to))) {
		m->counts.lost++;
		return NULL;
	}
	if (over && !stepper_is_code(m, to)) {
		m->counts.wasted++;
		return NULL;
	}
	if (is_too_deep(m, t))
		return NULL;
	if (!m->plan[point])
		return ask_for_plan(m, t, point);
	err = stepper_report_thread(m, t); /* its stack is known before its first call */
	err = err ? err : stepper_lldb_hit_enter(m, t, point, to, &call);
	if (!err && m->recording && m->o.events && m->entries >= m->o.events)
		err = stepper_range_cut(m, t->tid, RANGE_LIMIT);
	return err;
}

struct wc_error *stepper_hit(struct stepper *m, struct stepper_thread *t)
{
	uint32_t what = t->due & -t->due;
	const struct place *p = stepper_place_find(m, t->pc);

	t->due &= ~what;
	t->at = t->pc;
	t->at_sp = t->sp;
	switch (what) {
	case DUE_SIGNAL:
		return on_signal(m, t);
	case DUE_LOADER:
		return on_loader(m, t);
	case DUE_MAKES:
		return stepper_thread_makes(m, t);
	case DUE_RETURN:
		return on_return(m, t);
	case DUE_FROM:
		return p && p->from != NO_POINT ? stepper_range_at_from(m, t, p->from) : NULL;
	case DUE_TO:
		return stepper_range_at_to(m, t);
	case DUE_POINT:
		return p && p->point != NO_POINT ? on_point(m, t, p->point) : NULL;
	default:
		return stepper_insn(m, t);
	}
}
