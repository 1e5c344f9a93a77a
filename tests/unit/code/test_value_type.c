/* value_type: values as people read them. Expected strings are what gdb or the C standard's printf gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/code/dwarf/value_type.h"

#define ASSERT_SHOWN(type, size, raw, want)                                     \
	do {                                                                    \
		char shown_[128];                                               \
		value_format(&(type), size, raw, NULL, shown_, sizeof(shown_)); \
		assert_string_equal(shown_, want);                              \
	} while (0)

static uint64_t bits_of_double(double d)
{
	uint64_t raw;

	memcpy(&raw, &d, sizeof(raw));
	return raw;
}

static uint64_t bits_of_float(float f)
{
	uint32_t raw;

	memcpy(&raw, &f, sizeof(raw));
	return raw;
}

static void integers_respect_sign_and_size(void **state)
{
	const struct value_type s = { .kind = VALUE_SIGNED }, u = { .kind = VALUE_UNSIGNED };

	ASSERT_SHOWN(s, 4, 42, "42");
	ASSERT_SHOWN(s, 1, 0xff, "-1");
	ASSERT_SHOWN(s, 2, 0x8000, "-32768");
	ASSERT_SHOWN(s, 4, 0xffffffff, "-1");
	ASSERT_SHOWN(s, 8, UINT64_MAX, "-1");
	ASSERT_SHOWN(s, 8, 0x8000000000000000, "-9223372036854775808");
	ASSERT_SHOWN(u, 1, 0xff, "255");
	ASSERT_SHOWN(u, 4, 0xffffffff, "4294967295");
	ASSERT_SHOWN(u, 8, UINT64_MAX, "18446744073709551615");
	/* what lies beyond the size is not part of the value */
	ASSERT_SHOWN(u, 1, 0x1ff, "255");
}

static void bit_fields_are_cut_out_of_their_unit(void **state)
{
	const struct value_type u = { .kind = VALUE_UNSIGNED, .bit_offset = 3, .bit_size = 4 };
	const struct value_type s = { .kind = VALUE_SIGNED, .bit_offset = 3, .bit_size = 4 };
	const struct value_type all = { .kind = VALUE_UNSIGNED, .bit_offset = 0, .bit_size = 64 };

	ASSERT_SHOWN(u, 1, 0xff, "15");
	ASSERT_SHOWN(u, 1, 0x87, "0");
	ASSERT_SHOWN(s, 1, 0x78, "-1");
	ASSERT_SHOWN(s, 1, 0x38, "7");
	ASSERT_SHOWN(all, 8, UINT64_MAX, "18446744073709551615");
}

static void booleans_that_are_neither_show_their_number(void **state)
{
	const struct value_type b = { .kind = VALUE_BOOL };

	ASSERT_SHOWN(b, 1, 0, "false");
	ASSERT_SHOWN(b, 1, 1, "true");
	ASSERT_SHOWN(b, 1, 0x2a, "true (0x2a)");
}

static void characters_show_both_forms(void **state)
{
	const struct value_type c = { .kind = VALUE_CHAR, .name = (char *)"char" };
	const struct value_type c8 = { .kind = VALUE_CHAR, .name = (char *)"char8_t" };
	const struct value_type c32 = { .kind = VALUE_CHAR, .name = (char *)"char32_t" };

	ASSERT_SHOWN(c, 1, 'a', "'a' (97)");
	ASSERT_SHOWN(c, 1, 0, "'\\0' (0)");
	ASSERT_SHOWN(c, 1, '\n', "'\\n' (10)");
	ASSERT_SHOWN(c, 1, '\'', "'\\'' (39)");
	ASSERT_SHOWN(c, 1, '\\', "'\\\\' (92)");
	ASSERT_SHOWN(c, 1, 0xff, "'\\xff' (-1)");
	ASSERT_SHOWN(c8, 1, 0xff, "'\\xff' (255)");
	ASSERT_SHOWN(c32, 4, 0x20ac, "'\xe2\x82\xac' (8364)");
	ASSERT_SHOWN(c32, 4, 0x1f600, "'\xf0\x9f\x98\x80' (128512)");
	ASSERT_SHOWN(c32, 4, 0xd800, "'\\ud800' (55296)");
}

static void floats_show_the_fewest_digits_that_read_back(void **state)
{
	const struct value_type f = { .kind = VALUE_FLOAT };

	ASSERT_SHOWN(f, 8, bits_of_double(3.14), "3.14");
	ASSERT_SHOWN(f, 8, bits_of_double(0.1 + 0.2), "0.30000000000000004");
	ASSERT_SHOWN(f, 8, bits_of_double(-0.0), "-0");
	ASSERT_SHOWN(f, 8, bits_of_double(1.0 / 0.0), "inf");
	ASSERT_SHOWN(f, 8, 0x7ff8000000000000, "nan");
	ASSERT_SHOWN(f, 4, bits_of_float(0.1f), "0.1");
	ASSERT_SHOWN(f, 4, bits_of_float(16777216.0f), "16777216");
	/* no float has this size: shown as it is */
	ASSERT_SHOWN(f, 2, 0x3c00, "0x3c00");
}

static struct enumerator colors[] = { { (char *)"RED", 0 }, { (char *)"GREEN", 5 }, { (char *)"BLUE", -3 } };
static struct enumerator flags[] = {
	{ (char *)"NONE", 0 }, { (char *)"A", 1 }, { (char *)"B", 2 }, { (char *)"C", 4 }, { (char *)"AB", 3 }
};
static struct enumerator states[] = { { (char *)"IDLE", 0 }, { (char *)"BUSY", 1 }, { (char *)"DONE", 2 } };

static void enumerations_show_names(void **state)
{
	const struct value_type t = {
		.kind = VALUE_ENUM, .enum_signed = true, .enumerators = colors, .nenumerators = 3
	};

	ASSERT_SHOWN(t, 4, 0, "RED");
	ASSERT_SHOWN(t, 4, 5, "GREEN");
	ASSERT_SHOWN(t, 4, (uint32_t)-3, "BLUE");
	ASSERT_SHOWN(t, 4, 7, "7");
	ASSERT_SHOWN(t, 4, (uint32_t)-9, "-9");
}

static void flags_are_taken_apart(void **state)
{
	const struct value_type t = { .kind = VALUE_ENUM, .enumerators = flags, .nenumerators = 5 };

	ASSERT_SHOWN(t, 4, 0, "NONE");
	ASSERT_SHOWN(t, 4, 3, "AB");
	ASSERT_SHOWN(t, 4, 5, "A|C");
	ASSERT_SHOWN(t, 4, 0x41, "A|0x40");
	ASSERT_SHOWN(t, 4, 0x40, "0x40");
}

/* 0, 1, 2 count states: 3 is not "BUSY and DONE". */
static void states_in_a_row_are_no_flags(void **state)
{
	const struct value_type t = { .kind = VALUE_ENUM, .enumerators = states, .nenumerators = 3 };

	ASSERT_SHOWN(t, 4, 3, "3");
}

static void pointers_show_their_symbol(void **state)
{
	const struct value_type p = { .kind = VALUE_POINTER };
	char text[64];

	value_format(&p, 8, 0x55550010, "table+0x10", text, sizeof(text));
	assert_string_equal(text, "0x55550010  table+0x10");
	ASSERT_SHOWN(p, 8, 0x55550010, "0x55550010");
	value_format(&p, 8, 0, "nothing", text, sizeof(text));
	assert_string_equal(text, "0x0");
}

static void what_is_not_understood_is_hex(void **state)
{
	const struct value_type unknown = { 0 }, aggregate = { .kind = VALUE_AGGREGATE };

	ASSERT_SHOWN(unknown, 4, 0xdeadbeef, "0xdeadbeef");
	ASSERT_SHOWN(aggregate, 8, 0x100000002, "0x100000002");
}

static void long_values_are_truncated_not_overrun(void **state)
{
	const struct value_type t = { .kind = VALUE_ENUM, .enumerators = flags, .nenumerators = 5 };
	char text[5] = { 'x', 'x', 'x', 'x', 'x' };

	value_format(&t, 4, 0x45, NULL, text, 4);
	assert_string_equal(text, "A|C");
	assert_int_equal(text[4], 'x');
	value_format(&t, 4, 0x45, NULL, text, 1);
	assert_string_equal(text, "");
	value_format(&t, 4, 0x45, NULL, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_respect_sign_and_size),
		cmocka_unit_test(bit_fields_are_cut_out_of_their_unit),
		cmocka_unit_test(booleans_that_are_neither_show_their_number),
		cmocka_unit_test(characters_show_both_forms),
		cmocka_unit_test(floats_show_the_fewest_digits_that_read_back),
		cmocka_unit_test(enumerations_show_names),
		cmocka_unit_test(flags_are_taken_apart),
		cmocka_unit_test(states_in_a_row_are_no_flags),
		cmocka_unit_test(pointers_show_their_symbol),
		cmocka_unit_test(what_is_not_understood_is_hex),
		cmocka_unit_test(long_values_are_truncated_not_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
