/* The sentence on how a recording goes. Expected texts are written by hand, from the numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "watchctl/cli/request/step_pace.c" /* the library has no command line */

#define SECOND 1000000000ull

static void check(uint64_t calls, uint64_t ns, struct step_most first, struct step_most second,
		  const char *want)
{
	const struct step_most most[STEP_MOST] = { first, second };
	char *text = step_pace_text(calls, ns, most);

	assert_string_equal(text, want);
	free(text);
}

static const struct step_most none;

static void test_the_function_with_most_calls_is_named_with_what_leaves_it_out(void **state)
{
	check(1234567, 20 * SECOND, (struct step_most){ "hash_step", 876543 },
	      (struct step_most){ "main", 1 },
	      "1,234,567 calls, 61,000/s; 71 % are of hash_step: --skip hash_step leaves it out");
	check(100000, 10 * SECOND, (struct step_most){ "a", 60000 }, (struct step_most){ "b", 20000 },
	      "100,000 calls, 10,000/s; 60 % are of a and 20 % of b: --skip a --skip b leaves them out");
}

static void test_calls_that_are_spread_have_a_rate_only(void **state)
{
	check(100000, 10 * SECOND, (struct step_most){ "a", 19999 }, (struct step_most){ "b", 19000 },
	      "100,000 calls, 10,000/s");
	check(1000, 4 * SECOND, none, none, "1,000 calls, 250/s");
	check(1000, 4 * SECOND, (struct step_most){ NULL, 199 }, none, "1,000 calls, 250/s");
	check(1000, 4 * SECOND, (struct step_most){ NULL, 710 }, none,
	      "1,000 calls, 250/s; 71 % are of a function without a name: --depth may leave it out");
	check(999, 2 * SECOND, (struct step_most){ "a", 999 }, none, "999 calls, 490/s");
	check(1, 3 * SECOND, (struct step_most){ "a", 1 }, none, "1 call, 0/s");
}

static void test_names_are_patterns_that_a_shell_hands_on(void **state)
{
	check(2000, 2 * SECOND, (struct step_most){ "ns::V<int>::operator[](int, char)", 2000 }, none,
	      "2,000 calls, 1,000/s; 100 % are of ns::V<int>::operator[]: --skip 'ns::V<int>::operator\\[]' leaves it out");
	check(2000, 2 * SECOND, (struct step_most){ "f::{lambda()#1}::operator()() const", 2000 }, none,
	      "2,000 calls, 1,000/s; 100 % are of f::{lambda()#1}::operator()() const: --skip "
	      "'f::{lambda()#1}::operator()() const' leaves it out");
	check(2000, 2 * SECOND, (struct step_most){ "it's\n", 2000 }, none,
	      "2,000 calls, 1,000/s; 100 % are of it's?: --skip 'it'\\''s?' leaves it out");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_function_with_most_calls_is_named_with_what_leaves_it_out),
		cmocka_unit_test(test_calls_that_are_spread_have_a_rate_only),
		cmocka_unit_test(test_names_are_patterns_that_a_shell_hands_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
