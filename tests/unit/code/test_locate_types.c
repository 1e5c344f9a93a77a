/*
 * The types of casts: names in quotes, and types that are declared inside functions. The victims' own &x is
 * the oracle.
 */
#include "tests/unit/loc_bench.h"

#define CXX_SOURCE " -o @/loc_c tests/victims/loc_types.cc"

static void cxx_types_are_found_in_quotes_and_in_functions(void **state)
{
	check_program("g++ -std=c++17 -g" CXX_SOURCE);
	check_program("g++ -std=c++17 -g -gdwarf-4 -fdebug-types-section" CXX_SOURCE);
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

/* "%s" in @expr stands for @name, and then for each candidate of the message that refuses it. */
static void check_candidates(struct bench *b, const char *expr, const char *name, unsigned int wanted)
{
	uint64_t size[8] = { 0 };
	struct variable v = { 0 };
	struct wc_error *err;
	char text[256], *save = NULL;
	unsigned int n = 0;

	snprintf(text, sizeof(text), expr, name);
	err = locate(b->l, text, &b->modules, &b->mem, &v, NULL);
	assert_non_null(err);
	strtok_r(err->text, "\n", &save);
	for (char *line; (line = strtok_r(NULL, "\n", &save)) && n < 8; n++) {
		snprintf(text, sizeof(text), expr, line + strspn(line, " "));
		v = find(b, text);
		for (unsigned int i = 0; i < n; i++)
			assert_int_not_equal(v.size, size[i]);
		size[n] = v.size;
		variable_deinit(&v);
	}
	if (n != wanted)
		fail_msg("%s: %u candidates: %s", name, n, err->text);
	wc_error_free(err);
}

static void every_candidate_of_an_ambiguous_type_selects_one(void **state)
{
	static const char *const compilers[] = { "g++", "clang++" };

	for (size_t i = 0; i < 2; i++) {
		char command[256];
		struct bench b;

		snprintf(command, sizeof(command), "%s -std=c++17 -g" CXX_SOURCE, compilers[i]);
		victim_build(command);
		bench_start(&b, "loc_c");
		check_candidates(&b, "*(%s *)kept[0]", "over::Local", 2);
		check_candidates(&b, "*(%s *)kept[0]", "Local", 4);
		check_candidates(&b, "*(%s *)kept[0]", "struct 'fn::over::Local'", 2);
		bench_stop(&b);
	}
}

/* In C: by its bare name where that is unique, else by its function, else by its source file. */
static void a_struct_of_a_c_function_is_found(void **state)
{
	static const char *const compilers[] = { "gcc -O0", "gcc -O2", "clang -O0", "clang -O2",
						 "gcc -gdwarf-4" };

	for (size_t i = 0; i < sizeof(compilers) / sizeof(*compilers); i++) {
		char command[256];
		struct bench b;

		snprintf(command, sizeof(command),
			 "echo 'void *neutral;' >@/neutral.c && %s -g -o @/loc_c tests/victims/loc_types.c "
			 "tests/victims/loc_types2.c @/neutral.c",
			 compilers[i]);
		victim_build(command);
		bench_start(&b, "loc_c");
		check_all_shown(&b);
		check_candidates(&b, "*(%s *)to_first", "struct local", 2);
		check_candidates(&b, "*(%s *)to_first", "local", 2);
		check_candidates(&b, "*(%s *)neutral", "same::twice", 2);
		expect_refusal(&b, "*(struct first::none *)to_first", WC_ENAME,
			       "'struct first::none'|-s SIZE");
		bench_stop(&b);
	}
}

/* The frame of a coroutine has no name in the source: by what g++ calls it, alone and as stacks show it. */
static void the_frame_of_a_coroutine_is_found(void **state)
{
	static const char *const frames[] = { "_ZN2my5countEi.Frame", "my::_ZN2my5countEi.Frame",
					      "'my::count(int)::_ZN2my5countEi.Frame'" };
	struct bench b;

	victim_build("g++ -std=c++20 -fcoroutines -g -o @/loc_c tests/victims/loc_coroutine.cc");
	bench_start(&b, "loc_c");
	for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
		const struct shown *kept = victim_shown(&b.v, "kept");
		char text[128];
		struct variable v;

		snprintf(text, sizeof(text), "((%s *)frame)->kept_1_2", frames[i]);
		v = find(&b, text);
		assert_int_equal(v.addr, kept->addr);
		assert_int_equal(v.size, kept->size);
		variable_deinit(&v);
	}
	bench_stop(&b);
}

/* Rust's futures, closures and types in functions, with and without quotes. */
static void rust_types_of_functions_are_found(void **state)
{
	check_program("rustc --edition 2021 -g -o @/loc_c tests/victims/loc_types.rs");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cxx_types_are_found_in_quotes_and_in_functions),
		cmocka_unit_test(a_cast_is_named_with_the_quotes_that_it_needs),
		cmocka_unit_test(what_is_wrong_with_a_quoted_type_is_said),
		cmocka_unit_test(every_candidate_of_an_ambiguous_type_selects_one),
		cmocka_unit_test(a_struct_of_a_c_function_is_found),
		cmocka_unit_test(the_frame_of_a_coroutine_is_found),
		cmocka_unit_test(rust_types_of_functions_are_found),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
