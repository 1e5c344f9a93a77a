/*
 * Two ways, which give the same frames.
 *
 * The fast one follows rip, rsp and rbp by the forms of self_rules.h. What it costs is what the CPU must wait
 * for. With frame pointers that is the chain of saved rbps and nothing else: that the form says "rbp + 16" is
 * a branch, which the CPU predicts, so that looking the form up and checking the bounds goes on beside the
 * chain. Without frame pointers the distance to the next return address comes out of the table: return
 * address, its place, the word, the distance, the next return address.
 *
 * The full one follows all registers by whole rules (unwind_step). It starts again at the first frame, when
 * the fast one meets anything but the ordinary: a form that does not fit, a register that points where it
 * should not. So there is one place that says why a walk ends in trouble.
 *
 * Both only read what self_stack.h says is there. The fast way checks, before it reads, that the frame lies
 * between the rsp it has and the end of the stack; a form never reads elsewhere.
 *
 * Code outside of every module was put there by the program itself (JIT): frame pointers are all there is to
 * go by. Then rbp must be aligned and lie on the stack above rsp, and the address, like the one that rbp
 * leads to, must be one that a call can return to. Otherwise there is no rule.
 */
#include "stackwalk/self_walk.h"

#include <stddef.h>

#include "stackwalk/self_modules.h"
#include "stackwalk/self_rules.h"
#include "stackwalk/self_stack.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Places in ucontext_order. */
#define GREGS_RBP 10
#define GREGS_RSP 15
#define GREGS_RIP 16

#define CALLEE_SAVED                                                                          \
	(1u << WREG_RBX | 1u << WREG_RBP | 1u << WREG_RSP | 1u << WREG_R12 | 1u << WREG_R13 | \
	 1u << WREG_R14 | 1u << WREG_R15 | 1u << WREG_RIP)
#define ALL_REGISTERS ((1u << (WREG_RIP + 1)) - 1)

void self_walk_setup(void)
{
	self_stack_setup();
	self_modules_setup();
}

static inline uint64_t self_walk_load(uint64_t addr)
{
	uint64_t v;

	__builtin_memcpy(&v, (const void *)(uintptr_t)addr, 8);
	return v;
}

/*
 * True when a call may end at @pc: e8 and 4 bytes, or ff /2 with its operand. The bytes before may belong to
 * something else, so a false "true" is possible, a false "false" is not.
 */
static bool call_ends_at(uint64_t pc)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)pc;
	unsigned int n;

	if (pc < SELF_PAGE || pc >= SELF_PC_LIMIT || !self_readable(pc - 8))
		return false;
	if (p[-5] == 0xe8)
		return true;
	for (n = 2; n <= 7; n++) {
		uint8_t modrm = p[1 - (int)n];

		if (p[-(int)n] == 0xff && (modrm >> 3 & 7) == 2)
			return true;
	}
	return false;
}

struct full_walk {
	struct regs at;
	uint32_t known; /* bit: a register that has the frame's value */
	bool exact;
	uint64_t behind_call; /* a return address that is known to be one */
	struct self_stack stack;
	struct self_seen seen;
};

static bool read_stack(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct full_walk *w = ctx;

	if (addr > UINT64_MAX - 8)
		return false;
	if (addr < w->stack.start || !self_stack_reaches(&w->stack, addr + 8)) {
		/* The red zone below rsp, or a pointer to anywhere. */
		if (!self_readable(addr))
			return false;
	}
	*ret = self_walk_load(addr);
	return true;
}

static bool jit_frame_is_sane(const struct full_walk *w)
{
	uint64_t pc = w->at.r[WREG_RIP], rsp = w->at.r[WREG_RSP], rbp = w->at.r[WREG_RBP];

	if (pc >= w->stack.start && pc < w->stack.end)
		return false;
	return rbp % 8 == 0 && rbp >= rsp &&
	       (w->exact ? self_readable(pc) : pc == w->behind_call || call_ends_at(pc));
}

/* A frame pointer of made code may be anything but one: then what it led to is hardly behind a call. */
static bool leads_to_call(struct full_walk *w)
{
	w->behind_call = w->at.r[WREG_RIP];
	return call_ends_at(w->behind_call);
}

static bool rule_for(struct full_walk *w, struct unwind_rule *ret)
{
	self_rule(w->at.r[WREG_RIP], w->exact, &w->seen, ret);
	if (ret->kind == UNWIND_FP && !jit_frame_is_sane(w))
		return false;
	if (ret->kind == UNWIND_CFA_DEREF && ret->cfa_index && !(w->known >> (ret->cfa_index - 1) & 1))
		return false;
	if (ret->kind == UNWIND_CFA_REG || ret->kind == UNWIND_CFA_DEREF)
		return w->known >> ret->cfa_reg & 1;
	return ret->kind != UNWIND_NO_RULE;
}

static enum walk_end end_of(enum unwind_step_result step)
{
	switch (step) {
	case UNWIND_STEP_END:
		return WALK_END_COMPLETE;
	case UNWIND_STEP_UNREADABLE:
		return WALK_END_UNREADABLE;
	default:
		return WALK_END_NO_RULE;
	}
}

static uint32_t walk_fully(struct full_walk *w, uint64_t *frame, uint32_t max, enum walk_end *why)
{
	uint32_t n = 1;

	frame[0] = w->at.r[WREG_RIP];
	self_stack_at(w->at.r[WREG_RSP], &w->stack);
	*why = WALK_END_DEPTH;
	while (n < max) {
		uint64_t rsp = w->at.r[WREG_RSP];
		enum unwind_step_result step = UNWIND_STEP_NO_RULE;
		struct unwind_rule rule;

		if (rule_for(w, &rule))
			step = unwind_step(&rule, &w->at, read_stack, w);
		if (step != UNWIND_STEP_OK) {
			*why = end_of(step);
			break;
		}
		w->exact = rule.kind == UNWIND_SIGFRAME;
		w->known = w->exact ? ALL_REGISTERS : w->known & CALLEE_SAVED;
		if (w->exact) {
			/* The handler may have run on a stack of its own. */
			self_stack_at(w->at.r[WREG_RSP], &w->stack);
		} else if (w->at.r[WREG_RSP] <= rsp) {
			*why = WALK_END_NOT_ASCENDING;
			break;
		} else if (rule.kind == UNWIND_FP && !leads_to_call(w)) {
			*why = WALK_END_NO_RULE;
			break;
		} else if (w->at.r[WREG_RIP] == 0) {
			*why = WALK_END_COMPLETE;
			break;
		}
		frame[n++] = w->at.r[WREG_RIP];
	}
	return n;
}

/* As far as is known without looking further; @rsp itself: it cannot be read. */
static __attribute__((noinline, cold)) uint64_t stack_end(uint64_t rsp)
{
	struct self_stack s;

	self_stack_at(rsp, &s);
	return s.end;
}

/* The stack that began at @rsp and ends at @end as far as is known: its end when it is read up to @to. */
static __attribute__((noinline, cold)) uint64_t stack_end_beyond(uint64_t rsp, uint64_t end, uint64_t to)
{
	struct self_stack s = { rsp, end, end == self_own_stack.end };

	self_stack_reaches(&s, to);
	return s.end;
}

/*
 * For each level of the stack a return address that has the form FORM_FRAME_POINTER: what was there last
 * time. All entries are such an address from the first time on that one is met, so that none needs to be
 * known as empty. A signal handler's walk may change any of them at any time, to another such address.
 */
#define LEVELS 32u

static _Thread_local struct {
	uint64_t pc[LEVELS];
	uint32_t n; /* LEVELS, or 0: not filled yet */
} recent;

static __attribute__((noinline, cold)) void fill_recent(uint64_t pc)
{
	uint32_t i;

	for (i = 0; i < LEVELS; i++)
		__atomic_store_n(&recent.pc[i], pc, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&recent.n, LEVELS, __ATOMIC_RELAXED);
}

/*
 * From frame[i] on, which is where the walk stands, with these registers. Returns how many frames in all, or
 * 0 when the full way is needed. (The registers come one by one: loaded in pairs they would wait for whoever
 * has just stored them singly.)
 */
static uint32_t walk_fast(uint64_t start, bool exact, uint64_t *frame, uint32_t max, enum walk_end *why,
			  uint32_t i, uint64_t rsp, uint64_t rbp)
{
	const struct self_own_stack *own = &self_own_stack;
	uint64_t pc = frame[i], end, cfa, inner, behind_call = 0;
	uint32_t form, seen_id = 0, run;
	struct self_seen seen;

	/* From here on rsp lies between these, and sums of it with what a form says do not overflow. */
	if (unlikely(rsp < SELF_PAGE || rsp >= SELF_PC_LIMIT))
		return 0;
	end = likely(rsp >= own->start && rsp < own->end) ? own->end : stack_end(rsp);
	seen.n = 0;
	*why = WALK_END_DEPTH;
	run = __atomic_load_n(&recent.n, __ATOMIC_RELAXED);
	if (run >= max)
		run = max - 1;
	if (unlikely(exact && max > 1))
		goto unknown;
	while (i + 1 < max) {
		uint64_t place, word;

		/* Frame pointers, through the same functions as last time: no more than the chain itself. */
		for (inner = rsp - 1; i < run; inner = rbp, rbp = self_walk_load(rbp)) {
			if (__atomic_load_n(&recent.pc[i], __ATOMIC_RELAXED) != pc || rbp <= inner ||
			    rbp > end - 16)
				break;
			pc = self_walk_load(rbp + 8);
			rsp = rbp + 16;
			frame[++i] = pc;
		}
		if (i + 1 == max)
			break;

		place = self_word_place(pc);
		word = __atomic_load_n(&self_words[0][place], __ATOMIC_RELAXED);
		if (unlikely(word >> 32 != pc >> 16)) {
			word = __atomic_load_n(&self_words[0][place ^ 1], __ATOMIC_RELAXED);
			if (unlikely(word >> 32 != pc >> 16))
				goto unknown;
			word ^= FORM_BESIDE;
		}
		form = (uint32_t)word;
		if (form == FORM_FRAME_POINTER) {
			if (i < run)
				__atomic_store_n(&recent.pc[i], pc, __ATOMIC_RELAXED);
			else if (unlikely(!recent.n))
				fill_recent(pc);
			if (unlikely(rbp < rsp || rbp > end - 16))
				goto beyond_rbp;
		frame_pointer:
			rsp = rbp + 16;
			pc = self_walk_load(rbp + 8);
			rbp = self_walk_load(rbp);
			goto next;
		}
		if (unlikely(FORM_ID(form) != 0 && FORM_ID(form) != seen_id))
			goto unknown;
	known:
		switch (FORM_KIND(form)) {
		case FORM_RSP:
			cfa = rsp + FORM_BYTES(form);
			if (unlikely(cfa > end)) {
				end = stack_end_beyond(start, end, cfa);
				if (cfa > end)
					return 0;
			}
			break;
		case FORM_RBP:
			cfa = rbp + FORM_BYTES(form);
			/* rbp itself may be anything. */
			if (unlikely(rbp < rsp || rbp > end || cfa > end)) {
				if (rbp < rsp || cfa < rbp)
					return 0;
				end = stack_end_beyond(start, end, cfa);
				if (cfa > end)
					return 0;
			}
			break;
		case FORM_DEREF:
			if (rbp < rsp + FORM_BYTES(form) || rbp > end - 8)
				return 0;
			cfa = self_walk_load(rbp - FORM_BYTES(form));
			if (cfa <= rbp || cfa > end)
				return 0;
			rbp = self_walk_load(rbp);
			break;
		case FORM_JIT:
			if (rbp % 8 || rbp < rsp || rbp > end - 16 || (pc >= rsp && pc < end) || exact ||
			    (pc != behind_call && !call_ends_at(pc)))
				return 0;
			behind_call = self_walk_load(rbp + 8);
			if (!call_ends_at(behind_call))
				return 0;
			goto frame_pointer;
		case FORM_END:
			if (!FORM_SLOT(form)) {
				*why = WALK_END_COMPLETE;
				return i + 1;
			}
			if (rsp + UCONTEXT_GREGS + 17 * 8 > end)
				return 0;
			pc = self_walk_load(rsp + UCONTEXT_GREGS + GREGS_RIP * 8);
			rbp = self_walk_load(rsp + UCONTEXT_GREGS + GREGS_RBP * 8);
			start = rsp = self_walk_load(rsp + UCONTEXT_GREGS + GREGS_RSP * 8);
			if (rsp < SELF_PAGE || rsp >= SELF_PC_LIMIT)
				return 0;
			/* The handler may have run on a stack of its own. */
			end = rsp >= own->start && rsp < own->end ? own->end : stack_end(rsp);
			exact = true;
			frame[++i] = pc;
			if (i + 1 == max)
				return max;
			goto unknown;
		case FORM_NO_RULE:
			*why = WALK_END_NO_RULE;
			return i + 1;
		default:
			return 0;
		}
		if (FORM_SLOT(form))
			rbp = self_walk_load(cfa - 8ull * FORM_SLOT(form));
		pc = self_walk_load(cfa - 8);
		rsp = cfa;
	next:
		exact = false;
		frame[++i] = pc;
		continue;
	beyond_rbp:
		if (rbp < rsp || rbp > UINT64_MAX - 16)
			return 0;
		end = stack_end_beyond(start, end, rbp + 16);
		if (rbp > end - 16)
			return 0;
		goto frame_pointer;
	unknown:
		if (!pc && i && !exact) {
			*why = WALK_END_COMPLETE;
			return i;
		}
		form = self_form(pc, exact, &seen);
		if (FORM_ID(form))
			seen_id = FORM_ID(form);
		goto known;
	}
	if (pc || !i)
		return i + 1;
	*why = WALK_END_COMPLETE;
	return i;
}

static __attribute__((noinline, cold)) uint32_t walk_saved(const struct self_regs *from, bool exact,
							   uint64_t *frame, uint32_t max, enum walk_end *why)
{
	struct full_walk w = { .known = CALLEE_SAVED, .exact = exact };

	w.at.r[WREG_RIP] = from->rip;
	w.at.r[WREG_RSP] = from->rsp;
	w.at.r[WREG_RBP] = from->rbp;
	w.at.r[WREG_RBX] = from->rbx;
	w.at.r[WREG_R12] = from->r12;
	w.at.r[WREG_R13] = from->r13;
	w.at.r[WREG_R14] = from->r14;
	w.at.r[WREG_R15] = from->r15;
	return walk_fully(&w, frame, max, why);
}

static __attribute__((noinline)) uint32_t walk_on(const struct self_regs *from, bool exact, uint64_t *frame,
						  uint32_t max, enum walk_end *why, uint32_t i, uint64_t rsp,
						  uint64_t rbp)
{
	uint32_t n = walk_fast(from->rsp, exact, frame, max, why, i, rsp, rbp);

	return likely(n) ? n : walk_saved(from, exact, frame, max, why);
}

/*
 * The case that is worth the most: the thread's own stack, functions with frame pointers, the same as last
 * time. It is done here with the few registers that a function need not save.
 */
uint32_t self_walk(const struct self_regs *from, bool exact, uint64_t *frame, uint32_t max,
		   enum walk_end *why)
{
	const struct self_own_stack *own = &self_own_stack;
	uint64_t pc = from->rip, rsp = from->rsp, rbp = from->rbp, inner = rsp - 1, end = own->end;
	uint32_t i = 0, run = __atomic_load_n(&recent.n, __ATOMIC_RELAXED);

	frame[0] = pc;
	if (unlikely(exact || rsp < own->start || rsp >= end))
		return walk_on(from, exact, frame, max, why, 0, rsp, rbp);
	*why = WALK_END_DEPTH;
	if (run >= max)
		run = max - 1;
	while (i < run && __atomic_load_n(&recent.pc[i], __ATOMIC_RELAXED) == pc && rbp > inner &&
	       rbp <= end - 16) {
		pc = self_walk_load(rbp + 8);
		frame[++i] = pc;
		inner = rbp;
		rbp = self_walk_load(rbp);
	}
	if (likely(i + 1 == max && pc))
		return max;
	return walk_on(from, exact, frame, max, why, i, i ? inner + 16 : rsp, rbp);
}

uint32_t self_walk_interrupted(const struct regs *from, uint64_t *frame, uint32_t max, enum walk_end *why)
{
	struct full_walk w;
	uint32_t n;

	frame[0] = from->r[WREG_RIP];
	n = walk_fast(from->r[WREG_RSP], true, frame, max, why, 0, from->r[WREG_RSP], from->r[WREG_RBP]);
	if (n)
		return n;
	w = (struct full_walk){ .at = *from, .known = ALL_REGISTERS, .exact = true };
	return walk_fully(&w, frame, max, why);
}
