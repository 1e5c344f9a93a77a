/*
 * The calling convention's own rules (System V psABI for x86-64, 3.2.3). What compilers make of whole calls
 * is in test_planner.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/code/regs.h"
#include "watchctl/step/lldb/abi.h"

static struct abi_layout scalar(enum abi_scalar kind, uint32_t size)
{
	struct abi_layout l = { .size = size };

	abi_put(&l, kind, 0, size);
	return l;
}

static void check_piece(const struct param_piece *p, enum param_in in, unsigned int reg, unsigned int size,
			int32_t offset)
{
	assert_int_equal(p->in, in);
	assert_int_equal(p->reg, reg);
	assert_int_equal(p->size, size);
	assert_int_equal(p->offset, offset);
}

static void six_integers_go_by_registers_then_the_stack(void **state)
{
	static const uint8_t reg[] = { WREG_RDI, WREG_RSI, WREG_RDX, WREG_RCX, WREG_R8, WREG_R9 };
	struct abi_layout l = scalar(ABI_SCALAR_INTEGER, 4);
	struct abi_call call = { 0 };
	struct abi_place p;

	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		abi_param(&call, &l, &p);
		assert_int_equal(p.npieces, 1);
		if (i < 6)
			check_piece(&p.piece[0], PARAM_IN_GPR, reg[i], 4, 0);
		else
			check_piece(&p.piece[0], PARAM_ON_STACK, 0, 4, 8 + 8 * (int32_t)(i - 6));
	}
}

static void eight_floats_go_by_registers_of_their_own(void **state)
{
	struct abi_layout f = scalar(ABI_SCALAR_FLOAT, 8), i = scalar(ABI_SCALAR_INTEGER, 8);
	struct abi_call call = { 0 };
	struct abi_place p;

	(void)state;
	abi_param(&call, &i, &p);
	for (unsigned int k = 0; k < 8; k++) {
		abi_param(&call, &f, &p);
		check_piece(&p.piece[0], PARAM_IN_XMM, k, 8, 0);
	}
	abi_param(&call, &f, &p);
	check_piece(&p.piece[0], PARAM_ON_STACK, 0, 8, 8);
	abi_param(&call, &i, &p);
	check_piece(&p.piece[0], PARAM_IN_GPR, WREG_RSI, 8, 0);
}

/* An aggregate is never split between registers and the stack; what comes later may still use them. */
static void a_pair_that_does_not_fit_leaves_the_last_register_free(void **state)
{
	struct abi_layout i = scalar(ABI_SCALAR_INTEGER, 8), pair = { .size = 16 };
	struct abi_call call = { .gpr = 5 };
	struct abi_place p;

	(void)state;
	abi_put(&pair, ABI_SCALAR_INTEGER, 0, 8);
	abi_put(&pair, ABI_SCALAR_INTEGER, 8, 8);
	abi_param(&call, &pair, &p);
	check_piece(&p.piece[0], PARAM_ON_STACK, 0, 16, 8);
	abi_param(&call, &i, &p);
	check_piece(&p.piece[0], PARAM_IN_GPR, WREG_R9, 8, 0);
}

static void sixteen_byte_scalars_are_aligned_on_the_stack(void **state)
{
	struct abi_layout i = scalar(ABI_SCALAR_INTEGER, 8), wide = scalar(ABI_SCALAR_INTEGER, 16);
	struct abi_layout x87 = scalar(ABI_SCALAR_X87, 16);
	struct abi_call call = { .gpr = 6 };
	struct abi_place p;

	(void)state;
	abi_param(&call, &i, &p);
	check_piece(&p.piece[0], PARAM_ON_STACK, 0, 8, 8);
	abi_param(&call, &wide, &p);
	check_piece(&p.piece[0], PARAM_ON_STACK, 0, 16, 8 + 16);
	abi_param(&call, &i, &p);
	check_piece(&p.piece[0], PARAM_ON_STACK, 0, 8, 8 + 32);
	abi_param(&call, &x87, &p);
	check_piece(&p.piece[0], PARAM_ON_STACK, 0, 16, 8 + 48);
}

static void eightbytes_are_classed_one_by_one(void **state)
{
	struct abi_layout l = { .size = 16 };
	struct abi_call call = { 0 };
	struct abi_place p;

	/* struct { float a; int b; double c; }: integer beats float in the same eightbyte. */
	(void)state;
	abi_put(&l, ABI_SCALAR_FLOAT, 0, 4);
	abi_put(&l, ABI_SCALAR_INTEGER, 4, 4);
	abi_put(&l, ABI_SCALAR_FLOAT, 8, 8);
	abi_param(&call, &l, &p);
	assert_int_equal(p.npieces, 2);
	check_piece(&p.piece[0], PARAM_IN_GPR, WREG_RDI, 8, 0);
	check_piece(&p.piece[1], PARAM_IN_XMM, 0, 8, 0);
	abi_result(&l, &p);
	check_piece(&p.piece[0], PARAM_IN_GPR, WREG_RAX, 8, 0);
	check_piece(&p.piece[1], PARAM_IN_XMM, 0, 8, 0);
	assert_false(abi_result_is_hidden(&l));
}

static void what_is_not_aligned_is_in_memory(void **state)
{
	struct abi_layout packed = { .size = 5 }, bits = { .size = 5 };
	struct abi_call call = { 0 };
	struct abi_place p;

	(void)state;
	abi_put(&packed, ABI_SCALAR_INTEGER, 0, 1);
	abi_put(&packed, ABI_SCALAR_INTEGER, 1, 4);
	abi_param(&call, &packed, &p);
	check_piece(&p.piece[0], PARAM_ON_STACK, 0, 5, 8);
	assert_true(abi_result_is_hidden(&packed));
	/* Bit fields need not be. */
	abi_put(&bits, ABI_SCALAR_BITS, 0, 3);
	abi_put(&bits, ABI_SCALAR_BITS, 3, 2);
	abi_param(&call, &bits, &p);
	check_piece(&p.piece[0], PARAM_IN_GPR, WREG_RDI, 5, 0);
}

static void a_large_struct_is_in_memory_and_its_result_behind_a_hidden_pointer(void **state)
{
	struct abi_layout l = { .size = 24 };
	struct abi_place p;

	(void)state;
	for (uint32_t at = 0; at < 24; at += 8)
		abi_put(&l, ABI_SCALAR_FLOAT, at, 8);
	assert_true(abi_result_is_hidden(&l));
	abi_result(&l, &p);
	assert_int_equal(p.npieces, 1);
	check_piece(&p.piece[0], PARAM_IN_MEMORY, WREG_RAX, 24, 0);
}

static void an_object_by_reference_takes_one_register_or_one_slot(void **state)
{
	struct abi_layout l = { .size = 32, .by_reference = true };
	struct abi_call call = { .gpr = 5 };
	struct abi_place p;

	(void)state;
	abi_param(&call, &l, &p);
	check_piece(&p.piece[0], PARAM_IN_MEMORY, WREG_R9, 32, 0);
	abi_param(&call, &l, &p);
	check_piece(&p.piece[0], PARAM_IN_MEMORY_BY_STACK, 0, 32, 8);
	assert_int_equal(call.stack, 8);
	assert_true(abi_result_is_hidden(&l));
}

static void x87_results_are_on_the_register_stack(void **state)
{
	struct abi_layout l = scalar(ABI_SCALAR_X87, 16), complex = scalar(ABI_SCALAR_COMPLEX_X87, 32);
	struct abi_layout either = scalar(ABI_SCALAR_X87, 16);
	struct abi_place p;

	(void)state;
	abi_result(&l, &p);
	assert_int_equal(p.npieces, 1);
	check_piece(&p.piece[0], PARAM_IN_X87, 0, 16, 0);
	abi_result(&complex, &p);
	assert_int_equal(p.npieces, 2);
	check_piece(&p.piece[1], PARAM_IN_X87, 1, 16, 0);
	/* union { long double a; long b; }: the upper half of an x87 number alone is nothing. */
	abi_put(&either, ABI_SCALAR_INTEGER, 0, 8);
	assert_true(abi_result_is_hidden(&either));
}

static void vectors_and_quads_are_whole_in_one_register(void **state)
{
	struct abi_layout vector = scalar(ABI_SCALAR_VECTOR, 32), quad = scalar(ABI_SCALAR_FLOAT, 16);
	struct abi_call call = { 0 };
	struct abi_place p;

	(void)state;
	abi_param(&call, &vector, &p);
	check_piece(&p.piece[0], PARAM_IN_XMM, 0, 32, 0);
	abi_param(&call, &quad, &p);
	check_piece(&p.piece[0], PARAM_IN_XMM, 1, 16, 0);
	abi_result(&quad, &p);
	check_piece(&p.piece[0], PARAM_IN_XMM, 0, 16, 0);
}

static void an_empty_object_is_not_passed(void **state)
{
	struct abi_layout l = { .size = 1 };
	struct abi_call call = { 0 };
	struct abi_place p;

	(void)state;
	abi_param(&call, &l, &p);
	assert_int_equal(p.npieces, 0);
	assert_int_equal(call.gpr + call.xmm + call.stack, 0);
	assert_false(abi_result_is_hidden(&l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(six_integers_go_by_registers_then_the_stack),
		cmocka_unit_test(eight_floats_go_by_registers_of_their_own),
		cmocka_unit_test(a_pair_that_does_not_fit_leaves_the_last_register_free),
		cmocka_unit_test(sixteen_byte_scalars_are_aligned_on_the_stack),
		cmocka_unit_test(eightbytes_are_classed_one_by_one),
		cmocka_unit_test(what_is_not_aligned_is_in_memory),
		cmocka_unit_test(a_large_struct_is_in_memory_and_its_result_behind_a_hidden_pointer),
		cmocka_unit_test(an_object_by_reference_takes_one_register_or_one_slot),
		cmocka_unit_test(x87_results_are_on_the_register_stack),
		cmocka_unit_test(vectors_and_quads_are_whole_in_one_register),
		cmocka_unit_test(an_empty_object_is_not_passed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
