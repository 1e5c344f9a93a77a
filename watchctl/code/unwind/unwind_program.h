/*
 * unwind_program - the instructions that describe an address, for who can evaluate more of them than fits
 * struct unwind_rule.
 *
 * Only those are given out whose meaning is beyond doubt: they define a CFA, and where the return address is;
 * the caller's rsp is the CFA; it is no signal's frame. See also row.entangled.
 */
#ifndef WATCHCTL_CODE_UNWIND_UNWIND_PROGRAM_H
#define WATCHCTL_CODE_UNWIND_UNWIND_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/unwind/eh_frame.h"

struct unwind_program {
	uint64_t start, end; /* the function */
	uint64_t code_align;
	int64_t data_align;
	const uint8_t *common, *own; /* the CIE's instructions and the FDE's: into the image */
	size_t common_len, own_len;
};

/*
 * What describes @pc, a row's address as in eh_frame_rule(). @entry: where its FDE stands; 0: it is looked for.
 * False: none, or none that is given out; *@ret is unspecified then.
 */
bool unwind_program_at(const struct eh_image *image, uint64_t entry, uint64_t pc, struct unwind_program *ret);

#endif
