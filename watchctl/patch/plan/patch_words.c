#include <inttypes.h>
#include <stdio.h>

#include "watchctl/patch/plan/patch_tactic.h"

const char *tactic_name(enum tactic t)
{
	static const char *const name[TACTICS] = {
		[TACTIC_JUMP] = "jump", [TACTIC_PADDING] = "padding", [TACTIC_NOP] = "nop",
		[TACTIC_PUN] = "pun",	[TACTIC_TRAP] = "trap",	      [TACTIC_REFUSED] = "refused",
	};

	return name[t];
}

enum tactic_cost tactic_cost(const struct tactic_choice *c)
{
	if (c->tactic == TACTIC_REFUSED)
		return COST_NONE;
	if (c->tactic == TACTIC_TRAP)
		return COST_TRAP;
	return c->via ? COST_TWO_JUMPS : COST_JUMP;
}

const char *tactic_cost_name(enum tactic_cost c)
{
	static const char *const name[] = { "jump", "two_jumps", "trap", "none" };

	return name[c];
}

const char *tactic_why_short(enum tactic_why why)
{
	static const char *const text[WHY_KINDS] = {
		[WHY_WHOLE] = "the instruction is long enough for the jump",
		[WHY_MOVED] = "it moves together with its neighbours",
		[WHY_SHARED] = "it moves together with another site",
		[WHY_NOP] = "it does nothing, and gives way",
		[WHY_TAIL] = "the jump ends in bytes that are never executed",
		[WHY_SHORT] = "a short jump leads to bytes that are never executed",
		[WHY_PUN] = "the bytes behind it are a part of the jump",
		[WHY_BEHIND_ENDBR] = "endbr64 stays where it is: the function runs behind it",
		[WHY_TARGET] = "a jump leads between the instructions that would move",
		[WHY_UNRESOLVED] = "an indirect jump of the function may lead anywhere in it",
		[WHY_FIXED_INSN] = "an instruction cannot run at another place",
		[WHY_END] = "the function ends too early",
		[WHY_TAKEN_BYTES] = "another site's patch has these bytes",
		[WHY_MIDDLE] = "a jump leads into the middle of the instruction",
		[WHY_ENDBR] = "endbr64 must stay where it is",
		[WHY_UNKNOWN_CODE] = "in no function that symbols or unwind tables name: it may be data",
		[WHY_NO_INSN] = "no instruction begins there",
		[WHY_READ] = "code that is read as data",
		[WHY_LENGTHS] = "the two decoders disagree about the instruction's length",
		[WHY_DEAD] = "never executed, and another site's patch uses these bytes",
		[WHY_LOADER] = "code of the dynamic loader",
		[WHY_SIGRETURN] = "the way back from signals, which unwinders know by its bytes",
		[WHY_VDSO] = "code of the kernel's vDSO, which all processes share",
	};

	return text[why];
}

static void put_pun(const struct tactic_choice *c, char *buf, size_t cap)
{
	if (c->pun_low == c->pun_high)
		snprintf(
			buf, cap,
			"the jump's displacement is what stands there: the trampoline has to lie at %s0x%" PRIx64,
			(int64_t)c->pun_low < 0 ? "-" : "",
			(int64_t)c->pun_low < 0 ? -c->pun_low : c->pun_low);
	else
		snprintf(
			buf, cap,
			"the bytes behind it are a part of the jump: the trampoline has to lie at %s0x%" PRIx64
			" or up to 0x%" PRIx64 " above",
			(int64_t)c->pun_low < 0 ? "-" : "",
			(int64_t)c->pun_low < 0 ? -c->pun_low : c->pun_low, c->pun_high - c->pun_low);
}

void tactic_why_text(const struct tactic_choice *c, char *buf, size_t cap)
{
	const char *text = tactic_why_short(c->why);

	switch (c->why) {
	case WHY_MOVED:
		snprintf(buf, cap, "%u instructions of %u bytes move from 0x%" PRIx64 " on", c->nmoved,
			 c->moved, c->start);
		break;
	case WHY_SHARED:
		snprintf(buf, cap, "it moves together with the site at 0x%" PRIx64, c->other);
		break;
	case WHY_SHORT:
		snprintf(buf, cap, "a short jump leads to bytes at 0x%" PRIx64 " that are never executed",
			 c->via);
		break;
	case WHY_PUN:
		put_pun(c, buf, cap);
		break;
	case WHY_TARGET:
	case WHY_UNRESOLVED:
	case WHY_FIXED_INSN:
	case WHY_TAKEN_BYTES:
	case WHY_MIDDLE:
	case WHY_READ:
		snprintf(buf, cap, "%s (0x%" PRIx64 ")", text, c->other);
		break;
	default:
		snprintf(buf, cap, "%s", text);
		break;
	}
}
