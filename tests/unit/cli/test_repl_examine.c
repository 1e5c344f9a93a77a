/* The x command's format, numbers and strings as text; and memory that is hostile or not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/code/locate/show.h"
#include "watchctl/monitor/inspect/inspect_expr.h"

/* Readable from 0x1000 on, as far as it goes. */
struct memory {
	const void *bytes;
	size_t len;
};

static bool read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct memory *m = ctx;

	if (addr < 0x1000 || addr - 0x1000 > m->len || len > m->len - (addr - 0x1000))
		return false;
	memcpy(buf, (const uint8_t *)m->bytes + (addr - 0x1000), len);
	return true;
}

static struct examine parse(const char *text)
{
	struct examine x = { .count = 1, .format = 'x', .size = 'w' };

	assert_null(examine_parse(text, &x));
	return x;
}

static void test_format_keeps_what_is_not_given(void **state)
{
	struct examine x = parse("4xw");

	assert_true(x.count == 4 && x.format == 'x' && x.size == 'w');
	x = parse("g");
	assert_true(x.count == 1 && x.format == 'x' && x.size == 'g');
	assert_null(examine_parse("2d", &x));
	assert_true(x.count == 2 && x.format == 'd' && x.size == 'g');
	assert_null(examine_parse("", &x));
	assert_true(x.count == 1 && x.format == 'd' && x.size == 'g');
	x = parse("3c");
	assert_true(x.size == 'b');
	x = parse("a");
	assert_true(x.size == 'g');
	x = parse("wx");
	assert_true(x.format == 'x' && x.size == 'w');
}

static void test_format_that_makes_no_sense_is_an_error(void **state)
{
	static const char *const bad[] = { "q", "0x", "4294967296x", "x4", "-1x", "1 x" };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct examine x = { .count = 7, .format = 'd', .size = 'b' };
		struct wc_error *err = examine_parse(bad[i], &x);

		assert_non_null(err);
		assert_int_equal(err->kind, WC_EUSAGE);
		assert_true(x.count == 7 && x.format == 'd' && x.size == 'b');
		wc_error_free(err);
	}
}

static const char *number(char format, unsigned int size, uint64_t raw, bool padded)
{
	static char buf[320];
	const struct show_source none = { 0 };

	show_number(&none, format, size, raw, padded, buf, sizeof(buf));
	return buf;
}

/* As printf(3) and gdb have them. */
static void test_numbers_in_every_format(void **state)
{
	assert_string_equal(number('x', 4, 0x2a, true), "0x0000002a");
	assert_string_equal(number('x', 4, 0x2a, false), "0x2a");
	assert_string_equal(number('d', 2, 0xffff, false), "-1");
	assert_string_equal(number('u', 2, 0xffff, false), "65535");
	assert_string_equal(number('o', 1, 0, false), "0");
	assert_string_equal(number('o', 1, 8, false), "010");
	assert_string_equal(number('o', 2, 8, true), "0000010");
	assert_string_equal(number('t', 1, 5, true), "00000101");
	assert_string_equal(number('t', 1, 0, false), "0");
	assert_string_equal(number('t', 8, UINT64_MAX, false),
			    "1111111111111111111111111111111111111111111111111111111111111111");
	assert_string_equal(number('c', 1, '(', false), "'(' (40)");
	assert_string_equal(number('c', 4, 65, false), "'A' (65)");
	assert_string_equal(number('f', 4, 0x3fc00000, false), "1.5");
	assert_string_equal(number('f', 8, 0xc002000000000000, false), "-2.25");
	assert_string_equal(number('f', 2, 0xffff, false), "-1");
	assert_string_equal(number('d', 8, 0x8000000000000000, false), "-9223372036854775808");
}

static void assert_string(const void *bytes, size_t len, uint64_t addr, size_t most, const char *expected)
{
	struct memory m = { bytes, len };
	const struct memory_view mem = { read_memory, &m };
	size_t taken = 0;
	char *text = show_string(&mem, addr, most, &taken);

	if (!expected) {
		assert_null(text);
		return;
	}
	assert_non_null(text);
	assert_string_equal(text, expected);
	free(text);
}

static void test_strings_are_quoted_and_bounded(void **state)
{
	char page[4096 + 8];

	memset(page, 'a', sizeof(page));
	assert_string("hello\0more", 11, 0x1000, 8, "\"hello\"");
	assert_string("a\"b\\c\n\t\033[2J\001", 13, 0x1000, 12, "\"a\\\"b\\\\c\\n\\t\\e[2J\\001\"");
	assert_string("gr\xc3\xbc\xc3\x9f", 7, 0x1000, 6, "\"grüß\"");
	assert_string("\xff\xc3", 3, 0x1000, 2, "\"\\377\\303\"");
	/* What turns a line around, and what is no character at all. */
	assert_string("\xe2\x80\xae", 4, 0x1000, 3, "\"\\342\\200\\256\"");
	assert_string("\xed\xa0\x80", 4, 0x1000, 3, "\"\\355\\240\\200\"");
	assert_string("\xc0\x80", 3, 0x1000, 2, "\"\\300\\200\"");
	assert_string("abcdef", 7, 0x1000, 3, "\"abc\"...");
	assert_string("abcdef", 7, 0x2000, 3, NULL);
	/* Ends with its page, and without a NUL: as far as it can be read. */
	assert_string(page, 4096, 0x1000 + 4094, 20, "\"aa\"...");
}

static char *examine(const void *bytes, size_t len, const char *format, uint64_t addr, struct wc_error **err)
{
	struct memory m = { bytes, len };
	const struct memory_view mem = { read_memory, &m };
	struct symbolizer *symbolizer = symbolizer_new();
	const struct show_source s = { .mem = &mem, .symbolizer = symbolizer };
	struct examine x = parse(format);
	char *text = NULL;

	*err = inspect_memory(&s, &x, addr, &text);
	symbolizer_free(symbolizer);
	return text;
}

static void assert_examined(const void *bytes, size_t len, const char *format, uint64_t addr,
			    const char *expected)
{
	struct wc_error *err;
	char *text = examine(bytes, len, format, addr, &err);

	assert_null(err);
	assert_string_equal(text, expected);
	free(text);
}

static void test_memory_is_shown_as_far_as_it_goes(void **state)
{
	static const uint8_t bytes[] = { 1, 0, 0, 0, 2, 0, 0, 0, 0xff };
	struct wc_error *err;

	assert_examined(bytes, sizeof(bytes), "2xw", 0x1000, "0x1000:\t0x00000001\t0x00000002\n");
	assert_examined(bytes, sizeof(bytes), "9xb", 0x1000,
			"0x1000:\t0x01\t0x00\t0x00\t0x00\t0x02\t0x00\t0x00\t0x00\n0x1008:\t0xff\n");
	assert_examined(bytes, sizeof(bytes), "4dw", 0x1000,
			"0x1000:\t1\t2\nthe following memory, at 0x1008, cannot be read\n");
	assert_null(examine(bytes, sizeof(bytes), "4dw", 0x3000, &err));
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENAME);
	wc_error_free(err);
}

/* nop; ret; and then the first byte of an instruction that does not go on. */
static void test_instructions_end_with_the_memory(void **state)
{
	static const uint8_t code[] = { 0x90, 0xc3, 0xe8 };

	assert_examined(code, sizeof(code), "3i", 0x1000,
			"0x1000:\tnop\n0x1001:\tret\n0x1002:\t(no instruction)\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format_keeps_what_is_not_given),
		cmocka_unit_test(test_format_that_makes_no_sense_is_an_error),
		cmocka_unit_test(test_numbers_in_every_format),
		cmocka_unit_test(test_strings_are_quoted_and_bounded),
		cmocka_unit_test(test_memory_is_shown_as_far_as_it_goes),
		cmocka_unit_test(test_instructions_end_with_the_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
