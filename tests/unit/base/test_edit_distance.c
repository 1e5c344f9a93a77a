/* How far a name is from what somebody typed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/base/words/edit_distance.h"

static unsigned int between(const char *a, const char *b)
{
	return edit_distance(a, strlen(a), b, strlen(b), false);
}

static void each_kind_of_typing_error_counts_one(void **state)
{
	(void)state;
	assert_int_equal(between("flag", "flag"), 0);
	assert_int_equal(between("flag", "fag"), 1);
	assert_int_equal(between("flag", "fllag"), 1);
	assert_int_equal(between("flag", "frag"), 1);
	assert_int_equal(between("flag", "falg"), 1);
	assert_int_equal(between("ca", "abc"), 3); /* no change within two swapped neighbours */
	assert_int_equal(between("kitten", "sitting"), 3);
}

static void an_empty_name_is_as_far_as_the_other_is_long(void **state)
{
	(void)state;
	assert_int_equal(between("", ""), 0);
	assert_int_equal(between("", "flag"), 4);
	assert_int_equal(between("flag", ""), 4);
}

static void case_is_ignored_on_request_also_in_swaps(void **state)
{
	(void)state;
	assert_int_equal(between("FLAG", "flag"), 4);
	assert_int_equal(edit_distance("FLAG", 4, "flag", 4, true), 0);
	assert_int_equal(edit_distance("FALG", 4, "flag", 4, true), 1);
}

static void long_names_are_compared_by_their_beginnings(void **state)
{
	char a[3 * EDIT_DISTANCE_MAX], b[3 * EDIT_DISTANCE_MAX];

	(void)state;
	memset(a, 'a', sizeof(a));
	memset(b, 'a', sizeof(b));
	b[3] = 'b';
	memset(b + EDIT_DISTANCE_MAX, 'b', EDIT_DISTANCE_MAX);
	assert_int_equal(edit_distance(a, sizeof(a), b, sizeof(b) - 5, false), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_of_typing_error_counts_one),
		cmocka_unit_test(an_empty_name_is_as_far_as_the_other_is_long),
		cmocka_unit_test(case_is_ignored_on_request_also_in_swaps),
		cmocka_unit_test(long_names_are_compared_by_their_beginnings),
	};

	return cmocka_run_group_tests_name("edit_distance", tests, NULL, NULL);
}
