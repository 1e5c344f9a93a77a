/*
 * patch_tactic - how a probe would get to an instruction: what would be written where, at what cost, and why nothing
 * better is possible. It reads the map and writes nothing but the plan's own marks.
 *
 * Sites are to be asked in ascending order: what one of them takes the next one cannot have.
 */
#ifndef WATCHCTL_PATCH_PLAN_PATCH_TACTIC_H
#define WATCHCTL_PATCH_PLAN_PATCH_TACTIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/patch/plan/code_map.h"

enum tactic {
	TACTIC_JUMP,	/* whole instructions move, a jump of 5 bytes stands in their place */
	TACTIC_PADDING, /* bytes that are never executed hold the jump, or its end */
	TACTIC_NOP,	/* instructions that do nothing give way to it */
	TACTIC_PUN,	/* the bytes of the next instruction are a part of its displacement, and stay */
	TACTIC_TRAP,	/* int3 */
	TACTIC_REFUSED,
	TACTICS,
};

/* What a hit costs beyond the probe. */
enum tactic_cost { COST_JUMP, COST_TWO_JUMPS, COST_TRAP, COST_NONE };

enum tactic_why {
	WHY_WHOLE,	  /* one instruction is long enough */
	WHY_MOVED,	  /* it moves with its neighbours */
	WHY_SHARED,	  /* another site's jump covers it */
	WHY_NOP,	  /* it gives way */
	WHY_TAIL,	  /* the jump ends in padding */
	WHY_SHORT,	  /* a short jump to padding */
	WHY_PUN,	  /* the range is pun_low..pun_high */
	WHY_BEHIND_ENDBR, /* the site is an endbr64: the probe runs behind it, where the patch begins */
	WHY_TARGET,	  /* at @other, a jump's target is in the way */
	WHY_UNRESOLVED,	  /* an indirect jump at @other may lead anywhere in the function */
	WHY_FIXED_INSN,	  /* the instruction at @other cannot run at another place */
	WHY_END,	  /* the function ends too early */
	WHY_TAKEN_BYTES,  /* another site's patch has the bytes at @other */
	WHY_MIDDLE,	  /* a jump leads to @other, within the instruction */
	WHY_ENDBR,	  /* endbr64 must stay: indirect jumps lead to it */
	WHY_UNKNOWN_CODE, /* refused: in no function */
	WHY_NO_INSN,	  /* refused: no instruction begins there */
	WHY_READ,	  /* refused: read as data */
	WHY_LENGTHS,	  /* refused: the two decoders disagree */
	WHY_DEAD,	  /* refused: never executed, and used by another site's patch */
	WHY_LOADER,	  /* refused: code of the dynamic loader */
	WHY_VDSO,	  /* refused: code of the kernel */
	WHY_SIGRETURN,	  /* refused: the way back from signals */
	WHY_KINDS,
};

struct tactic_choice {
	enum tactic tactic;
	enum tactic_why why;
	uint64_t
		start; /* the bytes that are overwritten: of a jump perhaps before the site; behind an endbr64 */
	uint8_t len;   /* 0: none are */
	uint8_t moved; /* bytes of whole instructions that move from @start on */
	uint8_t nmoved;
	uint64_t via;		    /* of WHY_SHORT: the padding */
	uint64_t other;		    /* as @why says */
	uint64_t pun_low, pun_high; /* addresses that the jump can reach, of the file */
	uint8_t prefixes;	    /* of WHY_PUN: bytes before the jump that do nothing */
};

/* All sites there will be, by address: what stays as it is may hold none of them. */
struct tactic_sites {
	const uint64_t *addr;
	size_t n;
};

/*
 * For the site at @addr, one of @all. Marks what it takes as used; *@last is the choice for the site before, and may be
 * shared.
 */
void tactic_choose(struct code_map *m, uint64_t addr, const struct tactic_sites *all,
		   const struct tactic_choice *last, struct tactic_choice *ret);

enum tactic_cost tactic_cost(const struct tactic_choice *c);

const char *tactic_name(enum tactic t);		  /* "jump" */
const char *tactic_cost_name(enum tactic_cost c); /* "two jumps" */

/* Why, in a few words that are the same for all sites alike, for totals. */
const char *tactic_why_short(enum tactic_why why);

/* Why, for this site, in @buf. */
void tactic_why_text(const struct tactic_choice *c, char *buf, size_t cap);

#endif
