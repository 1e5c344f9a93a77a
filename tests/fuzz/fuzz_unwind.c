/*
 * Any registers and any stack: a walk ends within the frames it was given, says why, and reads nothing
 * but through the reader it was given. First the rules themselves are the fuzzer's, one step after
 * another, as the handler applies them; then the rules are those of this program and its libraries.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/unwind/cfi.h"
#include "watchctl/code/unwind/unwind_rule.h"

#define FRAMES 64
#define STACK 0x7ffd12340000ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is left of the input is the stack at STACK. */
struct input {
	const uint8_t *data;
	size_t size;
};

static struct cfi *cfi;
static struct module_list modules;

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

static bool read_stack(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct input *in = ctx;

	if (addr < STACK || addr - STACK > in->size || len > in->size - (addr - STACK))
		return false;
	memcpy(buf, in->data + (addr - STACK), len);
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

static void setup(void)
{
	if (cfi)
		return;
	cfi = cfi_new();
	require(cfi && !module_list_read(getpid(), &modules) && modules.n);
	for (size_t i = 0; i < modules.n; i++)
		require(cfi_add(cfi, &modules.v[i]));
}

/* A small value is a place in the stack or in a module's code: noise alone would rarely hit either. */
static uint64_t place(uint64_t v)
{
	const struct module *m = &modules.v[v / 2 % modules.n];

	if (v >> 56)
		return v;
	return v % 2 ? m->start + (v >> 8) % (m->end - m->start) : STACK + (v >> 8) % 4096;
}

static void step_by_given_rules(struct input *in)
{
	struct regs regs, before;

	take(in, &regs, sizeof(regs));
	regs.r[WREG_RSP] = place(regs.r[WREG_RSP]);
	regs.r[WREG_RBP] = place(regs.r[WREG_RBP]);
	for (int i = 0; i < FRAMES && in->size; i++) {
		enum unwind_step_result result;
		struct unwind_rule rule;

		take(in, &rule, sizeof(rule));
		/* The promises of whoever makes a rule. */
		rule.cfa_reg %= WREG_COUNT;
		rule.cfa_index %= WREG_COUNT + 1;
		if (rule.save[UNWIND_SAVE_RA] == UNWIND_SAME)
			rule.save[UNWIND_SAVE_RA] = -1;
		before = regs;
		result = unwind_step(&rule, &regs, read_word, in);
		require(result <= UNWIND_STEP_NO_RULE);
		require(result == UNWIND_STEP_OK || !memcmp(&before, &regs, sizeof(regs)));
	}
}

static void walk_by_real_rules(struct input *in)
{
	struct memory_view mem = { read_stack, in };
	enum walk_end why = (enum walk_end)99;
	uint64_t frame[FRAMES];
	struct regs regs;
	unsigned int n;

	take(in, &regs, sizeof(regs));
	for (int i = 0; i < WREG_COUNT; i++)
		regs.r[i] = place(regs.r[i]);
	n = cfi_walk(cfi, &regs, &mem, frame, FRAMES, &why);
	require(n >= 1 && n <= FRAMES && why <= WALK_END_NOT_ASCENDING);
	require(frame[0] == regs.r[WREG_RIP]);
	require(why != WALK_END_DEPTH || n == FRAMES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t way;

	setup();
	take(&in, &way, 1);
	if (way % 2)
		step_by_given_rules(&in);
	else
		walk_by_real_rules(&in);
	return 0;
}
