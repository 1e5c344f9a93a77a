/*
 * Any bytes are .eh_frame_hdr and .eh_frame: rules and function bounds come out, or do not, nothing is read
 * outside the two, and a rule that comes out is fit for a walk, which trusts it.
 *
 * The first two bytes say how long .eh_frame_hdr is. 0: there is one without a table, so that the entries are
 * looked through one after the other.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/unwind/eh_frame.h"

#define HDR 0x400000u
#define FRAMES 0x401000u
#define CODE 0x10000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool claim)
{
	if (!claim)
		abort();
}

/* In memory of its own, so that AddressSanitizer sees what lies outside of it. */
static struct eh_range range_of(uint64_t start, const void *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	require(copy);
	memcpy(copy, bytes, size);
	return (struct eh_range){ start, start + size, copy };
}

/* What unwind_step() takes for granted. */
static void check_rule(const struct unwind_rule *rule)
{
	require(rule->kind <= UNWIND_OUTERMOST);
	if (rule->kind == UNWIND_CFA_REG || rule->kind == UNWIND_CFA_DEREF)
		require(rule->cfa_reg <= WREG_R15);
	require(rule->cfa_index <= WREG_R15 + 1);
	if (rule->kind == UNWIND_CFA_REG || rule->kind == UNWIND_CFA_DEREF || rule->kind == UNWIND_PLT)
		require(rule->save[UNWIND_SAVE_RA] != UNWIND_SAME);
}

static void ask(const struct eh_image *image, uint64_t pc)
{
	struct unwind_rule rule, again;
	uint64_t start, end;
	bool found = eh_frame_function(image, pc, &start, &end);

	memset(&rule, 0x55, sizeof(rule));
	memset(&again, 0xaa, sizeof(again));
	eh_frame_rule(image, pc, &rule);
	eh_frame_rule(image, pc, &again);
	require(!memcmp(&rule, &again, sizeof(rule)));
	check_rule(&rule);
	if (found)
		require(pc - start < end - start);
	else
		require(rule.kind == UNWIND_NO_RULE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t no_table[] = { 1, 3, 0xff, 0xff, FRAMES & 0xff, FRAMES >> 8 & 0xff, FRAMES >> 16,
					    0 };
	static const uint64_t at[] = { 0,	    1,		 CODE, CODE + 1,    CODE + 8,  CODE + 0x20,
				       CODE + 0x40, CODE + 0xff, HDR,  FRAMES + 16, UINT64_MAX };
	struct eh_image image = { 0 };
	uint64_t frames;
	size_t hdr;

	if (size < 2)
		return 0;
	hdr = data[0] | (size_t)data[1] << 8;
	data += 2;
	size -= 2;
	if (hdr > size)
		hdr = size;
	image.hdr = hdr ? range_of(HDR, data, hdr) : range_of(HDR, no_table, sizeof(no_table));
	image.frames = range_of(FRAMES, data + hdr, size - hdr);
	eh_frame_section(&image.hdr, &frames);
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		ask(&image, at[i]);
	free((void *)(uintptr_t)image.hdr.bytes);
	free((void *)(uintptr_t)image.frames.bytes);
	return 0;
}
