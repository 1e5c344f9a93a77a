/*
 * self_rules - the unwind rules of the own process's code addresses, each compiled once.
 *
 * A form is a rule in 32 bits, for who follows no more than rip, rsp and rbp:
 *
 *	bits 0..2	enum form_kind
 *	bits 3..6	where rbp was saved, in words below the CFA; 0: it was not
 *	bits 7..18	the distance to the CFA, in words
 *	bits 19..30	the module's id (self_modules.h); 0: it is never unloaded
 *	bit 31		in the table: the word stands beside its place
 *
 * The return address always lies directly below the CFA. Forms are kept in a table of words, each with the
 * address that it is for: a word is read and written in one piece on every x86-64 CPU, so that whoever
 * reads, in whatever context, has an address and a rule that belong together, or neither. There is nothing
 * to take back: a form is a function of the code that the id names, and of two writers either may win.
 *
 * A word has 32 bits of the address, its upper ones. The others follow from the place: `pc ^ pc >> 13` in
 * its lower 16 bits and `pc >> 16` determine pc. (The upper bits report those of pc >> 13 but for its lowest
 * three, bits 13 to 15 of pc. These are upper bits of the place, where only known ones are mixed in, and so
 * are known in turn.) A word in the place beside its own would tell another address; bit 31 shows that it is.
 */
#ifndef STACKWALK_SELF_RULES_H
#define STACKWALK_SELF_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "stackwalk/self_modules.h"
#include "watchctl/code/unwind/unwind_rule.h"

enum form_kind {
	FORM_NONE,
	FORM_RBP,   /* CFA = rbp + distance */
	FORM_RSP,   /* CFA = rsp + distance */
	FORM_DEREF, /* CFA = *(rbp - distance), rbp saved at rbp: gcc's realigned stacks */
	FORM_END,   /* the thread's first frame; with a slot: the kernel's signal frame is at rsp */
	FORM_NO_RULE,
	FORM_FULL, /* does not fit: self_rule() has it */
	FORM_JIT,  /* no module: never kept */
};

#define FORM(kind, slot, words, id) \
	((uint32_t)(kind) | (uint32_t)(slot) << 3 | (uint32_t)(words) << 7 | (uint32_t)(id) << 19)
#define FORM_KIND(form) ((form)&7)
#define FORM_SLOT(form) ((form) >> 3 & 15)
#define FORM_BYTES(form) ((form) >> 4 & 0x7ff8)
#define FORM_ID(form) ((form) >> 19) /* with bit 31: no module's */
#define FORM_BESIDE (1u << 31)
#define FORM_WORDS_MAX 0xfffu
#define FORM_SLOT_MAX 15u

/* push rbp; mov rbp, rsp, in a module that is never unloaded. */
#define FORM_FRAME_POINTER FORM(FORM_RBP, 2, 2, 0)
#define FORM_SIGNAL FORM(FORM_END, 1, 0, 0)

_Static_assert(SELF_MODULES_MAX + 1 < 1u << 12, "ids have twelve bits");

#define SELF_WORDS 65536u
#define SELF_PC_LIMIT (1ull << 47) /* no code lies from here on, and what is on a stack may be anything */

/* [0]: for return addresses. [1]: for addresses where a thread was interrupted. */
extern uint64_t self_words[2][SELF_WORDS];

/*
 * The word for @pc, if there is one, is here, or in the place beside it (^ 1) and has FORM_BESIDE set.
 * `word >> 32 == pc >> 16` shows, in 64 bits: what is no address of a program is not found.
 */
static inline uint64_t self_word_place(uint64_t pc)
{
	return (pc ^ pc >> 13) & (SELF_WORDS - 1);
}

/* The modules that were looked at in this walk and are the ones that their rules came from. */
struct self_seen {
	uint32_t id[4];
	uint32_t n;
};

bool self_seen(struct self_seen *seen, uint32_t id);

/* The form for @pc, from the table of words or from the module. */
uint32_t self_form(uint64_t pc, bool exact, struct self_seen *seen);

/* The whole rule for @pc; UNWIND_FP: there is no module. */
void self_rule(uint64_t pc, bool exact, struct self_seen *seen, struct unwind_rule *ret);

#endif
