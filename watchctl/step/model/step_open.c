#include "watchctl/step/model/step_open.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/insn/result_use.h"
#include "watchctl/step/insn/plan.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/event.h"

struct open_call {
	uint64_t call, parent, return_address;
	uint64_t start; /* of its function; 0: not known */
	const struct function_plan *plan;
};

/* In the order in which they were made: as many as are open. */
struct open_thread {
	struct open_call *v;
	size_t n, cap;
};

static void thread_free(void *thread)
{
	struct open_thread *t = thread;

	free(t->v);
	free(t);
}

void step_open_deinit(struct step_open *o)
{
	map64_deinit_values(&o->threads, thread_free);
	map64_deinit(&o->uses);
}

static struct open_thread *thread_of(const struct step_open *o, pid_t tid)
{
	return map64_get(&o->threads, (uint64_t)tid);
}

/* NULL: it is not open. */
static struct open_call *find_open(const struct open_thread *t, uint64_t call)
{
	for (size_t i = t ? t->n : 0; i-- > 0;)
		if (t->v[i].call == call)
			return &t->v[i];
	return NULL;
}

bool step_open_enter(struct step_open *o, pid_t tid, const struct track_call *c,
		     const struct function_plan *plan, uint64_t start)
{
	struct open_thread *t = thread_of(o, tid);

	if (!t) {
		t = calloc(1, sizeof(*t));
		if (!t || !map64_put(&o->threads, (uint64_t)tid, t)) {
			free(t);
			return false;
		}
	}
	return vec_push(t->v, t->n, t->cap,
			(struct open_call){ c->call, c->parent, c->return_address, start, plan });
}

void step_open_leave(struct step_open *o, pid_t tid, uint64_t call)
{
	struct open_thread *t = thread_of(o, tid);
	struct open_call *c = find_open(t, call);

	if (!c)
		return;
	memmove(c, c + 1, (size_t)(t->v + t->n - (c + 1)) * sizeof(*c));
	t->n--;
}

void step_open_end_thread(struct step_open *o, pid_t tid)
{
	struct open_thread *t = thread_of(o, tid);

	if (!t)
		return;
	free(t->v);
	*t = (struct open_thread){ 0 };
}

void step_open_forget_code(struct step_open *o)
{
	map64_deinit(&o->uses);
}

/* The code behind a call */

/* @at: a return address. */
static enum result_use use_of(struct step_open *o, uint64_t at, bool vector)
{
	const uint64_t key = at << 1 | vector;
	uintptr_t known = (uintptr_t)map64_get(&o->uses, key);
	enum result_use use;

	if (known)
		return (enum result_use)(known - 1);
	use = o->ops->result_use(o->planner, at, vector);
	map64_put(&o->uses, key, (void *)((uintptr_t)use + 1));
	return use;
}

/*
 * The open call whose function has made the call that returns to @at: @call, or one around it. Where a call was
 * made by a jump, those that have jumped return to the same place. NULL: it is not recorded.
 */
static const struct open_call *find_maker(const struct step_open *o, pid_t tid, uint64_t call, uint64_t at)
{
	const struct open_thread *t = thread_of(o, tid);
	const struct open_call *c = find_open(t, call);

	while (c && c->return_address == at)
		c = find_open(t, c->parent);
	/* The address is behind the call, which may be the last instruction. */
	return c && c->start && at - 1 - c->start < c->plan->function.size ? c : NULL;
}

static bool is_in_vector(const struct function_plan *p)
{
	return p->plan.leave.v[p->result.first].op != FETCH_GPR;
}

/* How a function that returns with what it was given hands it on. */
enum handing { HANDS_ON, HAS_NO_RESULT, HANDS_NOT_KNOWN };

static enum handing handing_of(const struct step_open *o, const struct function_plan *p, bool vector)
{
	const struct type_event *type = o->ops->type(o->planner, p->function.return_type);

	if (p->function.flags & FUNCTION_NO_TYPES)
		return HANDS_ON;
	if (type && type->kind == TYPE_VOID)
		return HAS_NO_RESULT;
	if (!type || p->result.state != VALUE_OK || p->result.count != 1)
		return HANDS_NOT_KNOWN;
	return is_in_vector(p) == vector ? HANDS_ON : HAS_NO_RESULT;
}

bool step_open_is_unused(struct step_open *o, pid_t tid, const struct track_call *c,
			 const struct function_plan *plan)
{
	uint64_t at = c->return_address, around = c->parent;
	const bool vector = is_in_vector(plan);

	for (;;) {
		enum result_use use = use_of(o, at, vector);
		const struct open_call *maker = find_maker(o, tid, around, at);
		enum handing handing;

		if (use != RESULT_PASSED)
			return use == RESULT_UNUSED;
		handing = maker ? handing_of(o, maker->plan, vector) : HANDS_NOT_KNOWN;
		if (handing != HANDS_ON)
			return handing == HAS_NO_RESULT;
		at = maker->return_address;
		around = maker->parent;
	}
}
