/* The values of an access: what its instruction tells is exact; the others were read, or are those seen last. */
#include "handler/walk.h"
#include "watchctl/code/insn/access.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/engine/intake/access_fact.h"
#include "watchctl/engine/intake/intake_impl.h"

#define RACE_NS 50000ull /* so close together, two threads' accesses may have been made in the other order */
#define KERNEL_WORD 4u	 /* bytes that the kernel writes as a thread ends */

/* The handler read memory, not knowing the instruction: what that one moved is exact. */
static void correct_new_value(const struct intake *in, const struct wire_record *r,
			      const struct access_query *q, uint64_t time_ns, struct access_event *a)
{
	struct wire_access_fact fact;
	uint64_t value;

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

static bool decode_before(const struct code_fact *f, struct insn *ret)
{
	return f->before_len && insn_decode(f->before, f->before_len, f->pc - f->before_len, ret);
}

/* xchg, xadd and cmpxchg leave in registers what they found. */
static void take_exchanged(const struct intake *in, const struct code_fact *f, const struct insn *i,
			   uint64_t time_ns, struct access_event *a)
{
	struct insn_exchanged x;

	if (!i->exchange || code_facts_doubt(in->facts, a->frame[0], time_ns) != CODE_SURE ||
	    !insn_exchanged(i, f->pc - f->before_len, &a->regs, a->addr, a->size, &x))
		return;
	a->has_old = a->old_told = true;
	a->old_value = x.old_value;
	if (!x.has_new)
		return;
	a->has_new = true;
	a->new_value = x.new_value;
}

/* Whether something may have written between the record before and this one, or in their other order. */
static bool may_be_stale(struct intake *in, const struct intake_watch *w, const struct trace_event *e)
{
	const struct access_event *a = &e->access;

	if (w->w.shared || a->displaced)
		return true;
	if (!w->last_ns || a->pid != in->pid || w->w.address)
		return false;
	if (a->tid != w->last_tid && e->time_ns < w->last_ns + RACE_NS)
		return true;
	return a->size >= KERNEL_WORD && thread_ends_any(&in->ends, in->pid, w->last_ns, e->time_ns);
}

void intake_correct_values(struct intake *in, struct intake_watch *w, const struct wire_record *r,
			   const struct access_query *code, struct trace_event *e)
{
	struct access_event *a = &e->access;
	struct insn i = { 0 };
	bool known = code->pc && !(r->flags & WIRE_KERNEL) && decode_before(code->pc, &i);

	if (w->w.access == ACCESS_EXECUTE)
		return;
	if (code->pc)
		correct_new_value(in, r, code, e->time_ns, a);
	if (known)
		take_exchanged(in, code->pc, &i, e->time_ns, a);
	a->old_uncertain = a->has_old && !a->old_told && may_be_stale(in, w, e);
	if (known && i.nmem == 1 && i.mem[0].kind == ACCESS_READ)
		return;
	w->last_ns = e->time_ns;
	w->last_tid = a->tid;
}
