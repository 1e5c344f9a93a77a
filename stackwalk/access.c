/*
 * The explanations for a trap, in the order in which they are tried:
 *
 *	rep	 a string instruction at rip, or ending at it, has just passed over the range
 *	before	 the instruction that ends at rip, its operand recomputed, covers the range
 *	kernel	 that instruction is a system call
 *	call	 rip was reached by a call that pushed its return address onto the range, or read
 *		 its target there
 *	ret	 rip was read from the range below rsp
 *	jump	 rip itself is the value in the range
 *	before	 the instruction that ends at rip, its operand not recomputable
 *	call	 as above, the target not checkable
 *	restart	 a system call at rip, which the trap's own signal interrupted
 *
 * An explanation that is contradicted by the registers is dropped, however likely it looks. The registers
 * are those after the instruction: what it overwrote is put back where the instruction allows it, by
 * insn_undo(), and otherwise its operand counts as not recomputable.
 */
#include "stackwalk/access.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"

/* Functions larger than this are not walked: the instruction before stays unknown. */
#define FUNCTION_MAX (16u << 20)

/* A fast string operation reports its trap late, after the block it was in (Intel SDM vol. 3, 18.2.4). */
#define REP_BLOCK 64u

enum coverage { MISSES, MAY_COVER, COVERS };

struct attempt {
	const struct access_query *q;
	struct insn before; /* ends at rip; len 0: unknown */
	uint64_t before_addr;
};

static bool ranges_overlap(uint64_t a, uint64_t alen, uint64_t b, uint64_t blen)
{
	return a < b ? b - a < alen : a - b < blen;
}

/* Whether an access of @kind raises the trap at all. */
static bool can_fire(const struct access_query *q, enum access_kind kind)
{
	return q->armed != ACCESS_WRITE || kind != ACCESS_READ;
}

static bool overlaps_watch(const struct access_query *q, uint64_t addr, uint64_t len)
{
	return ranges_overlap(q->addr, q->size, addr, len);
}

/*
 * Whether the bytes that [addr, addr + 8) shares with the watched range are those of @value, as far as
 * the range's value is known.
 */
static enum coverage holds_value(const struct access_query *q, uint64_t addr, uint64_t value)
{
	enum coverage ret = MISSES;

	for (unsigned int i = 0; i < q->size && i < 8; i++) {
		uint64_t at = q->addr + i - addr;

		if (at >= 8)
			continue;
		if (!q->has_new)
			return MAY_COVER;
		if ((uint8_t)(q->new_value >> 8 * i) != (uint8_t)(value >> 8 * at))
			return MISSES;
		ret = COVERS;
	}
	return ret;
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

static bool is_known(const struct insn_mem *m, uint32_t lost)
{
	const int8_t reg[] = { m->base, m->index, m->bit_reg };

	for (unsigned int i = 0; i < 3; i++)
		if (reg[i] >= 0 && lost >> reg[i] & 1)
			return false;
	return m->seg != 1 || !(lost >> WREG_FS_BASE & 1);
}

static void set_range(struct access_verdict *v, uint64_t addr, uint32_t len)
{
	v->has_range = true;
	v->range_addr = addr;
	v->range_len = len;
}

static enum coverage operand_coverage(const struct attempt *a, const struct insn_mem *m,
				      const struct regs *regs, uint32_t lost, uint64_t *addr)
{
	if (!is_known(m, lost) || !insn_mem_addr(m, regs, a->before_addr, a->before.len, addr))
		return MAY_COVER;
	if (!m->size)
		return overlaps_watch(a->q, *addr, INSN_VARIES_MAX) ? MAY_COVER : MISSES;
	return overlaps_watch(a->q, *addr, m->size) ? COVERS : MISSES;
}

/*
 * Of the operands that cover the range for certain, the kinds together: movs from and to it does read and
 * write. Of those that only may, the kind they agree on. What cannot have raised the trap is no reason, but
 * counts where another operand is one. Fills in kind and range.
 */
static enum coverage instruction_coverage(const struct attempt *a, struct access_verdict *v)
{
	enum coverage best = MISSES;
	struct regs regs;
	uint32_t lost = insn_undo(&a->before, a->q->regs, &regs);
	uint8_t besides = 0;

	for (unsigned int i = 0; i < a->before.nmem; i++) {
		const struct insn_mem *m = &a->before.mem[i];
		uint64_t addr;
		enum coverage c = operand_coverage(a, m, &regs, lost, &addr);

		if (c == COVERS && !can_fire(a->q, m->kind))
			besides |= m->kind;
		if (c == MISSES || c < best || !can_fire(a->q, m->kind))
			continue;
		if (c == COVERS && (!v->has_range || m->kind & ACCESS_WRITE))
			set_range(v, addr, m->size);
		if (c > best)
			v->kind = m->kind;
		else if (c == COVERS)
			v->kind |= m->kind;
		else if (v->kind != m->kind)
			v->kind = ACCESS_UNKNOWN;
		best = c;
	}
	if (best == COVERS)
		v->kind |= besides;
	return best;
}

/* Did not run to its end just now, or rip would be somewhere else. */
static bool leaves(const struct insn *i)
{
	return i->is_call || i->is_ret || i->is_jmp;
}

static bool resolve_before(const struct attempt *a, enum coverage wanted, struct access_verdict *v)
{
	struct access_verdict one = { 0 };

	if (!a->before.len || leaves(&a->before) || a->before.is_rep ||
	    instruction_coverage(a, &one) != wanted)
		return false;
	*v = one;
	v->confirmed = wanted == COVERS;
	set_insn(v, a->before_addr, a->q->pc->before, a->before.len);
	return true;
}

/* Nothing says whether the kernel read or wrote, unless the value changed. */
static enum access_kind kernel_kind(const struct access_query *q)
{
	return q->has_old && q->has_new && q->old_value != q->new_value ? ACCESS_WRITE : ACCESS_UNKNOWN;
}

static bool resolve_kernel(const struct attempt *a, struct access_verdict *v)
{
	if (!a->before.len || !a->before.is_syscall)
		return false;
	v->kind = kernel_kind(a->q);
	v->origin = ORIGIN_KERNEL;
	v->confirmed = true;
	set_insn(v, a->before_addr, a->q->pc->before, a->before.len);
	return true;
}

/* The same, when the trap's signal made the kernel go back to the system call instruction. */
static bool resolve_restart(const struct attempt *a, struct access_verdict *v)
{
	const struct code_fact *f = a->q->pc;
	struct insn at;

	if (!f || !f->at_len || !insn_decode(f->at, f->at_len, f->pc, &at) || !at.is_syscall)
		return false;
	v->kind = kernel_kind(a->q);
	v->origin = ORIGIN_KERNEL;
	set_insn(v, f->pc, f->at, at.len);
	return true;
}

/* Whether @call went to rip: by its own bytes, by the register it names, by the value it read. */
static enum coverage went_to_rip(const struct access_query *q, const struct insn *call, uint64_t operand)
{
	uint64_t rip = q->regs->r[WREG_RIP];

	if (call->has_target)
		return call->target == rip ? COVERS : MISSES;
	if (call->target_reg >= 0)
		/* The callee finds every register as it was, but rsp. */
		return call->target_reg == WREG_RSP || q->regs->r[call->target_reg] == rip ? COVERS : MISSES;
	if (operand && overlaps_watch(q, operand, 8))
		return holds_value(q, operand, rip);
	return MAY_COVER;
}

/* The address of the memory that @call took its target from; 0: not from memory, or not known. */
static uint64_t target_operand(const struct access_query *q, const struct insn *call, uint64_t addr)
{
	struct regs regs;
	uint64_t ret;

	if (call->nmem != 2 || call->mem[0].kind != ACCESS_READ || call->mem[0].size != 8)
		return 0;
	insn_undo(call, q->regs, &regs);
	return insn_mem_addr(&call->mem[0], &regs, addr, call->len, &ret) ? ret : 0;
}

/*
 * @f is about a return address that should lie at rsp: was it pushed there by the call before it, just now?
 * That call wrote [rsp] and, when it names memory, read its target.
 */
static enum coverage resolve_call_at(const struct attempt *a, const struct code_fact *f,
				     struct access_verdict *v)
{
	const struct access_query *q = a->q;
	uint64_t rsp = q->regs->r[WREG_RSP], addr, operand;
	enum coverage target, slot = MISSES;
	enum access_kind kind = ACCESS_UNKNOWN;
	struct insn call;

	if (!decode_before(f, &call, &addr) || !call.is_call)
		return MISSES;
	operand = target_operand(q, &call, addr);
	target = went_to_rip(q, &call, operand);
	if (target == MISSES)
		return MISSES;
	if (overlaps_watch(q, rsp, 8)) {
		slot = holds_value(q, rsp, f->pc);
		if (slot == MISSES)
			return MISSES;
		kind |= ACCESS_WRITE;
		set_range(v, rsp, 8);
	}
	if (operand && overlaps_watch(q, operand, 8)) {
		kind |= ACCESS_READ;
		if (!v->has_range)
			set_range(v, operand, 8);
	}
	if (!kind || !can_fire(q, kind))
		return MISSES;
	v->kind = kind;
	v->in_caller = f != q->pc;
	v->confirmed = target == COVERS || slot == COVERS;
	set_insn(v, addr, f->before, call.len);
	return v->confirmed ? COVERS : MAY_COVER;
}

static bool resolve_call(const struct attempt *a, enum coverage wanted, struct access_verdict *v)
{
	const struct code_fact *fact[] = {
		a->q->caller,
		a->q->pc, /* a call to the next instruction, as position-independent code does to learn rip */
	};

	for (unsigned int i = 0; i < 2; i++) {
		struct access_verdict one = { 0 };

		/* What could not be checked is only believed where nothing else can have run. */
		if (!fact[i] || (wanted == MAY_COVER && !a->before.len) ||
		    resolve_call_at(a, fact[i], &one) != wanted)
			continue;
		*v = one;
		return true;
	}
	return false;
}

/*
 * A plain ret has read [rsp - 8], and that is rip. Where the value is not known, it must at least be certain
 * that the instruction before rip did not run: there is a call there.
 */
static bool resolve_ret(const struct attempt *a, struct access_verdict *v)
{
	uint64_t rip = a->q->regs->r[WREG_RIP], slot = a->q->regs->r[WREG_RSP] - 8;
	enum coverage value;

	if (!can_fire(a->q, ACCESS_READ) || !overlaps_watch(a->q, slot, 8))
		return false;
	value = holds_value(a->q, slot, rip);
	if (value == MISSES || (value == MAY_COVER && !(a->before.len && a->before.is_call)))
		return false;
	v->kind = ACCESS_READ;
	v->confirmed = value == COVERS;
	set_range(v, slot, 8);
	return true;
}

/*
 * What a repeated string instruction passed over lately, for one of its pointers: the block behind it. How
 * far behind it began is not known, so only the last step is certain, and only if there was one.
 */
static enum coverage walked(const struct access_query *q, const struct insn_mem *m, uint64_t *last)
{
	uint64_t at, window = m->size > REP_BLOCK ? m->size : REP_BLOCK;
	bool down = q->regs->r[WREG_RFLAGS] & 0x400;

	if (m->base < 0 || !m->size)
		return MAY_COVER;
	at = q->regs->r[m->base];
	if (m->addr32)
		at &= UINT32_MAX;
	*last = down ? at + m->size : at - m->size;
	if (overlaps_watch(q, *last, m->size))
		return COVERS;
	return overlaps_watch(q, down ? at + m->size : at - window, window) ? MAY_COVER : MISSES;
}

static bool resolve_rep_insn(const struct access_query *q, const struct insn *i, uint64_t addr,
			     const uint8_t *bytes, struct access_verdict *v)
{
	enum access_kind kind = ACCESS_UNKNOWN;
	enum coverage best = MISSES;

	for (unsigned int k = 0; k < i->nmem; k++) {
		uint64_t last;
		enum coverage c = walked(q, &i->mem[k], &last);

		if (c == MISSES || !can_fire(q, i->mem[k].kind))
			continue;
		if (c == COVERS)
			set_range(v, last, i->mem[k].size);
		/* Source and destination so close together cannot be told apart. */
		kind = best == MISSES || kind == i->mem[k].kind ? i->mem[k].kind : ACCESS_UNKNOWN;
		best = c > best ? c : best;
	}
	if (best == MISSES)
		return false;
	v->kind = kind;
	v->confirmed = best == COVERS && kind;
	set_insn(v, addr, bytes, i->len);
	return true;
}

static bool find_rep(const struct attempt *a, struct access_verdict *v)
{
	const struct code_fact *f = a->q->pc;
	struct insn at;

	if (f && f->at_len && a->q->regs->r[WREG_RCX] && insn_decode(f->at, f->at_len, f->pc, &at) &&
	    at.is_rep && resolve_rep_insn(a->q, &at, f->pc, f->at, v)) {
		/* It may not have begun yet. */
		v->confirmed &= a->before.len != 0;
		return true;
	}
	return a->before.len && a->before.is_rep &&
	       resolve_rep_insn(a->q, &a->before, a->before_addr, f->before, v);
}

/* Two instructions explain the trap: only what they agree on is known. */
static void keep_common(struct access_verdict *v, const struct access_verdict *other)
{
	*v = (struct access_verdict){ .kind = v->kind == other->kind ? v->kind : ACCESS_UNKNOWN };
}

/* The instruction before a rep at rip may fit as well as the rep does. */
static bool resolve_rep(const struct attempt *a, struct access_verdict *v)
{
	struct access_verdict before = { 0 };

	if (!find_rep(a, v))
		return false;
	if (resolve_before(a, COVERS, &before) || (!v->confirmed && resolve_before(a, MAY_COVER, &before)))
		keep_common(v, &before);
	return true;
}

/*
 * The watched pointer is where execution goes on: a jump through memory, or a ret that dropped arguments,
 * has read it. Only the whole pointer is evidence enough.
 */
static bool resolve_jump(const struct attempt *a, struct access_verdict *v)
{
	if (!can_fire(a->q, ACCESS_READ) || a->q->size != 8 || !a->q->has_new || a->q->new_value != a->q->regs->r[WREG_RIP])
		return false;
	v->kind = ACCESS_READ;
	set_range(v, a->q->addr, 8);
	return true;
}

void access_resolve(const struct access_query *q, struct access_verdict *ret)
{
	struct attempt a = { .q = q };

	*ret = (struct access_verdict){ 0 };
	if (!decode_before(q->pc, &a.before, &a.before_addr))
		a.before.len = 0;
	if (!resolve_rep(&a, ret) && !resolve_before(&a, COVERS, ret) && !resolve_kernel(&a, ret) &&
	    !resolve_call(&a, COVERS, ret) && !resolve_ret(&a, ret) && !resolve_jump(&a, ret) &&
	    !resolve_before(&a, MAY_COVER, ret) && !resolve_call(&a, MAY_COVER, ret))
		resolve_restart(&a, ret);
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
