#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/step/model/range.h"

static struct range range_of(bool has_from, bool has_to, uint32_t occurrence, uint32_t count)
{
	struct range_options o = { .has_from = has_from,
				   .has_to = has_to,
				   .from_is_function = has_from,
				   .occurrence = occurrence,
				   .count = count };
	struct range r;

	range_init(&r, &o);
	return r;
}

static void from_and_to_bound_each_occurrence(void **state)
{
	struct range r = range_of(true, true, 1, 0);

	(void)state;
	assert_int_equal(r.state, RANGE_OUTSIDE);
	assert_false(range_at_to(&r, 7));
	assert_true(range_at_from(&r, 7, 0x1000));
	assert_int_equal(r.state, RANGE_INSIDE);
	assert_false(range_at_from(&r, 8, 0x2000)); /* another thread is a part of it */
	assert_true(range_at_to(&r, 8));	    /* any thread ends it */
	assert_int_equal(r.state, RANGE_OUTSIDE);
	assert_true(range_at_from(&r, 8, 0x2000));
	assert_int_equal(r.occurrence, 2);
	assert_int_equal(r.from_seen, 3);
	assert_int_equal(r.to_seen, 2);
}

static void the_return_of_the_first_function_ends_it_not_that_of_a_recursion(void **state)
{
	struct range r = range_of(true, true, 1, 0);

	(void)state;
	assert_true(range_at_from(&r, 7, 0x1000));
	assert_false(range_at_from(&r, 7, 0x800));
	assert_false(range_from_ended(&r, 7, 0x800));
	assert_false(range_from_ended(&r, 8, 0x1000));
	assert_true(range_from_ended(&r, 7, 0x1000));
	assert_false(range_from_ended(&r, 7, 0x1000));
}

static void a_line_does_not_return(void **state)
{
	struct range_options o = { .has_from = true, .occurrence = 1 };
	struct range r;

	(void)state;
	range_init(&r, &o);
	assert_true(range_at_from(&r, 7, 0x1000));
	assert_false(range_from_ended(&r, 7, 0x1000));
	assert_true(range_thread_ended(&r, 7));
}

static void occurrences_are_chosen_and_counted(void **state)
{
	static const enum range_state expected[] = { RANGE_SKIPPING, RANGE_SKIPPING, RANGE_INSIDE,
						     RANGE_INSIDE };
	struct range r = range_of(true, false, 3, 2);

	(void)state;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(r.state, RANGE_OUTSIDE);
		assert_true(range_at_from(&r, 7, 0x1000));
		assert_int_equal(r.state, expected[i]);
		assert_false(range_at_to(&r, 7)); /* there is no such end */
		assert_true(range_from_ended(&r, 7, 0x1000));
	}
	assert_int_equal(r.state, RANGE_DONE);
	assert_false(range_at_from(&r, 7, 0x1000));
	assert_int_equal(r.from_seen, 5);
	assert_int_equal(r.occurrence, 4);
}

static void without_from_it_begins_at_once_and_once(void **state)
{
	struct range r = range_of(false, true, 1, 0);

	(void)state;
	assert_int_equal(r.state, RANGE_INSIDE);
	assert_int_equal(r.occurrence, 1);
	assert_false(range_thread_ended(&r, 0));
	assert_false(range_thread_ended(&r, 7));
	assert_true(range_at_to(&r, 7));
	assert_int_equal(r.state, RANGE_DONE);
}

static void without_both_it_lasts(void **state)
{
	struct range r = range_of(false, false, 1, 1);

	(void)state;
	assert_false(range_at_to(&r, 7));
	assert_false(range_from_ended(&r, 0, 0));
	assert_int_equal(r.state, RANGE_INSIDE);
	assert_true(range_cut(&r));
	assert_false(range_cut(&r));
	assert_int_equal(r.state, RANGE_DONE);
}

static void a_limit_ends_one_occurrence_and_the_next_may_begin(void **state)
{
	struct range r = range_of(true, false, 1, 2);

	(void)state;
	assert_false(range_cut(&r));
	assert_true(range_at_from(&r, 7, 0x1000));
	assert_true(range_cut(&r));
	assert_false(range_from_ended(&r, 7, 0x1000));
	assert_int_equal(r.state, RANGE_OUTSIDE);
	assert_true(range_at_from(&r, 7, 0x1000));
	assert_true(range_thread_ended(&r, 7));
	assert_int_equal(r.state, RANGE_DONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_and_to_bound_each_occurrence),
		cmocka_unit_test(the_return_of_the_first_function_ends_it_not_that_of_a_recursion),
		cmocka_unit_test(a_line_does_not_return),
		cmocka_unit_test(occurrences_are_chosen_and_counted),
		cmocka_unit_test(without_from_it_begins_at_once_and_once),
		cmocka_unit_test(without_both_it_lasts),
		cmocka_unit_test(a_limit_ends_one_occurrence_and_the_next_may_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
