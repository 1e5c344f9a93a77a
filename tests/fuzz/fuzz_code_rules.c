/*
 * Any bytes as the code of a function without an unwind table: the searches through it end, read nothing
 * outside, and what they say is a rule that a walk can apply.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/insn/call_site.h"
#include "watchctl/code/unwind/cfi_entry.h"
#include "watchctl/code/unwind/cfi_frame.h"
#include "watchctl/code/unwind/cfi_leaf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool claim)
{
	if (!claim)
		abort();
}

static void check_rule(bool given, const struct unwind_rule *rule)
{
	if (!given)
		return;
	require(rule->kind == UNWIND_CFA_REG && rule->save[UNWIND_SAVE_RA] == -1);
	require(rule->cfa_reg == WREG_RSP || rule->cfa_reg == WREG_RBP);
	require(rule->cfa_off == 8 || rule->cfa_off == 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unwind_rule leaf, frame;
	size_t offset;
	uint8_t *code;
	bool is_leaf;

	if (size < 3)
		return 0;
	offset = (size_t)(data[0] | data[1] << 8) % size;
	size -= 2;
	code = malloc(size); /* its end is guarded, other than the input's */
	require(code);
	memcpy(code, data + 2, size);
	is_leaf = cfi_leaf_rule(code, size, offset, &leaf);
	check_rule(is_leaf, &leaf);
	check_rule(cfi_frame_rule(code, size, offset, &frame), &frame);
	cfi_is_entry_code(code, size, offset);
	cfi_is_context_start(code, size);
	call_site_ends(code, size);
	free(code);
	return 0;
}
