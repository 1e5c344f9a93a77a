/* Files that could not be read: the first is named, the others counted, each once. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/base/read_failure.h"

static char text[600];

static int forget(void **state)
{
	int why;

	(void)state;
	read_failure_take(text, sizeof(text), &why);
	return 0;
}

static void a_file_that_is_not_there_is_nothing_odd(void **state)
{
	(void)state;
	read_failure_note("/a", ENOENT);
	read_failure_note("/a/b", ENOTDIR);
	read_failure_note("/a", 0);
	assert_false(read_failure_describe(text, sizeof(text)));
}

static void the_first_is_named_and_the_others_are_counted(void **state)
{
	(void)state;
	read_failure_note("/a", EMFILE);
	assert_true(read_failure_describe(text, sizeof(text)));
	assert_string_equal(text, "/a: Too many open files");
	read_failure_note("/b", EIO);
	read_failure_note("/c", EACCES);
	assert_true(read_failure_describe(text, sizeof(text)));
	assert_string_equal(text, "/a: Too many open files (and 2 more)");
}

static void one_that_is_tried_twice_is_one(void **state)
{
	(void)state;
	read_failure_note("/a", EMFILE);
	read_failure_note("/a", EIO);
	assert_true(read_failure_describe(text, sizeof(text)));
	assert_string_equal(text, "/a: Too many open files");
}

static void what_is_taken_is_somebody_elses_to_report(void **state)
{
	int why = 0;

	(void)state;
	read_failure_note("/a", EIO);
	assert_true(read_failure_take(text, sizeof(text), &why));
	assert_string_equal(text, "/a");
	assert_int_equal(why, EIO);
	assert_false(read_failure_describe(text, sizeof(text)));
	assert_false(read_failure_take(text, sizeof(text), &why));
}

static void only_a_want_of_descriptors_is_reported_as_such(void **state)
{
	(void)state;
	read_failure_note("/a", EIO);
	assert_false(read_failure_of_descriptors());
	read_failure_note("/b", EMFILE);
	assert_true(read_failure_of_descriptors());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_file_that_is_not_there_is_nothing_odd, forget),
		cmocka_unit_test_setup(only_a_want_of_descriptors_is_reported_as_such, forget),
		cmocka_unit_test_setup(the_first_is_named_and_the_others_are_counted, forget),
		cmocka_unit_test_setup(one_that_is_tried_twice_is_one, forget),
		cmocka_unit_test_setup(what_is_taken_is_somebody_elses_to_report, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
