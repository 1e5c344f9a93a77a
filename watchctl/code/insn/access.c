/*
 * Three kinds of explanations for a trap, each with the evidence for it:
 *
 *	called	rip was reached by a call that pushed its return address onto the range, or read its
 *		target there. The call lies before a return address, and must lead to rip.
 *
 *	ran	The instruction before rip, its operand recomputed, covers the range; or it is a system
 *		call. Or a string instruction at rip, or ending at it, has just passed over the range;
 *		or a gather at rip was interrupted.
 *
 *	came	rip itself came out of the range: by ret, just below rsp, or by a jump through memory.
 *
 * One that the machine's state contradicts is dropped, however likely it looks. One that is shown beats
 * those that nothing contradicts, but that could not be checked. Where several are left, only what they
 * agree on is known. A call that leads to rip stands above the others: they would have to have run on
 * the way to a function's entry.
 *
 * The registers are those after the instruction: what it overwrote is put back where the instruction
 * allows it, by insn_undo(), and otherwise its operand counts as not recomputable. A jump leaves its
 * target in the range, and nothing else: it is recognised by bytes that are rip's where a pointer would have
 * them. Zeros say nothing, as every pointer has some.
 */
#include "watchctl/code/insn/access.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"

/* Functions larger than this are not walked: the instruction before stays unknown. */
#define FUNCTION_MAX (16u << 20)

/*
 * A fast string operation reports its trap late, after the block it was in (Intel SDM vol. 3, 18.2.4). Its size is not
 * documented: 64 bytes on older processors, up to 128 measured on one with fast short rep movs (Xeon, model 207).
 */
#define REP_BLOCK 128u

enum evidence {
	CONTRADICTED, /* did not happen */
	POSSIBLE,     /* not contradicted, and not checkable */
	HINTED,	      /* one byte that says something fits: so it would by chance, one time in 256 */
	SHOWN,
};

struct attempt {
	const struct access_query *q;
	struct insn before; /* ends at rip; len 0: unknown */
	uint64_t before_addr;
};

struct claim {
	enum evidence evidence;
	struct access_verdict v;
};

static bool ranges_overlap(uint64_t a, uint64_t alen, uint64_t b, uint64_t blen)
{
	return a < b ? b - a < alen : a - b < blen;
}

static bool overlaps_watch(const struct access_query *q, uint64_t addr, uint64_t len)
{
	return ranges_overlap(q->addr, q->size, addr, len);
}

/* Whether an access of @kind raises the trap at all. */
static bool can_fire(const struct access_query *q, enum access_kind kind)
{
	return q->armed != ACCESS_WRITE || kind != ACCESS_READ;
}

/* Whether the bytes that [addr, addr + 8) shares with the watched range are those of @value. */
static enum evidence access_holds(const struct access_query *q, uint64_t addr, uint64_t value)
{
	unsigned int same = 0, reporting = 0;

	for (unsigned int i = 0; i < q->size && i < 8; i++) {
		uint64_t at = q->addr + i - addr;
		uint8_t byte = (uint8_t)(value >> 8 * (at & 7));

		if (at >= 8)
			continue;
		if (!q->has_new)
			return POSSIBLE;
		if ((uint8_t)(q->new_value >> 8 * i) != byte)
			return CONTRADICTED;
		same++;
		reporting += byte != 0;
	}
	if (!same)
		return CONTRADICTED;
	if (!reporting)
		return POSSIBLE;
	return reporting == 1 && same < 8 ? HINTED : SHOWN;
}

static bool decode_before(const struct code_fact *f, struct insn *ret, uint64_t *addr)
{
	if (!f || !f->before_len || f->before_len > INSN_MAX)
		return false;
	*addr = f->pc - f->before_len;
	return insn_decode(f->before, f->before_len, *addr, ret) && ret->len == f->before_len;
}

static void set_insn(struct access_verdict *v, uint64_t addr, const uint8_t *bytes, uint8_t len)
{
	v->insn = addr;
	v->len = len;
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): an instruction was decoded from them */
	memcpy(v->bytes, bytes, len);
}

/* One operand covers the watch. A second one leaves no single range to tell. */
static void add_range(struct access_verdict *v, uint64_t addr, uint32_t len)
{
	v->has_range = !v->range_len;
	v->range_addr = addr;
	v->range_len = len;
}

/* Two explanations for one trap: only what they agree on is known. */
static void keep_common(struct claim *c, const struct claim *other)
{
	struct access_verdict *v = &c->v;

	if (v->kind != other->v.kind)
		v->kind = ACCESS_UNKNOWN;
	if (v->insn != other->v.insn || v->origin != other->v.origin)
		*v = (struct access_verdict){ .kind = v->kind };
	v->confirmed = v->has_range = false;
}

/* What ran: the instruction before rip */

static bool is_known(const struct insn_mem *m, uint32_t lost)
{
	const int8_t reg[] = { m->base, m->index, m->bit_reg };

	for (unsigned int i = 0; i < 3; i++)
		if (reg[i] >= 0 && lost >> reg[i] & 1)
			return false;
	return m->seg != 1 || !(lost >> WREG_FS_BASE & 1);
}

static enum evidence operand_evidence(const struct attempt *a, const struct insn_mem *m,
				      const struct regs *regs, uint32_t lost, uint64_t *addr)
{
	if (!is_known(m, lost) || !insn_mem_addr(m, regs, a->before_addr, a->before.len, addr))
		return POSSIBLE;
	if (!m->size)
		return overlaps_watch(a->q, *addr, INSN_VARIES_MAX) ? POSSIBLE : CONTRADICTED;
	return overlaps_watch(a->q, *addr, m->size) ? SHOWN : CONTRADICTED;
}

/*
 * Of the operands that cover the range for certain, the kinds together: movs from and to it does read and
 * write. Of those that only may, the kind they agree on. What cannot have raised the trap is no reason, but
 * counts where another operand is one.
 */
static void explain_by_operands(const struct attempt *a, struct claim *ret)
{
	struct access_verdict *v = &ret->v;
	struct regs regs;
	uint32_t lost = insn_undo(&a->before, a->q->regs, &regs);
	bool exact = !a->before.cond_access;
	uint8_t besides = 0;

	for (unsigned int i = 0; i < a->before.nmem; i++) {
		const struct insn_mem *m = &a->before.mem[i];
		uint64_t addr;
		enum evidence e = operand_evidence(a, m, &regs, lost, &addr);

		if (e == SHOWN)
			add_range(v, addr, m->size);
		exact &= e != POSSIBLE;
		if (e == SHOWN && !can_fire(a->q, m->kind))
			besides |= m->kind;
		if (e == CONTRADICTED || e < ret->evidence || !can_fire(a->q, m->kind))
			continue;
		if (e > ret->evidence)
			v->kind = m->kind;
		else if (e == SHOWN)
			v->kind |= m->kind;
		else if (v->kind != m->kind)
			v->kind = ACCESS_UNKNOWN;
		ret->evidence = e;
	}
	if (ret->evidence == SHOWN)
		v->kind |= besides;
	v->has_range &= exact;
}

/* Did not run to its end just now, or rip would be somewhere else. */
static bool leaves(const struct insn *i)
{
	return i->is_call || i->is_ret || i->is_jmp;
}

/* Nothing says whether the kernel read or wrote, unless the value changed. */
static enum access_kind kernel_kind(const struct access_query *q)
{
	return q->has_old && q->has_new && q->old_value != q->new_value ? ACCESS_WRITE : ACCESS_UNKNOWN;
}

/* syscall leaves rip in rcx (Intel SDM vol. 2, SYSCALL), and the kernel keeps it there. */
static enum evidence kernel_evidence(const struct attempt *a)
{
	const uint64_t *r = a->q->regs->r;

	return a->before.keeps_rip && r[WREG_RCX] != r[WREG_RIP] ? POSSIBLE : SHOWN;
}

static struct claim claim_before(const struct attempt *a)
{
	struct claim ret = { .evidence = CONTRADICTED };

	if (!a->before.len || leaves(&a->before) || a->before.is_rep)
		return ret;
	if (a->before.is_syscall) {
		ret.evidence = kernel_evidence(a);
		ret.v.kind = kernel_kind(a->q);
		ret.v.origin = ORIGIN_KERNEL;
	} else {
		explain_by_operands(a, &ret);
	}
	ret.v.confirmed = ret.evidence == SHOWN;
	set_insn(&ret.v, a->before_addr, a->q->pc->before, a->before.len);
	return ret;
}

/* What ran: a repeated string instruction */

/*
 * What it passed over lately, for one of its pointers: the block behind it. How far behind it began is not
 * known, so only the last step, at *last, is certain, and only if there was one.
 */
static enum evidence passed(const struct access_query *q, const struct insn_mem *m, uint64_t *last)
{
	uint64_t at, window = m->size > REP_BLOCK ? m->size : REP_BLOCK;
	bool down = q->regs->r[WREG_RFLAGS] & RFLAG_DIRECTION;

	if (!m->size || !insn_mem_addr(m, q->regs, 0, 0, &at))
		return POSSIBLE;
	*last = down ? at + m->size : at - m->size;
	if (overlaps_watch(q, *last, m->size))
		return SHOWN;
	if (q->steps_trap)
		return CONTRADICTED;
	return overlaps_watch(q, down ? at + m->size : at - window, window) ? POSSIBLE : CONTRADICTED;
}

static void explain_by_rep(const struct access_query *q, const struct insn *i, uint64_t addr,
			   const uint8_t *bytes, struct claim *ret)
{
	struct access_verdict *v = &ret->v;
	bool all_shown = true, exact = q->steps_trap;
	uint8_t besides = 0;

	for (unsigned int k = 0; k < i->nmem; k++) {
		const struct insn_mem *m = &i->mem[k];
		uint64_t last;
		enum evidence e = passed(q, m, &last);

		if (e == SHOWN)
			add_range(v, last, m->size);
		exact &= e != POSSIBLE;
		if (e == SHOWN && !can_fire(q, m->kind))
			besides |= m->kind;
		if (e == CONTRADICTED || !can_fire(q, m->kind))
			continue;
		all_shown &= e == SHOWN;
		/* Where an earlier step may have been the one, they cannot be known apart. */
		if (ret->evidence == CONTRADICTED || v->kind == m->kind)
			v->kind = m->kind;
		else
			v->kind = all_shown ? v->kind | m->kind : ACCESS_UNKNOWN;
		ret->evidence = e > ret->evidence ? e : ret->evidence;
	}
	if (ret->evidence == CONTRADICTED)
		return;
	if (v->kind)
		v->kind |= besides;
	v->has_range &= exact;
	v->confirmed = ret->evidence == SHOWN && v->kind;
	set_insn(v, addr, bytes, i->len);
}

/* A repeated string instruction that ended at rip. */
static struct claim claim_ended(const struct attempt *a)
{
	struct claim ret = { .evidence = CONTRADICTED };

	if (a->before.len && a->before.is_rep)
		explain_by_rep(a->q, &a->before, a->before_addr, a->q->pc->before, &ret);
	return ret;
}

/*
 * The instruction at rip, where it can trap before it ends: a repeated string instruction between its
 * steps; a gather or scatter that a page fault interrupts, with what it accessed until then (Intel SDM
 * vol. 2, VPGATHERDD). It may not have begun yet.
 */
static struct claim claim_at(const struct attempt *a)
{
	const struct code_fact *f = a->q->pc;
	struct claim ret = { .evidence = CONTRADICTED };
	struct insn at;

	if (!f || !f->at_len || !insn_decode(f->at, f->at_len, f->pc, &at))
		return ret;
	if (at.is_rep && a->q->regs->r[WREG_RCX]) {
		explain_by_rep(a->q, &at, f->pc, f->at, &ret);
		ret.v.confirmed &= a->before.len != 0;
	} else if (at.nmem && at.mem[0].vsib && can_fire(a->q, at.mem[0].kind)) {
		ret.evidence = POSSIBLE;
		ret.v.kind = at.mem[0].kind;
		set_insn(&ret.v, f->pc, f->at, at.len);
	}
	return ret;
}

/* The instruction before the one at rip may fit as well. */
static struct claim claim_ran(const struct attempt *a)
{
	struct claim at = claim_at(a), before = claim_before(a);

	if (before.evidence == CONTRADICTED)
		before = claim_ended(a);
	if (at.evidence == CONTRADICTED)
		return before;
	if (before.evidence == SHOWN || (before.evidence && !at.v.confirmed)) {
		keep_common(&at, &before);
		at.evidence = before.evidence > at.evidence ? before.evidence : at.evidence;
	}
	return at;
}

/* What called */

/* The address of the memory that @call took its target from; 0: not from memory, or not known. */
static uint64_t target_operand(const struct access_query *q, const struct insn *call, uint64_t addr)
{
	struct regs regs;
	uint64_t ret;

	if (!call->target_in_mem)
		return 0;
	insn_undo(call, q->regs, &regs);
	return insn_mem_addr(&call->mem[0], &regs, addr, call->len, &ret) ? ret : 0;
}

/* Whether @call went to rip: by its own bytes, by the register it names, by the value it read at @operand. */
static enum evidence went_to_rip(const struct access_query *q, const struct insn *call, uint64_t operand)
{
	uint64_t rip = q->regs->r[WREG_RIP];

	if (call->has_target)
		return call->target == rip ? SHOWN : CONTRADICTED;
	if (call->target_reg == WREG_RSP)
		return POSSIBLE;
	if (call->target_reg >= 0)
		/* The callee finds every register as it was, but rsp. */
		return q->regs->r[call->target_reg] == rip ? SHOWN : CONTRADICTED;
	/* What it read there may be gone: its return address came to lie on it. */
	if (operand && overlaps_watch(q, operand, 8) && !ranges_overlap(operand, 8, q->regs->r[WREG_RSP], 8))
		return access_holds(q, operand, rip);
	/* From memory that cannot be computed: the watched one, if that holds rip. */
	if (call->target_in_mem && !operand && access_holds(q, q->addr & ~7ull, rip) == SHOWN)
		return SHOWN;
	return POSSIBLE;
}

/*
 * @f is about a return address that should lie at rsp: was it pushed there by the call before it, just now?
 * That call wrote [rsp] and, when it names memory, read its target.
 */
static struct claim claim_call_at(const struct attempt *a, const struct code_fact *f)
{
	const struct access_query *q = a->q;
	uint64_t rsp = q->regs->r[WREG_RSP], addr, operand;
	enum evidence target, slot = CONTRADICTED;
	struct claim ret = { .evidence = CONTRADICTED };
	struct insn call;

	if (!decode_before(f, &call, &addr) || !call.is_call)
		return ret;
	operand = target_operand(q, &call, addr);
	target = went_to_rip(q, &call, operand);
	if (target == CONTRADICTED)
		return ret;
	if (overlaps_watch(q, rsp, 8)) {
		slot = access_holds(q, rsp, f->pc);
		if (slot == CONTRADICTED)
			return ret;
		ret.v.kind = ACCESS_WRITE;
		add_range(&ret.v, rsp, 8);
	}
	if (operand ? overlaps_watch(q, operand, 8) : call.target_in_mem && target == SHOWN) {
		ret.v.kind |= ACCESS_READ;
		if (operand)
			add_range(&ret.v, operand, 8);
	}
	if (!ret.v.kind || !can_fire(q, ret.v.kind))
		return (struct claim){ .evidence = CONTRADICTED };
	ret.evidence = target > slot ? target : slot;
	/* A jump or ret to behind an indirect call leaves the same, but for what the call pushed. */
	if (f == q->pc && !call.has_target)
		ret.evidence = slot;
	ret.v.in_caller = f != q->pc;
	ret.v.confirmed = ret.evidence == SHOWN;
	set_insn(&ret.v, addr, f->before, call.len);
	return ret;
}

static struct claim claim_call(const struct attempt *a)
{
	struct claim call = { .evidence = CONTRADICTED }, next = { .evidence = CONTRADICTED };

	if (a->q->caller)
		call = claim_call_at(a, a->q->caller);
	/* A call to the next instruction, as position-independent code does to learn rip. */
	if (a->q->pc)
		next = claim_call_at(a, a->q->pc);
	if (next.evidence == CONTRADICTED || call.evidence > next.evidence)
		return call;
	if (next.evidence == call.evidence)
		keep_common(&next, &call);
	return next;
}

/* Where rip came from */

/* ret has read [rsp - 8], and that is rip. It leads to an instruction after a call. */
static enum evidence came_by_ret(const struct attempt *a)
{
	uint64_t slot = a->q->regs->r[WREG_RSP] - 8;

	return overlaps_watch(a->q, slot, 8) ? access_holds(a->q, slot, a->q->regs->r[WREG_RIP])
					     : CONTRADICTED;
}

/*
 * A jump through memory, or a ret that dropped arguments, has read a pointer that is rip now. A call to the
 * next instruction leaves the same, at rsp.
 */
static enum evidence came_by_jump(const struct attempt *a)
{
	const struct access_query *q = a->q;
	enum evidence e = access_holds(q, q->addr & ~7ull, q->regs->r[WREG_RIP]);

	return e == POSSIBLE || overlaps_watch(q, q->regs->r[WREG_RSP], 8) ? CONTRADICTED : e;
}

static struct claim claim_came(const struct attempt *a)
{
	enum evidence ret = came_by_ret(a), jump = came_by_jump(a);
	struct claim c = { .evidence = ret > jump ? ret : jump };

	if (c.evidence == CONTRADICTED || !can_fire(a->q, ACCESS_READ))
		return (struct claim){ .evidence = CONTRADICTED };
	c.v.kind = ACCESS_READ;
	if (ret != CONTRADICTED) {
		c.v.confirmed = ret == SHOWN;
		if (a->before.is_call && ret == SHOWN)
			add_range(&c.v, a->q->regs->r[WREG_RSP] - 8, 8);
	}
	return c;
}

/* A system call at rip, which the trap's own signal interrupted: the kernel went back to it. */
static bool resolve_restart(const struct access_query *q, struct access_verdict *v)
{
	const struct code_fact *f = q->pc;
	struct insn at;

	if (!f || !f->at_len || !insn_decode(f->at, f->at_len, f->pc, &at) || !at.is_syscall)
		return false;
	v->kind = kernel_kind(q);
	v->origin = ORIGIN_KERNEL;
	set_insn(v, f->pc, f->at, at.len);
	return true;
}

/* Nothing is shown: what nothing contradicts, as far as it agrees. */
static bool resolve_weak(const struct attempt *a, const struct claim *ran, const struct claim *came,
			 const struct claim *call, struct access_verdict *ret)
{
	/* Only where a ret leads to is a slot below rsp reason enough; else it is a reason for doubt. */
	bool by_ret = came->evidence && a->before.is_call;
	bool called = call->evidence != CONTRADICTED;
	struct claim sum;

	/* Nothing else can have run, or there is no saying so. */
	if (!a->before.len || (!ran->evidence && !by_ret && !called))
		return false;
	sum = ran->evidence ? *ran : called ? *call : *came;
	if (ran->evidence && called)
		keep_common(&sum, call);
	/* The same bytes that hint at a jump hint at a call, and the call is known to be there. */
	if (came->evidence && call->evidence < HINTED)
		keep_common(&sum, came);
	*ret = sum.v;
	return true;
}

static bool resolve(const struct attempt *a, struct access_verdict *ret)
{
	struct claim call = claim_call(a), ran, came;

	if (call.evidence == SHOWN) {
		*ret = call.v;
		return true;
	}
	ran = claim_ran(a);
	came = claim_came(a);
	if (ran.evidence < SHOWN && came.evidence < SHOWN)
		return resolve_weak(a, &ran, &came, &call, ret);
	if (ran.evidence == SHOWN && came.evidence >= HINTED)
		keep_common(&ran, &came);
	if (ran.evidence == SHOWN && call.evidence == HINTED)
		keep_common(&ran, &call);
	*ret = ran.evidence == SHOWN ? ran.v : came.v;
	return true;
}

void access_resolve(const struct access_query *q, struct access_verdict *ret)
{
	struct attempt a = { .q = q };

	*ret = (struct access_verdict){ 0 };
	if (!decode_before(q->pc, &a.before, &a.before_addr))
		a.before.len = 0;
	if (!resolve(&a, ret))
		resolve_restart(q, ret);
	if (!ret->has_range)
		ret->range_addr = ret->range_len = 0;
	if (!ret->kind && q->armed == ACCESS_WRITE)
		ret->kind = ACCESS_WRITE;
}

static void fill_before(struct code_fact *f, const struct memory_view *mem)
{
	scoped(freep) uint8_t *code = NULL;
	uint64_t len = f->pc - f->function_start, insn;

	if (!f->function_start || f->pc <= f->function_start || len > FUNCTION_MAX)
		return;
	code = malloc(len);
	if (!code || !memory_read(mem, f->function_start, code, len) ||
	    !insn_before(code, len, f->function_start, f->pc, &insn))
		return;
	f->before_len = (uint8_t)(f->pc - insn);
	memcpy(f->before, code + (insn - f->function_start), f->before_len);
}

void code_fact_fill(struct code_fact *f, uint64_t pc, uint64_t function_start, const struct memory_view *mem)
{
	uint64_t page_left = 4096 - pc % 4096;

	*f = (struct code_fact){ .pc = pc, .function_start = function_start };
	fill_before(f, mem);
	if (memory_read(mem, pc, f->at, INSN_MAX))
		f->at_len = INSN_MAX;
	else if (page_left < INSN_MAX && memory_read(mem, pc, f->at, page_left))
		f->at_len = (uint8_t)page_left;
	memset(f->at + f->at_len, 0, INSN_MAX - f->at_len);
}
