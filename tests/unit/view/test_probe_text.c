/* Texts of probes: snprintf is the oracle of the formatter, and no format can do harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "tests/unit/probe_sample.h"
#include "watchctl/base/words/format_spec.h"
#include "watchctl/view/event/probe_text.h"

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t random_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void check(const struct probe_event *e, const char *want)
{
	struct text_buf t = { 0 };

	probe_text_format(&t, e);
	if (strcmp(text_buf_text(&t), want) != 0)
		fail_msg("\"%s\" is \"%s\", not \"%s\"", e->format, text_buf_text(&t), want);
	text_buf_deinit(&t);
}

static void check_whole(struct trace_event e, const char *want)
{
	struct text_buf t = { 0 };

	probe_text_put(&t, &e.probe);
	assert_string_equal(text_buf_text(&t), want);
	text_buf_deinit(&t);
}

/* A conversion that printf(3) has a meaning for, and a value for it. */
static void make_spec(char *format, size_t cap, uint64_t *v, bool *is_string, bool *is_char)
{
	static const char *const sizes[] = { "", "", "hh", "h", "l", "ll", "z", "j", "t" };
	static const char conversions[] = "diuxXocps";
	const char c = conversions[random_number() % (sizeof(conversions) - 1)];
	const bool integer = strchr("diuxXo", c) != NULL;
	char flags[8] = "", width[16] = "", precision[16] = "";

	if (random_number() % 2)
		strcat(flags, "-");
	if (strchr("di", c) && random_number() % 2)
		strcat(flags, random_number() % 2 ? "+" : " ");
	if (strchr("xXo", c) && random_number() % 2)
		strcat(flags, "#");
	if (integer && random_number() % 2)
		strcat(flags, "0");
	if (random_number() % 2)
		snprintf(width, sizeof(width), "%u", (unsigned int)(1 + random_number() % 40));
	if ((integer || c == 's') && random_number() % 2)
		snprintf(precision, sizeof(precision), ".%u", (unsigned int)(random_number() % 30));
	snprintf(format, cap, "<%%%s%s%s%s%c>", flags, width, precision,
		 integer ? sizes[random_number() % 9] : "", c);
	*is_string = c == 's';
	*is_char = c == 'c';
	*v = random_number() >> random_number() % 64;
	if (random_number() % 8 == 0)
		*v = 0;
	if (*is_char)
		*v = 1 + *v % 255;
}

/* The same of a double; its value in *@d. */
static void make_float_spec(char *format, size_t cap, double *d)
{
	static const char conversions[] = "eEfFgGaA", flags[] = "-+ #0";
	const double some[] = {
		0.0, -0.0, 1.0, -2.5, 1e300, 1e-300, 0.1, INFINITY, -INFINITY, 123456789.125
	};
	char flag[8] = "", width[16] = "", precision[16] = "";
	size_t n = 0;

	for (size_t i = 0; flags[i]; i++)
		if (random_number() % 4 == 0)
			flag[n++] = flags[i];
	if (random_number() % 2)
		snprintf(width, sizeof(width), "%u", (unsigned int)(1 + random_number() % 40));
	if (random_number() % 2)
		snprintf(precision, sizeof(precision), ".%u", (unsigned int)(random_number() % 30));
	snprintf(format, cap, "<%%%s%s%s%c>", flag, width, precision, conversions[random_number() % 8]);
	*d = random_number() % 2 ? some[random_number() % 10]
				 : (double)(int64_t)random_number() / (double)(1 + random_number() % 1000);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void snprintf_says_the_same(void **state)
{
	char format[80], want[256], text[64];
	bool is_string, is_char;
	uint64_t v;
	int i;

	(void)state;
	for (i = 0; i < 300000; i++) {
		struct probe_event e = { .format = format, .nargs = 1 };

		make_spec(format, sizeof(format), &v, &is_string, &is_char);
		e.arg[0] = v;
		if (is_string) {
			snprintf(text, sizeof(text), "%.*s", (int)(v % 30), "the quick brown fox jumps over");
			e.strings = 1;
			e.string[0] = text;
			snprintf(want, sizeof(want), format, text);
		} else if (is_char) {
			snprintf(want, sizeof(want), format, (int)v);
		} else {
			snprintf(want, sizeof(want), format, v);
		}
		check(&e, want);
	}
}
static void snprintf_says_the_same_of_doubles(void **state)
{
	char format[80], want[512];
	double d;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct probe_event e = { .format = format, .nargs = 1 };

		make_float_spec(format, sizeof(format), &d);
		memcpy(&e.arg[0], &d, sizeof(d));
		snprintf(want, sizeof(want), format, d);
		check(&e, want);
	}
}

#pragma GCC diagnostic pop

static void arguments_stand_in_order_between_the_words(void **state)
{
	struct probe_event e = { .format = "cas %p: %d -> %u, %s 100%%",
				 .nargs = 4,
				 .arg = { 0x7f0000001000, UINT32_MAX, 1, 0x1000 },
				 .strings = 8,
				 .string = { [3] = "done" } };

	(void)state;
	check(&e, "cas 0x7f0000001000: -1 -> 1, done 100%");
}

static void what_is_not_there_is_not_made_up(void **state)
{
	struct probe_event e = { .nargs = 2, .strings = 3, .unread = 1, .arg = { 0x10, 0x20 } };

	(void)state;
	e.string[1] = "two";
	e.format = "%s %s %s %10d";
	check(&e, "(unreadable) two ? ?");
	e.format = "%14s|%x|%d";
	check(&e, "  (unreadable)|20|?");
	e.strings = e.unread = 0;
	e.format = "%s"; /* it was not recorded as a text */
	check(&e, "0x10");
	e.format = NULL;
	check(&e, "");
	e.format = "";
	check(&e, "");
	e.format = "%p %c";
	e.arg[0] = e.arg[1] = 0;
	check(&e, "(nil) \\0");
}

static void unknown_conversions_stand_as_they_are_written(void **state)
{
	struct probe_event e = { .nargs = 3, .arg = { 1, 2, 3 } };

	(void)state;
	e.format = "%n %d %*d %1$d %!";
	check(&e, "%n 1 %*d %1$d %!");
	e.format = "%d %Lg %d";
	check(&e, "1 %Lg 2");
	e.format = "%d %";
	check(&e, "1 %");
	e.format = "%d %-05.7ll";
	check(&e, "1 %-05.7ll");
}

static void no_width_takes_much_memory(void **state)
{
	struct probe_event e = { .nargs = 1, .format = "%99999999999999999999d%2147483647d" };
	struct text_buf t = { 0 };

	(void)state;
	probe_text_format(&t, &e);
	assert_int_equal(t.len, FORMAT_FIELD_MAX + 1);
	e.format = "%.99999999999999999999x";
	text_buf_empty(&t);
	probe_text_format(&t, &e);
	assert_int_equal(t.len, FORMAT_FIELD_MAX);
	text_buf_deinit(&t);
}

/* Under the sanitizers this says the most. */
static void any_format_comes_to_an_end(void **state)
{
	static const char some[] = "%%%%%-+ #0123456789.*hlzjtLqdiuxXocpsnfg$!\n\xff";
	char format[40];
	int i;

	(void)state;
	for (i = 0; i < 100000; i++) {
		struct trace_event log = probe_log();
		struct text_buf t = { 0 };
		size_t k, n = random_number() % (sizeof(format) - 1);

		for (k = 0; k < n; k++)
			format[k] = some[random_number() % (sizeof(some) - 1)];
		format[n] = '\0';
		log.probe.format = format;
		log.probe.nargs = (uint8_t)(random_number() % (PROBE_EVENT_ARGS + 1));
		probe_text_put(&t, &log.probe);
		assert_false(t.failed);
		text_buf_deinit(&t);
	}
}

static void each_kind_has_its_words(void **state)
{
	struct trace_event e = probe_value();

	(void)state;
	check_whole(probe_log(), "cas 0x7ffe00000040: -1 -> full (unreadable)  45 46 x");
	check_whole(e, "value 0x2a (42)");
	check_whole(probe_tagged(), "tag slow path, value 0x10000000000 (1099511627776)");
	check_whole(probe_withheld(), "cas (withheld)");
	check_whole(probe_empty(), "");
	e.probe.nargs = 0;
	check_whole(e, "value ?");
	e.probe.withheld = true;
	check_whole(e, "value (withheld)");
	e = probe_tagged();
	e.probe.nargs = 0;
	check_whole(e, "tag slow path");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(snprintf_says_the_same),
		cmocka_unit_test(snprintf_says_the_same_of_doubles),
		cmocka_unit_test(arguments_stand_in_order_between_the_words),
		cmocka_unit_test(what_is_not_there_is_not_made_up),
		cmocka_unit_test(unknown_conversions_stand_as_they_are_written),
		cmocka_unit_test(no_width_takes_much_memory),
		cmocka_unit_test(any_format_comes_to_an_end),
		cmocka_unit_test(each_kind_has_its_words),
	};

	return cmocka_run_group_tests_name("probe_text", tests, NULL, NULL);
}
