#include "watchctl/code/unwind/unwind_program.h"

#include "watchctl/code/unwind/eh_frame_row.h"

static bool is_beyond_doubt(const struct row *row)
{
	switch (row->how[UNWIND_SAVE_RA]) {
	case HOW_UNSPECIFIED:
	case HOW_UNDEFINED:
	case HOW_SAME:
		return false;
	default:
		break;
	}
	if (row->entangled || (!row->cfa_by_expression && row->cfa_reg > WREG_R15))
		return false;
	return row->how[SAVED_RSP] == HOW_UNSPECIFIED;
}

static const uint8_t *bytes_of(const struct cursor *c, size_t *len)
{
	*len = c->end - c->at;
	return c->range->bytes + (c->at - c->range->start);
}

bool unwind_program_at(const struct eh_image *image, uint64_t entry, uint64_t pc, struct unwind_program *ret)
{
	struct fde fde;
	struct row row;

	if (!(entry ? eh_fde_at(image, entry, pc, &fde) : eh_find_fde(image, pc, &fde)))
		return false;
	if (fde.cie.ra != WREG_RIP || fde.cie.is_signal || !eh_row(&fde, pc, &row) || !is_beyond_doubt(&row))
		return false;
	*ret = (struct unwind_program){ .start = fde.start,
					.end = fde.end,
					.code_align = fde.cie.code_align,
					.data_align = fde.cie.data_align };
	ret->common = bytes_of(&fde.cie.program, &ret->common_len);
	ret->own = bytes_of(&fde.program, &ret->own_len);
	return true;
}
