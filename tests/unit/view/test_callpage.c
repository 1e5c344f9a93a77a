/* The calls and texts of a page: what is kept, what is left out, and how they are encoded, read back by another decoder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/trace/event.h"
#include "watchctl/view/callpage/callpage_calls.h"
#include "watchctl/view/callpage/callpage_texts.h"

static void begin(struct callpage_calls *c, uint64_t number, uint32_t thread, uint32_t depth, uint64_t ns)
{
	const uint32_t args[] = { (uint32_t)number, 3 };
	struct callpage_call call = {
		.number = number, .thread = thread, .depth = depth, .begin_ns = ns, .nargs = 2
	};

	assert_true(callpage_calls_begin(c, &call, args));
}

static void end(struct callpage_calls *c, uint64_t number, uint32_t thread, uint32_t depth, uint64_t ns)
{
	struct callpage_call *call = callpage_calls_end(c, thread, depth, number);

	assert_non_null(call);
	call->end_ns = ns;
	call->how = RETURN_RETURNED;
}

static uint64_t number_at(const struct page_bytes *b, size_t *at)
{
	uint64_t v = 0;
	int shift;

	for (shift = 0; b->v[*at] & 0x80; shift += 7)
		v |= (uint64_t)(b->v[(*at)++] & 0x7f) << shift;
	return v | (uint64_t)b->v[(*at)++] << shift;
}

/* Row @i of the column, the end of the log being at 1000. */
static uint64_t cell(const struct callpage_calls *c, int column, size_t i)
{
	struct page_bytes columns = { 0 }, values = { 0 };
	size_t start[CALLPAGE_COLUMNS], at;
	uint64_t v = 0;

	assert_true(callpage_calls_encode(c, 1000, &columns, start, &values));
	for (at = start[column], i++; i > 0; i--)
		v = number_at(&columns, &at);
	free(columns.v);
	free(values.v);
	return v;
}

enum { TIME, DURATION, FUNCTION, THREAD, DEPTH, STATE, NUMBER };

static void calls_nest_and_end(void **state)
{
	struct callpage_calls c = { .max = 100 };

	begin(&c, 1, 0, 0, 100);
	begin(&c, 2, 0, 1, 200);
	begin(&c, 3, 1, 0, 250);
	end(&c, 2, 0, 1, 300);
	end(&c, 1, 0, 0, 500);
	assert_int_equal(cell(&c, TIME, 0), 100);
	assert_int_equal(cell(&c, TIME, 2), 50);
	assert_int_equal(cell(&c, DURATION, 0), 400);
	assert_int_equal(cell(&c, DURATION, 1), 100);
	assert_int_equal(cell(&c, DURATION, 2), 750); /* open until the end of the log */
	assert_int_equal(cell(&c, STATE, 1), RETURN_RETURNED << 4);
	assert_int_equal(cell(&c, STATE, 2), 0);
	assert_int_equal(cell(&c, DEPTH, 1), 1);
	assert_int_equal(cell(&c, THREAD, 2), 1);
	assert_int_equal(cell(&c, NUMBER, 2), 0);
	callpage_calls_deinit(&c);
}

/* A call whose end the log does not have ends where the next one of its depth begins. */
static void a_missing_end_leaves_nothing_open(void **state)
{
	struct callpage_calls c = { .max = 100 };

	begin(&c, 1, 0, 0, 100);
	begin(&c, 2, 0, 1, 150);
	begin(&c, 7, 0, 0, 200);
	assert_null(callpage_calls_end(&c, 0, 1, 2));
	assert_null(callpage_calls_end(&c, 0, 0, 1));
	assert_null(callpage_calls_end(&c, 9, 0, 1));
	assert_int_equal(cell(&c, DURATION, 0), 100);
	assert_int_equal(cell(&c, DURATION, 1), 50);
	assert_int_equal(cell(&c, NUMBER, 2), 4);
	callpage_calls_deinit(&c);
}

static void calls_beyond_the_room_are_counted(void **state)
{
	struct callpage_calls c = { .max = 2 };

	begin(&c, 1, 0, 0, 100);
	begin(&c, 2, 0, 1, 110);
	begin(&c, 3, 0, 2, 120);
	assert_null(callpage_calls_end(&c, 0, 2, 3));
	end(&c, 2, 0, 1, 130);
	begin(&c, 4, 0, 1, 140);
	assert_null(callpage_calls_end(&c, 0, 1, 4));
	end(&c, 1, 0, 0, 150);
	assert_int_equal(c.n, 2);
	assert_int_equal(c.left_out, 2);
	callpage_calls_deinit(&c);
}

static void a_clock_that_goes_back_does_not(void **state)
{
	struct callpage_calls c = { .max = 10 };

	begin(&c, 1, 0, 0, 500);
	begin(&c, 2, 1, 0, 400);
	end(&c, 2, 1, 0, 450);
	assert_int_equal(cell(&c, TIME, 1), 0);
	assert_int_equal(cell(&c, DURATION, 1), 0);
	callpage_calls_deinit(&c);
}

static void parameters_and_results_follow_their_calls(void **state)
{
	struct page_bytes columns = { 0 }, values = { 0 };
	const uint64_t expected[] = { 2, 1, 3, 0, 2, 300, 3, 9 };
	size_t start[CALLPAGE_COLUMNS], at = 0, i;
	struct callpage_calls c = { .max = 10 };

	begin(&c, 1, 0, 0, 100);
	begin(&c, 300, 0, 1, 100);
	c.v[1].result = 9;
	assert_true(callpage_calls_encode(&c, 1000, &columns, start, &values));
	for (i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		assert_int_equal(number_at(&values, &at), expected[i]);
	assert_int_equal(at, values.n);
	free(columns.v);
	free(values.v);
	callpage_calls_deinit(&c);
}

static void texts_are_there_once_as_long_as_there_is_room(void **state)
{
	struct callpage_texts t = { .max = 10 };
	bool ok = true;

	assert_int_equal(callpage_text(&t, NULL, &ok), CALLPAGE_NO_TEXT);
	assert_int_equal(callpage_text(&t, "abc", &ok), CALLPAGE_FIRST_TEXT);
	assert_int_equal(callpage_text(&t, "", &ok), CALLPAGE_FIRST_TEXT + 1);
	assert_int_equal(callpage_text(&t, "abc", &ok), CALLPAGE_FIRST_TEXT);
	assert_int_equal(callpage_text(&t, "123456", &ok), CALLPAGE_TEXT_LEFT_OUT);
	assert_int_equal(callpage_text(&t, "1234", &ok), CALLPAGE_FIRST_TEXT + 2);
	assert_int_equal(callpage_text(&t, "abc", &ok), CALLPAGE_FIRST_TEXT);
	assert_int_equal(t.left_out, 1);
	assert_string_equal(callpage_text_at(&t, 2), "1234");
	assert_true(ok);
	callpage_texts_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_nest_and_end),
		cmocka_unit_test(a_missing_end_leaves_nothing_open),
		cmocka_unit_test(calls_beyond_the_room_are_counted),
		cmocka_unit_test(a_clock_that_goes_back_does_not),
		cmocka_unit_test(parameters_and_results_follow_their_calls),
		cmocka_unit_test(texts_are_there_once_as_long_as_there_is_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
