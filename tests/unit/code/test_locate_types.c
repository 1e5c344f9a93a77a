/*
 * The types of casts: names in quotes, and types that are declared inside functions. The victims' own &x is
 * the oracle.
 */
#include "tests/unit/loc_bench.h"

#define CXX_SOURCE " -o @/loc_c tests/victims/loc_types.cc"

static void a_type_may_stand_in_quotes(void **state)
{
	check_program("g++ -std=c++17 -g" CXX_SOURCE);
	check_program("clang++ -std=c++17 -g" CXX_SOURCE);
}

/* A name in a log can be typed again: with quotes where it needs them. */
static void a_cast_is_named_with_the_quotes_that_it_needs(void **state)
{
	static const struct {
		const char *expr, *name;
	} cases[] = {
		{ "*('my::Box<int, 3>'*)to_box", "*(my::Box<int, 3> *)to_box" },
		{ "*(struct 'my::Box<int, 3>' *)to_box", "*(struct my::Box<int, 3> *)to_box" },
		{ "*('unsigned long' *)&wide", "*(unsigned long *)&wide" },
	};
	struct bench b;

	victim_build("g++ -std=c++17 -g" CXX_SOURCE);
	bench_start(&b, "loc_c");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct variable v = find(&b, cases[i].expr), again = find(&b, v.name);

		assert_string_equal(v.name, cases[i].name);
		assert_int_equal(v.addr, again.addr);
		assert_int_equal(v.size, again.size);
		variable_deinit(&v);
		variable_deinit(&again);
	}
	bench_stop(&b);
}

static void what_is_wrong_with_a_quoted_type_is_said(void **state)
{
	struct bench b;

	victim_build("g++ -std=c++17 -g" CXX_SOURCE);
	bench_start(&b, "loc_c");
	expect_refusal(&b, "*('my::none<int>' *)to_box", WC_ENAME, "a type 'my::none<int>'|-s SIZE");
	expect_refusal(&b, "*(struct 'my::Box<int, 3> *)to_box", WC_EUSAGE, "column");
	expect_refusal(&b, "*('' *)to_box", WC_EUSAGE, "the name of a type in quotes");
	expect_refusal(&b, "*(struct 'Box' [3])to_box", WC_EUSAGE, "column");
	bench_stop(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_type_may_stand_in_quotes),
		cmocka_unit_test(a_cast_is_named_with_the_quotes_that_it_needs),
		cmocka_unit_test(what_is_wrong_with_a_quoted_type_is_said),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
