/*
 * eh_frame - the unwind rule of a code address, out of the bytes of a module's .eh_frame or .debug_frame.
 *
 * For the program that looks at itself, in any context: no libc, no allocation, no lock, about 1.5 KB of
 * stack; and for whoever looks at a file that nobody vouches for. Reads nothing outside the two ranges it is
 * given, whatever the bytes are, and takes a number of steps that these bound. Works on the memory of a
 * module that is mapped, and on its file.
 *
 * What does not fit struct unwind_rule, or is not understood, is UNWIND_NO_RULE.
 */
#ifndef WATCHCTL_CODE_UNWIND_EH_FRAME_H
#define WATCHCTL_CODE_UNWIND_EH_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/unwind/unwind_rule.h"

/* The bytes that the addresses [start, end) hold lie at @bytes. Mapped: bytes == (uint8_t *)start. */
struct eh_range {
	uint64_t start, end;
	const uint8_t *bytes;
};

struct eh_image {
	struct eh_range hdr;	/* .eh_frame_hdr: the segment PT_GNU_EH_FRAME. All zero: there is none */
	struct eh_range frames; /* .eh_frame, from its first byte on; may end later than the section */
	bool is_debug_frame;	/* frames are .debug_frame's, and there is no hdr */
};

/* Where .eh_frame begins, which is all that shows where it is when there are no section headers. */
bool eh_frame_section(const struct eh_range *hdr, uint64_t *ret);

/* Whether it says where the functions are; else they are looked through one after the other. */
bool eh_frame_has_table(const struct eh_range *hdr);

/*
 * The rule for the row that holds @pc. Pass the address itself for an innermost or interrupted frame, the
 * return address minus one otherwise. *@ret is written in any case. False: no FDE holds @pc, or it is not
 * understood; true with UNWIND_NO_RULE: what it says does not fit.
 */
bool eh_frame_rule(const struct eh_image *image, uint64_t pc, struct unwind_rule *ret);

/* Bounds of the FDE that holds @pc; false: none. */
bool eh_frame_function(const struct eh_image *image, uint64_t pc, uint64_t *start, uint64_t *end);

/* One function after the other, in the order in which they stand there. */
struct eh_function {
	uint64_t entry;	     /* where its FDE stands */
	uint64_t lsda;	     /* where its language-specific data is; 0: it has none */
	uint64_t next;	     /* where to go on; 0: at the beginning */
	uint64_t start, end; /* its code */
};

/* False: there is none after @f, which begins as all zeros; it stays as it is then. */
bool eh_frame_next(const struct eh_image *image, struct eh_function *f);

/* As eh_frame_rule(), of the FDE at @entry. */
bool eh_frame_rule_at(const struct eh_image *image, uint64_t entry, uint64_t pc, struct unwind_rule *ret);

#endif
