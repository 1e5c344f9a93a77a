/*
 * Any instructions of a table, any registers and any stack: libunwind's step over them ends, reads nothing but
 * through the reader it was given, and leaves the registers alone when it fails. Where the same row is a rule, the
 * two steps agree.
 *
 * The input: which row, and what is known; code and data alignment; how long the instructions of CIE and FDE are,
 * and these; 16 registers; the stack.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/unwind/unwind_slice.h"

#define FRAMES 0x401000u
#define CODE 0x10000u
#define CODE_SIZE 256u
#define STACK 0x7ffd12340000ull
#define WORDS 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

struct table {
	uint8_t bytes[1024];
	size_t len;
};

static struct unwind_slice *slice;
static unsigned int reads;

static void require(bool claim)
{
	if (!claim)
		abort();
}

static void take(struct input *in, void *to, size_t len)
{
	size_t n = len < in->size ? len : in->size;

	memset(to, 0, len);
	if (!n)
		return;
	memcpy(to, in->data, n);
	in->data += n;
	in->size -= n;
}

static uint8_t take_byte(struct input *in)
{
	uint8_t v;

	take(in, &v, 1);
	return v;
}

static bool read_stack(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const uint64_t *stack = ctx;

	reads++;
	if (addr < STACK || addr - STACK > WORDS * 8 - len)
		return false;
	memcpy(buf, (const char *)stack + (addr - STACK), len);
	return true;
}

static bool read_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	uint64_t word;

	if (!read_stack(ctx, addr, &word, sizeof(word)))
		return false;
	*ret = word;
	return true;
}

static void put(struct table *t, uint64_t value, size_t len)
{
	memcpy(t->bytes + t->len, &value, len);
	t->len += len;
}

static void take_program(struct input *in, struct table *t, size_t entry, size_t len)
{
	uint32_t size;

	take(in, t->bytes + t->len, len);
	t->len += len;
	size = (uint32_t)(t->len - entry - 4);
	memcpy(t->bytes + entry, &size, sizeof(size));
}

/* Returns where the FDE is. */
static size_t take_table(struct input *in, struct table *t)
{
	uint8_t code_align = take_byte(in) & 0x7f, data_align = take_byte(in) & 0x7f;
	size_t common = take_byte(in), own = take_byte(in), fde;

	put(t, 0, 8);
	put(t, 1, 2); /* version, no augmentation */
	put(t, code_align, 1);
	put(t, data_align, 1);
	put(t, WREG_RIP, 1);
	take_program(in, t, 0, common);
	fde = t->len;
	put(t, 0, 4);
	put(t, fde + 4, 4);
	put(t, CODE, 8);
	put(t, CODE_SIZE, 8);
	take_program(in, t, fde, own);
	return fde;
}

static uint64_t place(uint64_t v)
{
	return v >> 56 ? v : STACK + v % (WORDS * 8);
}

/* What a rule says of the same row, libunwind must not contradict. */
static void compare(const struct unwind_rule *rule, const struct regs *before, const struct regs *after,
		    uint64_t *stack)
{
	static const uint8_t kept[] = { WREG_RBX, WREG_RBP, WREG_RSP, WREG_R12,
					WREG_R13, WREG_R14, WREG_R15, WREG_RIP };
	struct regs regs = *before;

	if (rule->kind == UNWIND_NO_RULE || unwind_step(rule, &regs, read_word, stack) != UNWIND_STEP_OK)
		return;
	for (size_t i = 0; i < sizeof(kept); i++)
		require(regs.r[kept[i]] == after->r[kept[i]]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct table table = { .len = 0 };
	uint64_t stack[WORDS], row = CODE + take_byte(&in);
	bool exact = take_byte(&in) & 1;
	const struct memory_view mem = { read_stack, stack };
	struct unwind_program program;
	struct regs regs = { .r = { 0 } }, before;
	struct eh_image image = { .hdr = { 0 } };
	enum unwind_step_result result;
	struct unwind_rule rule;
	size_t fde;

	if (!slice)
		slice = unwind_slice_new();
	require(slice);
	fde = take_table(&in, &table);
	take(&in, regs.r, 8 * WREG_RIP);
	take(&in, stack, sizeof(stack));
	for (unsigned int i = 0; i < WREG_RIP; i++)
		regs.r[i] = place(regs.r[i]);
	regs.r[WREG_RIP] = row + !exact;
	before = regs;

	image.frames = (struct eh_range){ FRAMES, FRAMES + table.len, malloc(table.len) };
	require(image.frames.bytes);
	memcpy((void *)(uintptr_t)image.frames.bytes, table.bytes, table.len);
	if (unwind_program_at(&image, FRAMES + fde, row, &program)) {
		reads = 0;
		result = unwind_slice_step(slice, &program, row, exact, &mem, &regs);
		require(result == UNWIND_STEP_OK || result == UNWIND_STEP_NO_RULE);
		require(result == UNWIND_STEP_OK || !memcmp(&before, &regs, sizeof(regs)));
		require(reads < 100000);
		eh_frame_rule_at(&image, FRAMES + fde, row, &rule);
		if (result == UNWIND_STEP_OK)
			compare(&rule, &before, &regs, stack);
	}
	free((void *)(uintptr_t)image.frames.bytes);
	return 0;
}
