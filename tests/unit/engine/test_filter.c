/*
 * Conditions, compiled and run. What they should say is worked out by the C compiler: each case stands twice,
 * once as text for us and once as an expression of C on variables of the same types.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/engine/plan/filter.h"

static struct enumerator colours[] = { { "RED", 0 }, { "GREEN", 1 }, { "BLUE", 7 } };
static const struct value_type t_int = { .kind = VALUE_SIGNED, .name = "int" };
static const struct value_type t_unsigned = { .kind = VALUE_UNSIGNED, .name = "unsigned int" };
static const struct value_type t_byte = { .kind = VALUE_UNSIGNED, .name = "uint8_t" };
static const struct value_type t_float = { .kind = VALUE_FLOAT, .name = "float" };
static const struct value_type t_pointer = { .kind = VALUE_POINTER, .name = "char *" };
static const struct value_type t_char = { .kind = VALUE_CHAR, .name = "char" };
static const struct value_type t_colour = {
	.kind = VALUE_ENUM, .name = "enum colour", .enumerators = colours, .nenumerators = 3
};

static enum filter_answer ask(const char *text, const struct value_type *type, uint32_t size, uint64_t old,
			      uint64_t new)
{
	const struct filter_spec spec = { .condition = text, .has_value = true };
	struct filter_input in = { .known = FILTER_NEEDS_OLD | FILTER_NEEDS_NEW | FILTER_NEEDS_TID |
					    FILTER_NEEDS_SIZE | FILTER_NEEDS_NAME,
				   .size = 4,
				   .tid = 77,
				   .name = "worker" };
	struct wire_filter f;
	struct wc_error *err = filter_compile(&spec, type, size, &f);
	int64_t scratch[FILTER_OPS];

	if (err)
		fail_msg("%s: %s", text, err->text);
	in.old_value = size < 8 ? old & ((1ull << 8 * size) - 1) : old;
	in.new_value = size < 8 ? new &((1ull << 8 * size) - 1) : new;
	return filter_condition(&f, &in, scratch);
}

#define SAME(type, value_type_, condition)                                                             \
	do {                                                                                           \
		size_t i_, k_;                                                                         \
		for (i_ = 0; i_ < sizeof(numbers) / sizeof(numbers[0]); i_++)                          \
			for (k_ = 0; k_ < sizeof(numbers) / sizeof(numbers[0]); k_++) {                \
				type old = (type)numbers[i_], new = (type)numbers[k_];                 \
				if (ask(#condition, value_type_, sizeof(type), (uint64_t)old,          \
					(uint64_t) new) != ((condition) ? FILTER_PASS : FILTER_DROP))  \
					fail_msg("%s: old %lld, new %lld", #condition, (long long)old, \
						 (long long)new);                                      \
			}                                                                              \
	} while (0)

static const int64_t numbers[] = { 0,	  1,	     2,		3,	    7,	       8,	 100,
				   -1,	  -2,	     -128,	127,	    255,       32767,	 -32768,
				   65535, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN };

static void integers_compare_as_in_c(void **state)
{
	SAME(int, &t_int, new == 0);
	SAME(int, &t_int, new != old);
	SAME(int, &t_int, new < old);
	SAME(int, &t_int, new <= -2);
	SAME(int, &t_int, new > old || new >= 100);
	SAME(short, &t_int, new < -5 && !(old > 3));
	SAME(signed char, &t_int, new >= old);
	SAME(unsigned int, &t_unsigned, new > 4000000000 || new < 2);
	SAME(unsigned char, &t_unsigned, new > 127);
	SAME(uint64_t, &t_unsigned, new > old);
	SAME(uint64_t, &t_unsigned, new >= 0x8000000000000000);
	SAME(int64_t, &t_int, new > old);
}

/* On 64 bits, as documented: in C the narrow types would be computed as int. */
static void arithmetic_is_on_64_bits(void **state)
{
	SAME(int64_t, &t_int, (new & 7) == 7);
	SAME(int64_t, &t_int, (new & 1) == 0 || (new ^ old) > 3);
	SAME(uint64_t, &t_unsigned, (new >> 3) == 1);
	SAME(int64_t, &t_int, (new >> 3) == -1);
	SAME(uint64_t, &t_unsigned, (new | 1) != new + 1);
	assert_int_equal(ask("new > old+100", &t_int, 4, 1, 102), FILTER_PASS);
	assert_int_equal(ask("new > old+100", &t_int, 4, 1, 101), FILTER_DROP);
	assert_int_equal(ask("new == old*2-1", &t_int, 4, (uint64_t)-3, (uint64_t)-7), FILTER_PASS);
	assert_int_equal(ask("new == 2+3*4", &t_int, 4, 0, 14), FILTER_PASS);
	assert_int_equal(ask("new == (2+3)*4", &t_int, 4, 0, 20), FILTER_PASS);
	assert_int_equal(ask("new == 1<<4|1", &t_int, 4, 0, 17), FILTER_PASS);
	assert_int_equal(ask("new & 1 == 1", &t_int, 4, 0, 3), FILTER_PASS); /* not C: & binds tighter */
}

static void ranges_hold_their_ends(void **state)
{
	int v;

	for (v = -2; v < 12; v++) {
		assert_int_equal(ask("new in 3..7", &t_int, 4, 0, (uint64_t)v), v >= 3 && v <= 7);
		assert_int_equal(ask("new not in 3..7", &t_int, 4, 0, (uint64_t)v), !(v >= 3 && v <= 7));
		assert_int_equal(ask("new in old-1..old+1", &t_int, 4, 5, (uint64_t)v), v >= 4 && v <= 6);
	}
}

static uint64_t bits_of(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static void floats_compare_by_value(void **state)
{
	static const float value[] = { 0,     -0.0f,  1,      -1,	0.5f,	   -0.5f,
				       1e30f, -1e30f, 1e-40f, INFINITY, -INFINITY, NAN };
	size_t i, k;

	for (i = 0; i < sizeof(value) / sizeof(value[0]); i++)
		for (k = 0; k < sizeof(value) / sizeof(value[0]); k++) {
			float old = value[i], new = value[k];

#define CASE(c) \
	assert_int_equal(ask(#c, &t_float, 4, bits_of(old), bits_of(new)), (c) ? FILTER_PASS : FILTER_DROP)
			CASE(new == old);
			CASE(new != old);
			CASE(new < old);
			CASE(new <= old);
			CASE(new > old);
			CASE(new >= old);
			CASE(new > 0.5);
			CASE(new <= -1);
#undef CASE
			assert_int_equal(ask("new in -0.5..1.5", &t_float, 4, bits_of(old), bits_of(new)),
					 new >= -0.5f && new <= 1.5f);
		}
}

static void names_characters_and_bit_fields(void **state)
{
	const struct value_type field = { .kind = VALUE_UNSIGNED, .bit_offset = 3, .bit_size = 4 };
	const struct value_type signed_field = { .kind = VALUE_SIGNED, .bit_offset = 3, .bit_size = 4 };

	assert_int_equal(ask("new == BLUE", &t_colour, 4, 0, 7), FILTER_PASS);
	assert_int_equal(ask("new == RED || old == GREEN", &t_colour, 4, 1, 7), FILTER_PASS);
	assert_int_equal(ask("new == 'a'", &t_char, 1, 0, 'a'), FILTER_PASS);
	assert_int_equal(ask("new == '\\n'", &t_char, 1, 0, '\n'), FILTER_PASS);
	assert_int_equal(ask("new != NULL", &t_pointer, 8, 0, 0x55), FILTER_PASS);
	assert_int_equal(ask("!new", &t_pointer, 8, 0, 0), FILTER_PASS);
	assert_int_equal(ask("new == 10", &field, 1, 0, 10 << 3 | 7), FILTER_PASS);
	assert_int_equal(ask("new == 10", &field, 1, 0, 10 << 4), FILTER_DROP);
	assert_int_equal(ask("new == -6", &signed_field, 1, 0, 10 << 3 | 7), FILTER_PASS);
}

static void threads_by_id_and_by_name(void **state)
{
	assert_int_equal(ask("thread == 77", &t_int, 4, 0, 0), FILTER_PASS);
	assert_int_equal(ask("thread != 77", &t_int, 4, 0, 0), FILTER_DROP);
	assert_int_equal(ask("thread == \"worker\" && size == 4", &t_int, 4, 0, 0), FILTER_PASS);
	assert_int_equal(ask("thread == \"work\"", &t_int, 4, 0, 0), FILTER_DROP);
	assert_int_equal(ask("thread != \"other\"", &t_int, 4, 0, 0), FILTER_PASS);
}

static enum filter_answer ask_registers(const char *text, bool known)
{
	const struct filter_spec spec = { .condition = text };
	struct filter_input in = { .known = known ? FILTER_NEEDS_REGS : 0 };
	struct wire_filter f;
	struct wc_error *err = filter_compile(&spec, &t_int, 4, &f);
	int64_t scratch[FILTER_OPS];

	if (err)
		fail_msg("%s: %s", text, err->text);
	in.reg[WREG_RDI] = 5;
	in.reg[WREG_RAX] = UINT64_MAX;
	in.reg[WREG_R15] = 0x1ffffffffull;
	in.reg[WREG_RSP] = 0xffff800000000000ull;
	in.reg[WREG_RIP] = 0x401000;
	return filter_condition(&f, &in, scratch);
}

static void registers_are_compared_as_gdb_does(void **state)
{
	static const char *const hold[] = { "$rdi==5",
					    "$rax == -1",
					    "$rax<0",
					    "$eax==-1",
					    "$r15d == -1",
					    "$r15 == 0x1ffffffff",
					    "$rip==0x401000",
					    "$pc in 0x400000..0x402000",
					    "$rsp > 0x7fffffffffff",
					    "$sp == $rsp",
					    "$rdi + 1 == 6",
					    "$rdi && $rip" };

	for (size_t i = 0; i < sizeof(hold) / sizeof(*hold); i++) {
		char opposite[64];

		snprintf(opposite, sizeof(opposite), "!(%s)", hold[i]);
		if (ask_registers(hold[i], true) != FILTER_PASS)
			fail_msg("%s does not hold", hold[i]);
		assert_int_equal(ask_registers(opposite, true), FILTER_DROP);
		assert_int_equal(ask_registers(hold[i], false), FILTER_UNDECIDED);
	}
}

static void options_are_joined_with_and(void **state)
{
	struct filter_spec spec = {
		.condition = "new == 1 || new == 2", .changes = true, .thread = "worker", .has_value = true
	};
	struct filter_input in = { .known = FILTER_NEEDS_OLD | FILTER_NEEDS_NEW | FILTER_NEEDS_NAME,
				   .name = "worker" };
	int64_t scratch[FILTER_OPS];
	struct wire_filter f;

	assert_null(filter_compile(&spec, &t_int, 4, &f));
	in.new_value = 2;
	assert_int_equal(filter_condition(&f, &in, scratch), FILTER_PASS);
	in.old_value = 2;
	assert_int_equal(filter_condition(&f, &in, scratch), FILTER_DROP);
	in.old_value = 0;
	strcpy(in.name, "other");
	assert_int_equal(filter_condition(&f, &in, scratch), FILTER_DROP);
	in.known = FILTER_NEEDS_OLD | FILTER_NEEDS_NEW;
	assert_int_equal(filter_condition(&f, &in, scratch), FILTER_UNDECIDED);
	spec = (struct filter_spec){ .rate = 100, .sample = 3 };
	assert_null(filter_compile(&spec, &t_int, 4, &f));
	assert_int_equal(f.interval_ns, 10000000);
	assert_int_equal(f.sample, 3);
	assert_int_equal(f.n, 0);
}

struct refusal {
	const char *text;
	const struct value_type *type;
	const char *says;
	int column; /* of the caret; 0: not looked at */
};

static void what_is_wrong_is_pointed_at(void **state)
{
	static const struct refusal cases[] = {
		{ "new ==", &t_int, "Expected a value", 7 },
		{ "new = 3", &t_int, "Expected ==", 5 },
		{ "neu == 3", &t_int, "Unknown name \"neu\"", 1 },
		{ "new == 3 old", &t_int, "Expected the end", 10 },
		{ "(new == 3", &t_int, "Expected )", 10 },
		{ "new / 2 == 1", &t_int, "Division", 5 },
		{ "new in 3", &t_int, "Expected ..", 9 },
		{ "new in 7..3", &t_int, "The range is empty", 5 },
		{ "new == 300", &t_byte, "Type mismatch", 5 },
		{ "new == 1.5", &t_int, "Type mismatch", 5 },
		{ "new + 1 > 2.0", &t_float, "Floating-point values", 5 },
		{ "new == \"text\"", &t_int, "Type mismatch", 5 },
		{ "thread < 5", &t_int, "Type mismatch", 8 },
		{ "thread", &t_int, "Expected a comparison", 1 },
		{ "new == 3x", &t_int, "Expected the number to end", 9 },
		{ "new == 99999999999999999999", &t_int, "larger than 64 bits", 8 },
		{ "thread == \"a name that is too long\"", &t_int, "at most 15 characters", 12 },
		{ "thread == \"open", &t_int, "has no end", 11 },
		{ "", &t_int, "Expected a value", 1 },
		{ "$xmm0 == 1", &t_int, "Unknown register \"$xmm0\"", 1 },
		{ "new == $", &t_int, "Unknown register", 8 },
		{ "new == 1 && caller main", &t_int, "--caller main", 20 },
		{ "write", &t_int, "-w or -rw", 1 },
		{ "$edi == 0xfffffffb", &t_int, "lower half of a register", 6 },
		{ "!new == 1", &t_int, "put it in parentheses", 6 },
		{ "kernel", &t_int, "in a --trigger", 1 },
		{ "{other} == 1", &t_int, "in a --trigger", 2 },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct filter_spec spec = { .condition = cases[i].text, .has_value = true };
		struct wire_filter f;
		struct wc_error *err =
			filter_compile(&spec, cases[i].type, cases[i].type == &t_byte ? 1 : 4, &f);
		const char *caret;

		if (!err)
			fail_msg("\"%s\" was accepted", cases[i].text);
		assert_int_equal(err->kind, WC_EUSAGE);
		if (!strstr(err->text, cases[i].says))
			fail_msg("\"%s\": %s", cases[i].text, err->text);
		caret = strrchr(err->text, '\n') + 3;
		assert_int_equal(strlen(caret), cases[i].column);
		wc_error_free(err);
	}
}

static void deep_nesting_and_long_conditions_are_refused(void **state)
{
	char text[2000];
	struct filter_spec spec = { .condition = text, .has_value = true };
	struct wire_filter f;
	struct wc_error *err;
	int i;

	for (i = 0; i < 3; i++) {
		memset(text, "(-!"[i], 500);
		strcpy(text + 500, "new");
		err = filter_compile(&spec, &t_int, 4, &f);
		assert_non_null(err);
		wc_error_free(err);
	}
	strcpy(text, "new == 1");
	for (i = 0; i < 30; i++)
		strcat(text, " || new == 1");
	err = filter_compile(&spec, &t_int, 4, &f);
	assert_non_null(err);
	assert_non_null(strstr(err->text, "too long"));
	wc_error_free(err);
}

static void an_execute_watch_has_no_value(void **state)
{
	struct filter_spec spec = { .condition = "new == 1" };
	struct wire_filter f;
	struct wc_error *err = filter_compile(&spec, &t_int, 1, &f);

	assert_non_null(err);
	wc_error_free(err);
	spec = (struct filter_spec){ .changes = true };
	err = filter_compile(&spec, &t_int, 1, &f);
	assert_non_null(err);
	wc_error_free(err);
	spec = (struct filter_spec){ .condition = "thread == 5" };
	assert_null(filter_compile(&spec, &t_int, 1, &f));
}

static void callers_are_looked_for_in_the_whole_stack(void **state)
{
	struct wire_filter f = { .ncallers = 1,
				 .nnot_callers = 1,
				 .callers = { { 0x100, 0x200 }, { 0x300, 0x400 } } };

	assert_int_equal(filter_caller_bits(&f, 0xff), 0);
	assert_int_equal(filter_caller_bits(&f, 0x100), 1);
	assert_int_equal(filter_caller_bits(&f, 0x1ff), 1);
	assert_int_equal(filter_caller_bits(&f, 0x200), 0);
	assert_int_equal(filter_caller_bits(&f, 0x300), 2);
	assert_int_equal(filter_callers(&f, 1, false), FILTER_PASS);
	assert_int_equal(filter_callers(&f, 3, false), FILTER_DROP);
	assert_int_equal(filter_callers(&f, 0, false), FILTER_DROP);
	assert_int_equal(filter_callers(&f, 0, true), FILTER_UNDECIDED);
	assert_int_equal(filter_callers(&f, 1, true), FILTER_UNDECIDED);
	assert_int_equal(filter_callers(&f, 2, true), FILTER_DROP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_compare_as_in_c),
		cmocka_unit_test(arithmetic_is_on_64_bits),
		cmocka_unit_test(ranges_hold_their_ends),
		cmocka_unit_test(floats_compare_by_value),
		cmocka_unit_test(names_characters_and_bit_fields),
		cmocka_unit_test(threads_by_id_and_by_name),
		cmocka_unit_test(options_are_joined_with_and),
		cmocka_unit_test(registers_are_compared_as_gdb_does),
		cmocka_unit_test(what_is_wrong_is_pointed_at),
		cmocka_unit_test(deep_nesting_and_long_conditions_are_refused),
		cmocka_unit_test(an_execute_watch_has_no_value),
		cmocka_unit_test(callers_are_looked_for_in_the_whole_stack),
	};

	return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
