/* What it means that a thread stands at a breakpoint. */
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/step/ptrace/step_tracer.h"

#define IDLE_MAX 64u /* hits in a row of a return address that nobody waits for */

bool step_hit_is_code(const struct step_tracer *k, uint64_t address)
{
	size_t low = BISECT(k->ncode, i, k->code[i].end <= address);
	return low < k->ncode && address >= k->code[low].start;
}

bool step_hit_is_reported(const struct step_tracer *k, const struct track_call *call)
{
	return call->call != k->unreported && !(k->box->depth && call->depth >= k->box->depth);
}

/* Returns */

static void report_return(struct step_tracer *k, struct step_thread *t, struct track_end *e)
{
	struct step_record r = {
		.kind = STEP_RETURN, .point = e->call.point, .call = &e->call, .how = e->how
	};

	if (!step_hit_is_reported(k, &e->call))
		return;
	step_written_end(k, t, &e->call, e->how == RETURN_RETURNED);
	if (t->has_regs)
		step_state_regs(t, &r.regs);
	if (e->how == RETURN_RETURNED && t->has_regs && k->plan[e->call.point] &&
	    k->plan[e->call.point]->leave.n) {
		step_state_fetch(k, t, &k->plan[e->call.point]->leave, e->call.sp, &k->fetched);
		r.fetched = &k->fetched;
	}
	step_report_of(k, t, &r);
}

void step_hit_ended(struct step_tracer *k, struct step_thread *t, const struct track_end *ended, size_t n)
{
	bool from_ended = false;
	size_t i;

	for (i = 0; i < n; i++) {
		struct track_end e = ended[i];

		report_return(k, t, &e);
		from_ended |= k->from_tid == t->tid && e.call.sp == k->from_sp;
	}
	if (from_ended)
		step_range_from_ended(k, t);
}

/* No call that is reported has this return address any more: it would only cost. */
static void drop_idle(struct step_tracer *k, uint32_t number)
{
	struct step_break *b = &k->brk[number];

	if (++b->idle < IDLE_MAX || (b->use & ~BREAK_RETURN) || track_awaits(k->track, b->address) ||
	    (k->from_tid && k->from_return == b->address))
		return;
	b->idle = 0;
	b->use = 0;
	step_breaks_clear(k, number);
}

static void at_return(struct step_tracer *k, struct step_thread *t, uint32_t number)
{
	struct step_break *b = &k->brk[number];
	const struct track_end *ended = NULL;
	bool from_returns = k->from_tid == t->tid && k->from_return == b->address && t->user.rsp > k->from_sp;
	size_t n = 0;

	if (k->recording && t->recorded && track_awaits(k->track, b->address)) {
		step_written_look(k, t);
		if (step_report_failed(k,
				       track_reached(k->track, t->tid, b->address, t->user.rsp, &ended, &n)))
			return;
		b->idle = 0;
		step_hit_ended(k, t, ended, n);
	} else {
		drop_idle(k, number);
	}
	if (from_returns && k->from_tid)
		step_range_from_ended(k, t);
}

/* Entries */

/* A handler returns to code that calls rt_sigreturn(2), which its caller, the kernel, has chosen. */
static bool is_handler_entry(struct step_tracer *k, struct step_thread *t, uint64_t return_address)
{
	static const uint8_t call[9] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uint8_t code[sizeof(call)];
	uint32_t n;

	if (k->restorer && return_address == k->restorer)
		return true;
	if (!t->handling)
		return false;
	t->handling = false;
	if (!step_state_read(k, return_address, code, sizeof(code)))
		return false;
	if (step_breaks_find(k, return_address, &n) && k->breaks[n].planted)
		code[0] = k->breaks[n].original;
	if (memcmp(code, call, sizeof(call)) != 0)
		return false;
	k->restorer = return_address;
	return true;
}

/* The code that called is the parent's, as far as can be known: then its return address is all of the stack.
 */
static bool is_called_by(const struct step_tracer *k, const struct track_call *parent,
			 uint64_t return_address)
{
	const struct step_point *p = &k->point[parent->point];

	if (parent->over)
		return false;
	if (p->size)
		return return_address >= p->address && return_address - p->address < p->size;
	return step_hit_is_code(k, return_address);
}

static void add_stack(struct step_tracer *k, const struct track_call *parent, struct step_record *r)
{
	uint64_t sp = r->regs.r[WREG_RSP], len = k->box->stack_bytes;

	if (parent && parent->sp > sp && parent->sp - sp < len)
		len = parent->sp - sp; /* its own return address is a part of its stack, not of this one */
	r->stack_len = (uint32_t)step_state_copy(k, sp, k->stack, len & ~7ull);
	if (r->stack_len)
		r->stack = k->stack;
}

static void report_entry(struct step_tracer *k, struct step_thread *t, uint32_t point,
			 struct track_call *call, const struct track_call *parent)
{
	struct step_record r = { .kind = STEP_ENTRY, .point = point, .call = call };
	const struct step_plan *plan = k->plan[point];

	step_state_regs(t, &r.regs);
	step_state_fetch(k, t, &plan->entry, call->sp, &k->fetched);
	r.fetched = &k->fetched;
	if (!(call->flags & CALL_TAIL) && (!parent || !is_called_by(k, parent, call->return_address)))
		add_stack(k, parent, &r);
	step_report_of(k, t, &r);
	step_written_keep(k, point, call->call);
}

static void await_return(struct step_tracer *k, uint64_t address, uint32_t use)
{
	uint32_t number;

	if (step_report_failed(k, step_breaks_add(k, address, use, &number)))
		return;
	step_breaks_set(k, number);
}

static bool is_planned(struct step_tracer *k, struct step_thread *t, uint32_t point, uint32_t number)
{
	struct step_record r = { .kind = STEP_NEED_PLAN, .point = point };

	if (k->plan[point])
		return true;
	t->holds |= HOLD_PLAN;
	t->waiting = number;
	if (k->asked[point])
		return false;
	k->asked[point] = true;
	step_state_regs(t, &r.regs);
	step_report_of(k, t, &r);
	return false;
}

static void step_tracer_hit_enter(struct step_tracer *k, struct step_thread *t, uint32_t point,
				  uint64_t return_address)
{
	const struct step_point *p = &k->point[point];
	const struct track_call *in = track_innermost(k->track, t->tid);
	struct track_entry e = { .tid = t->tid, .point = point, .sp = t->user.rsp, .leaves = p->leaves };
	struct track_call call, parent = { 0 };
	const struct track_end *ended;
	bool is_tail;
	size_t n;

	if (in)
		parent = *in;
	/* What a handler jumps to returns to where it would: the kernel did not call that. */
	is_tail = in && in->sp == e.sp && in->return_address == return_address;
	e.return_address = return_address;
	e.over = p->use == POINT_OVER;
	e.flags = (uint8_t)((t->fresh ? CALL_FIRST : 0) |
			    (!is_tail && is_handler_entry(k, t, return_address) ? CALL_SIGNAL : 0));
	if (step_report_failed(k, track_enter(k->track, &e, &call, &ended, &n)))
		return;
	step_deep_restore(k);
	t->fresh = false;
	k->unreported =
		call.call; /* that others have ended may end the occurrence, and with it all that is open */
	step_hit_ended(k, t, ended, n);
	k->unreported = 0;
	if (!k->recording || !step_hit_is_reported(k, &call))
		return;
	report_entry(k, t, point, &call, call.parent && call.parent == parent.call ? &parent : NULL);
	await_return(k, return_address, BREAK_RETURN);
	if (k->box->events && ++k->entries >= k->box->events)
		step_range_cut(k, t, RANGE_LIMIT);
}

static void at_entry(struct step_tracer *k, struct step_thread *t, uint32_t number)
{
	uint32_t point = k->brk[number].function;
	uint64_t return_address;

	if (!k->recording || !t->recorded || point == NO_POINT)
		return;
	/* Asked before the tracker, which would have to be told the call's end. */
	if (step_deep_hit(k, t, number))
		return;
	if (!step_state_read(k, t->user.rsp, &return_address, 8)) {
		k->box->counts.lost++;
		return;
	}
	if (k->point[point].use == POINT_OVER && !step_hit_is_code(k, return_address)) {
		k->box->counts.wasted++;
		return;
	}
	if (!is_planned(k, t, point, number))
		return;
	step_written_look(k, t);
	if (k->point[point].frees)
		step_pointees_drop(&k->pointees, t->user.rdi);
	step_tracer_hit_enter(k, t, point, return_address);
}

/* Libraries */

static void at_loader(struct step_tracer *k, struct step_thread *t)
{
	struct step_record r = { .kind = STEP_MODULES };
	int32_t state = 0;

	/* RT_CONSISTENT is 0: <link.h>. The two announcements before that come too early. */
	if (k->box->loader_state && (!step_state_read(k, k->box->loader_state, &state, 4) || state))
		return;
	if (k->recording && t->recorded)
		step_written_look(k, t);
	t->holds |= HOLD_MODULES;
	step_state_regs(t, &r.regs);
	r.tid = t->tid;
	step_report(k, &r);
}

/* What a breakpoint is for, in the order in which it happens: a call is over before the next one begins. */
void step_hit(struct step_tracer *k, struct step_thread *t, uint32_t number)
{
	uint32_t use = k->brk[number].use;

	if (t->guest)
		return;
	if (use != BREAK_FUNCTION)
		step_deep_restore(k);
	t->again = t->reported_at == k->brk[number].address && t->reported_sp == t->user.rsp;
	t->reported_at = 0;
	if (t->again)
		return;
	if ((use & BREAK_HOME) && t->step_home == k->brk[number].address && t->user.rsp > t->step_home_sp)
		t->step_home = 0;
	if (use & BREAK_LOADER)
		at_loader(k, t);
	if (use & BREAK_RETURN)
		at_return(k, t, number);
	if (use & BREAK_FROM)
		step_range_at_from(k, t, k->brk[number].from);
	if (use & BREAK_TO)
		step_range_at_to(k, t);
	if ((use & BREAK_FUNCTION) && !k->done)
		at_entry(k, t, number);
}

void step_hit_planned(struct step_tracer *k, struct step_thread *t)
{
	uint32_t point = k->brk[t->waiting].function;

	if (!(t->holds & HOLD_PLAN) || !t->stopped || (point != NO_POINT && !k->plan[point]))
		return;
	t->holds &= ~(unsigned int)HOLD_PLAN;
	if (k->breaks[t->waiting].planted && step_threads_load(t))
		at_entry(k, t, t->waiting);
}

/*
 * Instruction by instruction: within recorded code a thread is single-stepped, and each instruction told
 * before it is executed. Where it leaves that code, by a call, it runs to where the call returns to.
 */

static void run_home(struct step_tracer *k, struct step_thread *t)
{
	uint64_t home;

	if (t->step_home || !step_state_read(k, t->user.rsp, &home, 8) || !step_hit_is_code(k, home))
		return; /* the return of the open call is what comes next */
	t->step_home = home;
	t->step_home_sp = t->user.rsp;
	await_return(k, home, BREAK_HOME);
}

void step_hit_instruction(struct step_tracer *k, struct step_thread *t)
{
	const struct track_call *in;
	struct step_record r = { .kind = STEP_INSN };
	uint32_t number;

	t->stepping = false;
	if (!k->box->instructions || !k->recording || !t->recorded)
		return;
	in = track_innermost(k->track, t->tid);
	if (!in || in->over || !step_threads_load(t))
		return;
	/* A breakpoint that it has not run into yet: what it is for comes first. */
	if (step_breaks_find(k, t->user.rip, &number) && k->breaks[number].planted && t->at != number + 1)
		return;
	if (!step_hit_is_code(k, t->user.rip)) {
		run_home(k, t);
		return;
	}
	t->stepping = true;
	t->step_home = 0;
	if (t->again)
		return;
	r.inside = in->call;
	step_state_regs(t, &r.regs);
	step_report_of(k, t, &r);
}
