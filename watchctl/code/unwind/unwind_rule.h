/*
 * unwind_rule - how to go from one frame to its caller, as a function of the code address alone.
 *
 * The controller compiles a rule from CFI once per address; the handler inside the traced
 * program applies it. The general shape of CFI rows that compilers emit:
 *
 *	CFA = reg + cfa_off			UNWIND_CFA_REG
 *	CFA = *(reg + cfa_off [+ index * 8]) + cfa_off2	UNWIND_CFA_DEREF (stack realignment; OpenSSL)
 *	CFA = rsp + cfa_off + ((rip & 15) >= cfa_off2) * 8	UNWIND_PLT
 *	the caller's registers are in a ucontext at rsp	UNWIND_SIGFRAME
 *
 * and each callee-saved register is either unchanged, or stored at CFA + 8 * save[], or, where the stack
 * was realigned and the distance to the CFA varies, at rbp + 8 * save[]. Anything else is UNWIND_NO_RULE,
 * and a walk says so instead of guessing. Freestanding.
 *
 * Which row applies: to the address itself for the innermost frame and for a frame that was
 * interrupted by a signal; to the address minus one for a return address, because the call may
 * be the last instruction of its function.
 */
#ifndef WATCHCTL_CODE_UNWIND_UNWIND_RULE_H
#define WATCHCTL_CODE_UNWIND_UNWIND_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/regs.h"

enum unwind_kind {
	UNWIND_NO_RULE, /* no CFI covers the address, or it says something this form cannot */
	UNWIND_CFA_REG,
	UNWIND_CFA_DEREF,
	UNWIND_PLT,
	UNWIND_SIGFRAME,
	UNWIND_OUTERMOST, /* CFI marks the return address as undefined: the thread starts here */
	UNWIND_FP,	  /* no CFI, code keeps frame pointers (JIT, assembly): [rbp], [rbp + 8] */
};

/* Index into unwind_rule.save. */
enum unwind_save {
	UNWIND_SAVE_RBX,
	UNWIND_SAVE_RBP,
	UNWIND_SAVE_R12,
	UNWIND_SAVE_R13,
	UNWIND_SAVE_R14,
	UNWIND_SAVE_R15,
	UNWIND_SAVE_RA, /* never UNWIND_SAME */
	UNWIND_SAVES
};

#define UNWIND_SAME INT16_MIN /* the register still holds the caller's value */

struct unwind_rule {
	uint8_t kind;	 /* enum unwind_kind */
	uint8_t cfa_reg; /* enum reg; only for the two CFA forms */
	int16_t save[UNWIND_SAVES];
	int32_t cfa_off;
	int16_t cfa_off2;
	uint8_t from_rbp;  /* bit i: save[i] counts from rbp as it is in this frame, not from the CFA */
	uint8_t cfa_index; /* UNWIND_CFA_DEREF: 1 + enum reg of the index; 0: there is none */
};

_Static_assert(sizeof(struct unwind_rule) == 24, "part of a layout shared with the injected handler");

/* Why a walk ended. Anything but WALK_END_COMPLETE means that outer frames may be missing. */
enum walk_end {
	WALK_END_COMPLETE,	/* reached the frame that CFI calls outermost, or return address 0 */
	WALK_END_DEPTH,		/* as many frames as were asked for */
	WALK_END_UNREADABLE,	/* the stack could not be read there */
	WALK_END_NO_RULE,	/* no unwind rule for that code */
	WALK_END_NOT_ASCENDING, /* the next frame would lie below this one: corrupt or a switched stack */
	WALK_END_UNKNOWN_PC,	/* the rule table has no entry yet (handler only: raw stack recorded) */
	WALK_END_LOST,		/* it was recorded, in a part of the log that is missing (never in a log) */
};

/*
 * Whether callers may not have been found for want of unwind information. Not: because there were more than the copy of
 * the stack had, or than were asked for.
 */
static inline bool walk_end_hides_callers(unsigned int end)
{
	return end == WALK_END_NO_RULE || end == WALK_END_UNKNOWN_PC;
}

/* Reads 8 bytes of the unwound program's memory. False: unreadable, *ret untouched. */
typedef bool (*unwind_read_fn)(void *ctx, uint64_t addr, uint64_t *ret);

enum unwind_step_result {
	UNWIND_STEP_OK,	 /* *regs is now the caller's: rip, rsp and the callee-saved ones */
	UNWIND_STEP_END, /* outermost */
	UNWIND_STEP_UNREADABLE,
	UNWIND_STEP_NO_RULE,
};

#define UCONTEXT_GREGS 40 /* offset of uc_mcontext.gregs in struct ucontext, x86-64 Linux */

/* The order of gregs in the kernel's struct sigcontext (arch/x86/include/uapi/asm/sigcontext.h). */
static const uint8_t ucontext_order[17] = {
	WREG_R8,  WREG_R9,  WREG_R10, WREG_R11, WREG_R12, WREG_R13, WREG_R14, WREG_R15, WREG_RDI,
	WREG_RSI, WREG_RBP, WREG_RBX, WREG_RDX, WREG_RAX, WREG_RCX, WREG_RSP, WREG_RIP,
};

static inline enum unwind_step_result unwind_sigframe(struct regs *regs, unwind_read_fn read, void *ctx)
{
	uint64_t gregs = regs->r[WREG_RSP] + UCONTEXT_GREGS;
	struct regs caller = *regs;
	unsigned int i;

	for (i = 0; i < 17; i++)
		if (!read(ctx, gregs + 8 * i, &caller.r[ucontext_order[i]]))
			return UNWIND_STEP_UNREADABLE;
	*regs = caller;
	return UNWIND_STEP_OK;
}

/*
 * One step outwards. On anything but UNWIND_STEP_OK *regs is unchanged. Registers that are not
 * callee-saved keep stale values: no rule of an outer frame refers to them.
 */
static inline enum unwind_step_result unwind_step(const struct unwind_rule *rule, struct regs *regs,
						  unwind_read_fn read, void *ctx)
{
	static const uint8_t saved_reg[UNWIND_SAVE_RA] = { WREG_RBX, WREG_RBP, WREG_R12,
							   WREG_R13, WREG_R14, WREG_R15 };
	uint64_t value[UNWIND_SAVES];
	uint64_t cfa = 0;
	unsigned int i;

	switch (rule->kind) {
	case UNWIND_CFA_REG:
		cfa = regs->r[rule->cfa_reg] + (int64_t)rule->cfa_off;
		break;
	case UNWIND_CFA_DEREF:
		cfa = regs->r[rule->cfa_reg] + (int64_t)rule->cfa_off;
		if (rule->cfa_index)
			cfa += 8 * regs->r[rule->cfa_index - 1];
		if (!read(ctx, cfa, &cfa))
			return UNWIND_STEP_UNREADABLE;
		cfa += (int64_t)rule->cfa_off2;
		break;
	case UNWIND_PLT:
		cfa = regs->r[WREG_RSP] + (int64_t)rule->cfa_off;
		if ((regs->r[WREG_RIP] & 15) >= (uint64_t)rule->cfa_off2)
			cfa += 8;
		break;
	case UNWIND_FP:
		cfa = regs->r[WREG_RBP] + 16;
		break;
	case UNWIND_SIGFRAME:
		return unwind_sigframe(regs, read, ctx);
	case UNWIND_OUTERMOST:
		return UNWIND_STEP_END;
	default:
		return UNWIND_STEP_NO_RULE;
	}

	for (i = 0; i < UNWIND_SAVES; i++) {
		uint64_t from = rule->from_rbp >> i & 1 ? regs->r[WREG_RBP] : cfa;

		if (rule->save[i] != UNWIND_SAME && !read(ctx, from + 8 * (int64_t)rule->save[i], &value[i]))
			return UNWIND_STEP_UNREADABLE;
	}
	for (i = 0; i < UNWIND_SAVE_RA; i++)
		if (rule->save[i] != UNWIND_SAME)
			regs->r[saved_reg[i]] = value[i];
	regs->r[WREG_RSP] = cfa;
	regs->r[WREG_RIP] = value[UNWIND_SAVE_RA];
	return UNWIND_STEP_OK;
}

#endif
