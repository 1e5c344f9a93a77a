/* Stacks made by hand, as the psABI and the kernel lay them out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#include "watchctl/code/unwind/unwind_rule.h"

#define STACK 0x7000ull
#define SAME UNWIND_SAME
/* Nothing saved but the return address, just below the CFA. */
#define ONLY_RA                                        \
	{                                              \
		SAME, SAME, SAME, SAME, SAME, SAME, -1 \
	}

struct stack {
	uint64_t word[32]; /* from STACK upwards */
};

static bool read_stack(void *ctx, uint64_t addr, uint64_t *ret)
{
	const struct stack *s = ctx;

	if (addr < STACK || addr - STACK > sizeof(s->word) - 8)
		return false;
	memcpy(ret, (const char *)s->word + (addr - STACK), 8);
	return true;
}

static struct regs regs_at(uint64_t rsp)
{
	return (struct regs){
		.r = { [WREG_RIP] = 0x401000, [WREG_RSP] = rsp, [WREG_RBP] = 0xb0, [WREG_RBX] = 0xb1 }
	};
}

static void a_leaf_frame_is_its_return_address(void **state)
{
	const struct unwind_rule rule = {
		.kind = UNWIND_CFA_REG, .cfa_reg = WREG_RSP, .cfa_off = 8, .save = ONLY_RA
	};
	struct stack s = { { 0x402000 } };
	struct regs r = regs_at(STACK);

	assert_int_equal(unwind_step(&rule, &r, read_stack, &s), UNWIND_STEP_OK);
	assert_int_equal(r.r[WREG_RIP], 0x402000);
	assert_int_equal(r.r[WREG_RSP], STACK + 8);
	assert_int_equal(r.r[WREG_RBP], 0xb0);
}

/* push rbp; mov rbp, rsp; push rbx; ... : rbx at CFA - 24, rbp at CFA - 16. */
static void saved_registers_come_back(void **state)
{
	const struct unwind_rule rule = { .kind = UNWIND_CFA_REG,
					  .cfa_reg = WREG_RBP,
					  .cfa_off = 16,
					  .save = { -3, -2, SAME, SAME, SAME, SAME, -1 } };
	struct stack s = { { 0, 0x1111, 0x2222, 0x402000 } };
	struct regs r = regs_at(STACK);

	r.r[WREG_RBP] = STACK + 16;
	assert_int_equal(unwind_step(&rule, &r, read_stack, &s), UNWIND_STEP_OK);
	assert_int_equal(r.r[WREG_RBX], 0x1111);
	assert_int_equal(r.r[WREG_RBP], 0x2222);
	assert_int_equal(r.r[WREG_RIP], 0x402000);
	assert_int_equal(r.r[WREG_RSP], STACK + 32);
}

/* gcc's dynamic realignment: the CFA lies at rbp - 8, rbx at rbp - 16, rbp at rbp, all far below the CFA. */
static void a_realigned_frame_saves_relative_to_rbp(void **state)
{
	const struct unwind_rule rule = { .kind = UNWIND_CFA_DEREF,
					  .cfa_reg = WREG_RBP,
					  .cfa_off = -8,
					  .from_rbp = 1u << UNWIND_SAVE_RBX | 1u << UNWIND_SAVE_RBP,
					  .save = { -2, 0, SAME, SAME, SAME, SAME, -1 } };
	struct stack s = { { 0x1111, STACK + 80, 0x2222 } };
	struct regs r = regs_at(STACK);

	s.word[9] = 0x402000;
	r.r[WREG_RBP] = STACK + 16;
	assert_int_equal(unwind_step(&rule, &r, read_stack, &s), UNWIND_STEP_OK);
	assert_int_equal(r.r[WREG_RSP], STACK + 80);
	assert_int_equal(r.r[WREG_RIP], 0x402000);
	assert_int_equal(r.r[WREG_RBX], 0x1111);
	assert_int_equal(r.r[WREG_RBP], 0x2222);
}

/* OpenSSL keeps the caller's rsp behind an array on the stack, whose length is in a register. */
static void a_frame_behind_an_array_is_found_by_its_length(void **state)
{
	const struct unwind_rule rule = { .kind = UNWIND_CFA_DEREF,
					  .cfa_reg = WREG_RSP,
					  .cfa_off = 8,
					  .cfa_off2 = 8,
					  .cfa_index = WREG_R9 + 1,
					  .save = ONLY_RA };
	struct stack s = { { 1, 2, 3, 4, STACK + 64 } };
	struct regs r = regs_at(STACK);

	r.r[WREG_R9] = 3;
	s.word[8] = 0x402000;
	assert_int_equal(unwind_step(&rule, &r, read_stack, &s), UNWIND_STEP_OK);
	assert_int_equal(r.r[WREG_RSP], STACK + 72);
	assert_int_equal(r.r[WREG_RIP], 0x402000);
}

/* A PLT entry pushes its index at offset 6; from offset 11 on there is one word more on the stack. */
static void a_plt_entry_depends_on_where_in_it(void **state)
{
	const struct unwind_rule rule = { .kind = UNWIND_PLT, .cfa_off = 8, .cfa_off2 = 11, .save = ONLY_RA };
	struct stack s = { { 5, 0x402000 } };
	struct regs r = regs_at(STACK + 8);

	r.r[WREG_RIP] = 0x401006;
	assert_int_equal(unwind_step(&rule, &r, read_stack, &s), UNWIND_STEP_OK);
	assert_int_equal(r.r[WREG_RIP], 0x402000);
	r = regs_at(STACK);
	r.r[WREG_RIP] = 0x40100b;
	assert_int_equal(unwind_step(&rule, &r, read_stack, &s), UNWIND_STEP_OK);
	assert_int_equal(r.r[WREG_RIP], 0x402000);
	assert_int_equal(r.r[WREG_RSP], STACK + 16);
}

static void a_frame_pointer_frame_needs_no_table(void **state)
{
	const struct unwind_rule rule = { .kind = UNWIND_FP,
					  .save = { SAME, -2, SAME, SAME, SAME, SAME, -1 } };
	struct stack s = { { 0, 0x2222, 0x402000 } };
	struct regs r = regs_at(STACK);

	r.r[WREG_RBP] = STACK + 8;
	assert_int_equal(unwind_step(&rule, &r, read_stack, &s), UNWIND_STEP_OK);
	assert_int_equal(r.r[WREG_RBP], 0x2222);
	assert_int_equal(r.r[WREG_RIP], 0x402000);
}

/* Checked against libc's names for the places in a ucontext. */
static void a_signal_frame_gives_every_register_back(void **state)
{
	static const int place[17][2] = {
		{ WREG_RAX, REG_RAX }, { WREG_RBX, REG_RBX }, { WREG_RCX, REG_RCX }, { WREG_RDX, REG_RDX },
		{ WREG_RSI, REG_RSI }, { WREG_RDI, REG_RDI }, { WREG_RBP, REG_RBP }, { WREG_RSP, REG_RSP },
		{ WREG_R8, REG_R8 },   { WREG_R9, REG_R9 },   { WREG_R10, REG_R10 }, { WREG_R11, REG_R11 },
		{ WREG_R12, REG_R12 }, { WREG_R13, REG_R13 }, { WREG_R14, REG_R14 }, { WREG_R15, REG_R15 },
		{ WREG_RIP, REG_RIP },
	};
	const struct unwind_rule rule = { .kind = UNWIND_SIGFRAME };
	struct stack s = { { 0 } };
	struct regs r = regs_at(STACK);
	ucontext_t uc = { 0 };

	for (unsigned int i = 0; i < 17; i++)
		uc.uc_mcontext.gregs[place[i][1]] = 1000 + place[i][0];
	memcpy(s.word, &uc, sizeof(s.word));
	assert_int_equal(unwind_step(&rule, &r, read_stack, &s), UNWIND_STEP_OK);
	for (unsigned int i = 0; i < 17; i++)
		assert_int_equal(r.r[place[i][0]], 1000 + place[i][0]);
}

static void an_unreadable_frame_changes_nothing(void **state)
{
	const struct unwind_rule rules[] = {
		{ .kind = UNWIND_CFA_REG,
		  .cfa_reg = WREG_RSP,
		  .cfa_off = 16,
		  .save = { -2, SAME, SAME, SAME, SAME, SAME, -1 } },
		{ .kind = UNWIND_CFA_DEREF, .cfa_reg = WREG_RSP, .save = ONLY_RA },
		{ .kind = UNWIND_SIGFRAME },
		{ .kind = UNWIND_PLT, .cfa_off = 8, .cfa_off2 = 11, .save = ONLY_RA },
		{ .kind = UNWIND_FP, .save = ONLY_RA },
	};
	struct stack s = { { 0 } };

	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		/* The last word of the stack: whatever is saved at or above the CFA's return address is out
		 * of reach. */
		struct regs r = regs_at(STACK + sizeof(s.word)), before = r;

		r.r[WREG_RSP] = before.r[WREG_RSP] = STACK + sizeof(s.word) - (i == 0 ? 8 : 0);
		assert_int_equal(unwind_step(&rules[i], &r, read_stack, &s), UNWIND_STEP_UNREADABLE);
		assert_memory_equal(&r, &before, sizeof(r));
	}
}

static void the_end_and_the_unknown_are_kept_apart(void **state)
{
	const struct unwind_rule outermost = { .kind = UNWIND_OUTERMOST }, none = { .kind = UNWIND_NO_RULE };
	const struct unwind_rule garbage = { .kind = 99 };
	struct stack s = { { 0 } };
	struct regs r = regs_at(STACK);

	assert_int_equal(unwind_step(&outermost, &r, read_stack, &s), UNWIND_STEP_END);
	assert_int_equal(unwind_step(&none, &r, read_stack, &s), UNWIND_STEP_NO_RULE);
	assert_int_equal(unwind_step(&garbage, &r, read_stack, &s), UNWIND_STEP_NO_RULE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leaf_frame_is_its_return_address),
		cmocka_unit_test(saved_registers_come_back),
		cmocka_unit_test(a_realigned_frame_saves_relative_to_rbp),
		cmocka_unit_test(a_frame_behind_an_array_is_found_by_its_length),
		cmocka_unit_test(a_plt_entry_depends_on_where_in_it),
		cmocka_unit_test(a_frame_pointer_frame_needs_no_table),
		cmocka_unit_test(a_signal_frame_gives_every_register_back),
		cmocka_unit_test(an_unreadable_frame_changes_nothing),
		cmocka_unit_test(the_end_and_the_unknown_are_kept_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
