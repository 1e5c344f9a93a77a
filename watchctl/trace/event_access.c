#include "watchctl/trace/event_access.h"

#include <string.h>

#include "watchctl/code/insn/access.h"
#include "watchctl/code/insn/insn.h"

/* Seen while the kernel made it: the program stands at its system call, or wherever it was interrupted. */
static void resolve_kernel(const struct access_event *e, const struct code_fact *pc,
			   struct access_verdict *ret)
{
	struct insn insn;

	ret->kind = (enum access_kind)e->kernel_kind;
	ret->origin = ORIGIN_KERNEL;
	if (e->syscall < 0 || !pc || !pc->before_len ||
	    !insn_decode(pc->before, pc->before_len, pc->pc - pc->before_len, &insn) || !insn.is_syscall)
		return;
	ret->insn = pc->pc - pc->before_len;
	ret->len = pc->before_len;
	memcpy(ret->bytes, pc->before, pc->before_len);
	ret->confirmed = true;
}

/* An execution breakpoint is a fault: it stops in front of the instruction. */
static void resolve_execution(uint64_t rip, const struct code_fact *pc, struct access_verdict *ret)
{
	struct insn insn;

	*ret = (struct access_verdict){ .kind = ACCESS_EXECUTE, .insn = rip, .confirmed = true };
	if (!pc || !insn_decode(pc->at, pc->at_len, rip, &insn))
		return;
	ret->len = insn.len;
	memcpy(ret->bytes, pc->at, insn.len);
}

/* The bytes of the instruction that ends at @f->pc, or begins there, if it is the one at ret->insn. */
static void take_bytes(const struct code_fact *f, struct access_verdict *ret)
{
	struct insn insn;

	if (!f || ret->len)
		return;
	if (f->before_len && ret->insn == f->pc - f->before_len) {
		ret->len = f->before_len;
		memcpy(ret->bytes, f->before, f->before_len);
	} else if (ret->insn == f->pc && insn_decode(f->at, f->at_len, f->pc, &insn)) {
		ret->len = insn.len;
		memcpy(ret->bytes, f->at, insn.len);
	}
}

static void resolve_withheld(const struct access_event *e, const struct code_fact *pc,
			     const struct code_fact *caller, struct access_verdict *ret)
{
	ret->kind = (enum access_kind)e->known_kind;
	ret->insn = e->known_insn;
	ret->in_caller = e->known_in_caller;
	if (!ret->insn)
		return;
	take_bytes(pc, ret);
	take_bytes(caller, ret);
}

void event_access_resolve(const struct access_event *e, const struct watch_event *w,
			  const struct code_fact *pc, const struct code_fact *caller,
			  struct access_verdict *ret)
{
	struct access_query q = {
		.regs = &e->regs,
		.addr = e->addr,
		.size = e->size,
		.armed = !w			     ? 0
			 : w->access == ACCESS_WRITE ? ACCESS_WRITE
						     : ACCESS_READWRITE,
		.steps_trap = w && w->steps_trap,
		.has_old = e->has_old && !e->old_uncertain,
		.has_new = e->has_new,
		.old_value = e->old_value,
		.new_value = e->new_value,
		.pc = pc,
		.caller = caller,
	};

	*ret = (struct access_verdict){ .kind = ACCESS_UNKNOWN };
	/* Registers of another moment say nothing about who made the access. */
	if (e->displaced)
		return;
	if (e->in_kernel)
		resolve_kernel(e, pc, ret);
	else if (w && w->access == ACCESS_EXECUTE)
		resolve_execution(e->regs.r[WREG_RIP], pc, ret);
	else if (e->withheld & WITHHELD_REGS)
		resolve_withheld(e, pc, caller, ret);
	else
		access_resolve(&q, ret);
}
