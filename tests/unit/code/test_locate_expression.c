/*
 * locate: expressions as gdb users type them. The victims say what the compiler makes of each; what cannot be
 * known is an error that says what to write instead.
 */
#include "tests/unit/loc_bench.h"

#include "watchctl/code/lookup/locate_parse.h"

#define SOURCE " tests/victims/loc_expr.c"

static void expressions_mean_what_the_compiler_says(void **state)
{
	check_program("gcc -g -o @/loc_c" SOURCE);
	check_program("gcc -O2 -g -o @/loc_c" SOURCE);
	check_program("gcc -g -gdwarf-4 -fdebug-types-section -o @/loc_c" SOURCE);
	check_program("clang -g -fstandalone-debug -o @/loc_c" SOURCE);
}

static void classes_and_containers_mean_what_the_compiler_says(void **state)
{
	static const char *const compilers[] = { "g++ -std=c++17 -g", "g++ -std=c++17 -O2 -g",
						 "g++ -std=c++17 -gdwarf-4",
						 "clang++ -std=c++17 -g -fstandalone-debug" };

	for (size_t i = 0; i < 4; i++) {
		char command[256];

		snprintf(command, sizeof(command), "%s -o @/loc_c tests/victims/loc_expr.cc", compilers[i]);
		check_program(command);
	}
}

static void start(struct bench *b, const char *command)
{
	victim_build(command);
	bench_start(b, "loc_c");
}

#define START_C(b) start(b, "gcc -g -o @/loc_c" SOURCE)
#define START_CXX(b) start(b, "g++ -std=c++17 -g -o @/loc_c tests/victims/loc_expr.cc")

/* What --follow needs: the cell of each pointer that was read, and of no other. */
static void expect_pointers(struct bench *b, const char *expr, const char *first, const char *second)
{
	struct variable v = find(b, expr);
	struct variable cell;

	assert_int_equal(v.npointers, !!first + !!second);
	for (unsigned int i = 0; i < v.npointers; i++) {
		cell = find(b, i ? second : first);
		assert_int_equal(v.pointer[i], cell.addr);
		variable_deinit(&cell);
	}
	variable_deinit(&v);
}

static void pointers_on_the_way_are_told(void **state)
{
	struct bench b;

	START_C(&b);
	expect_pointers(&b, "((struct conn *)opaque)->id", "opaque", NULL);
	expect_pointers(&b, "((struct conn *)handle)->id", "handle", NULL);
	expect_pointers(&b, "*(cursor + 3)", "cursor", NULL);
	expect_pointers(&b, "cursor[i].id", "cursor", NULL);
	expect_pointers(&b, "*(cursor + -(-3))", "cursor", NULL);
	expect_pointers(&b, "*(cursor + (i/2))", "cursor", NULL);
	expect_pointers(&b, "*&cursor->id", "cursor", NULL);
	expect_pointers(&b, "lists[1]->id", "lists", "list[1]");
	expect_pointers(&b, "((struct conn **)lists)[1]->id", "lists", "list[1]");
	expect_pointers(&b, "*number@3", "number", NULL);
	expect_pointers(&b, "*(numbers + 3)", NULL, NULL);
	expect_pointers(&b, "*&numbers[i]", NULL, NULL);
	bench_stop(&b);
}

static void a_null_pointer_on_the_way_is_waited_for(void **state)
{
	struct variable v = { 0 };
	struct wc_error *err;
	struct bench b;

	START_C(&b);
	err = locate(b.l, "((struct conn *)nothing + 1)->id", &b.modules, &b.mem, &v, NULL);
	assert_non_null(err);
	wc_error_free(err);
	assert_true(v.null_pointer);
	assert_int_equal(v.npointers, 1);
	bench_stop(&b);
}

static void expect_named(struct bench *b, const char *expr, const char *name, const char *type)
{
	struct variable v = find(b, expr), again;

	assert_string_equal(v.name, name);
	assert_string_equal(v.type.name, type);
	again = find(b, v.name);
	assert_int_equal(v.addr, again.addr);
	assert_int_equal(v.size, again.size);
	variable_deinit(&again);
	variable_deinit(&v);
}

/* A variable that was read once is a number in the name. */
static void names_are_expressions_again(void **state)
{
	struct bench b;

	START_C(&b);
	expect_named(&b, "((struct conn*) opaque) -> id", "((struct conn *)opaque)->id", "int");
	expect_named(&b, "*(cursor + i)", "*(cursor+2)", "struct conn");
	expect_named(&b, "numbers[i]", "numbers[2]", "int");
	expect_named(&b, "numbers[1]@i", "numbers[1]@2", "int [2]");
	expect_named(&b, "(numbers[1]@4)[i + 1]", "(numbers[1]@4)[3]", "int");
	expect_named(&b, "*(struct conn **)&list[1]", "*(struct conn **)&list[1]", "struct conn *");
	expect_named(&b, "*((struct conn **)lists - negative)", "*((struct conn **)lists-(-1))",
		     "struct conn *");
	expect_named(&b, "*&i", "*&i", "int");
	expect_named(&b, "'loc_expr.c'::numbers[1]", "loc_expr.c:numbers[1]", "int");
	bench_stop(&b);
}

static void what_is_no_place_says_what_to_write(void **state)
{
	struct bench b;

	START_C(&b);
	expect_refusal(&b, "&i", WC_ENAME, "'&i' is an address|omit the '&': 'i'");
	expect_refusal(&b, "&cursor->id", WC_ENAME, "'cursor->id'");
	expect_refusal(&b, "cursor + 3", WC_ENAME, "'cursor+3' is an address|'*(cursor+3)'");
	expect_refusal(&b, "numbers + 3", WC_ENAME, "'*(numbers+3)'");
	expect_refusal(&b, "(int *)opaque", WC_ENAME, "'*((int *)opaque)'");
	expect_refusal(&b, "i + 3", WC_ENAME, "'i+3' is a number, 5|SIZE");
	expect_refusal(&b, "sizeof(i)", WC_ENAME, "a number, 4");
	expect_refusal(&b, "(long)i", WC_ENAME, "a number, 2");
	expect_refusal(&b, "-i", WC_ENAME, "a number, -2");
	expect_refusal(&b, "(i/2)", WC_ENAME, "a number, 1");
	expect_refusal(&b, "numbers[(unsigned long)negative]", WC_ENAME,
		       "18446744073709551615|signed numbers of 64 bits");
	expect_refusal(&b, "*(void *)opaque", WC_ENAME, "'void *'|0x...:SIZE");
	expect_refusal(&b, "*((void *)opaque + 8)", WC_ENAME, "'void *'|0x...:SIZE");
	expect_refusal(&b, "*(4096)", WC_ENAME, "0x1000:SIZE");
	expect_refusal(&b, "&bits.field", WC_ENAME, "bit field");
	expect_refusal(&b, "&&i", WC_ENAME, "'&i' is an address");
	expect_refusal(&b, "(&i).x", WC_ENAME, "(&i)->x");
	expect_refusal(&b, "(struct conn)i", WC_ENAME, "*(struct conn *)&i");
	expect_refusal(&b, "((struct conn *)i)->id", WC_ENAME, "'i' has 4 bytes");
	expect_refusal(&b, "((struct conn *)real)->id", WC_ENAME, "neither a pointer nor a number");
	expect_refusal(&b, "((struct none *)opaque)->id", WC_ENAME, "'struct none'|-s SIZE");
	expect_refusal(&b, "numbers[real]", WC_ENAME, "'real'|not a whole number");
	expect_refusal(&b, "numbers[cursor]", WC_ENAME, "not a whole number");
	expect_refusal(&b, "numbers[none]", WC_ENAME, "'none'");
	expect_refusal(&b, "numbers[i / (i - 2)]", WC_ENAME, "divided by 0");
	expect_refusal(&b, "numbers[i + 9]", WC_ENAME, "10 elements|[11]");
	expect_refusal(&b, "numbers[1]@0", WC_ENAME, "write 1 or more");
	expect_refusal(&b, "(numbers[1]@4)[4]", WC_ENAME, "4 elements");
	expect_refusal(&b, "(&i)@2", WC_ENAME, "'@'");
	expect_refusal(&b, "*(int *)0x10", WC_ENAME, "0x10|not mapped");
	expect_refusal(&b, "i[sizeof(struct none)]", WC_ENAME, "'struct none'");
	bench_stop(&b);
}

/* Each thread has its own: a place in it is one, and what a pointer of it leads to, or a value, is not. */
static void thread_local_variables_stay_with_their_threads(void **state)
{
	static const char *const same[] = { "mine[2]",	      "*(mine + i)",	    "*&mine[2]",
					    "(mine[1]@3)[1]", "*((int *)mine + 2)", "mine[i]" };
	struct bench b;

	START_C(&b);
	for (size_t k = 0; k < sizeof(same) / sizeof(*same); k++) {
		struct variable v = find(&b, same[k]), whole = find(&b, "mine");

		assert_true(v.thread_local_storage && whole.thread_local_storage);
		assert_int_equal(v.tls.offset, whole.tls.offset + 8);
		assert_int_equal(v.npointers, 0);
		assert_int_equal(v.size, 4);
		variable_deinit(&v);
		variable_deinit(&whole);
	}
	expect_refusal(&b, "((struct conn *)own)->id", WC_ENAME, "'own' is thread-local");
	expect_refusal(&b, "*(own + 1)", WC_ENAME, "'own' is thread-local");
	expect_refusal(&b, "numbers[mine[0]]", WC_ENAME, "'mine[0]' is thread-local");
	bench_stop(&b);
}

static void malformed_ones_have_a_caret(void **state)
{
	static const struct {
		const char *text, *expected;
		unsigned int column;
	} cases[] = {
		{ "a[1 +]", "a number or the name of a variable", 6 },
		{ "a[b", "']'", 4 },
		{ "a[1:2]", "one element", 3 },
		{ "*(p +", "a number or the name of a variable", 6 },
		{ "p@", "a number or the name of a variable", 3 },
		{ "a[4 / 0]", "a number that is not 0", 7 },
		{ "(struct s *)", "the name of a variable", 13 },
		{ "*(int (*)[3])p", "*(T *)p@n", 7 },
		{ "'file.c'::", "the name of a variable", 11 },
		{ "&", "the name of a variable", 2 },
		{ "sizeof", "the name of a variable", 7 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct locate_expr e;
		struct wc_error *err = locate_parse(cases[i].text, &e);
		char caret[64];

		if (!err)
			fail_msg("%s is accepted", cases[i].text);
		assert_int_equal(err->kind, WC_EUSAGE);
		snprintf(caret, sizeof(caret), "column %u of", cases[i].column);
		if (!strstr(err->text, cases[i].expected) || !strstr(err->text, caret))
			fail_msg("%s", err->text);
		wc_error_free(err);
	}
}

static void what_classes_do_not_say_is_an_error(void **state)
{
	struct bench b;

	START_CXX(&b);
	expect_refusal(&b, "((Derived *)virt)->dd", WC_ENAME, "virtual base class|0x...:SIZE");
	expect_refusal(&b, "((Base *)&twice)->bb", WC_ENAME, "more than once");
	expect_refusal(&b, "tree[1]", WC_ENAME, "map<int|-s SIZE|'tree._M_t._M_impl._M_node_count'");
	expect_refusal(&b, "empty->dd", WC_ENAME, "null pointer");
	expect_refusal(&b, "vec[3]", WC_ENAME, "3 elements");
	expect_refusal(&b, "up[1]", WC_ENAME, "found by an index");
	expect_shown(&b, "tree._M_t._M_impl._M_node_count", "size_t", "1");
	expect_pointers(&b, "vec[index_of]", "vec._M_impl._M_start", NULL);
	expect_pointers(&b, "((Derived *)base)->dd", "base", NULL);
	bench_stop(&b);
}

/* What lies at its address is a neighbour, but for an array at the end of what is allocated longer. */
static void a_variable_of_size_0_is_refused(void **state)
{
	static const char *const compilers[] = { "gcc", "clang" };

	for (size_t i = 0; i < 2; i++) {
		char command[1024];
		struct bench b;

		snprintf(
			command, sizeof(command),
			"printf '#include \"tests/victims/loc_show.h\"\n#include <stdlib.h>\n"
			"struct none {} e0, es[3]; int z[0], rows[0][3], columns[3][0]; int (*to)[0];\n"
			"struct tail { int n; char flex[0]; } *tail; struct none *np = &e0; int next;\n"
			"int main(void) { tail = malloc(16); to = malloc(16); SHOW(next); SHOW(tail->flex[2]); "
			"SHOW((*to)[1]); SHOW(tail->n); show_done(); return z == (int *)es; }' >@/main.c && "
			"%s -g -I. -o @/loc_c @/main.c",
			compilers[i]);
		victim_build(command);
		bench_start(&b, "loc_c");
		check_all_shown(&b);
		expect_refusal(&b, "e0", WC_ENAME, "The size of 'e0' is 0");
		expect_refusal(&b, "es", WC_ENAME, "The size of 'es' is 0");
		expect_refusal(&b, "es[1]", WC_ENAME, "The size of 'es[1]' is 0");
		expect_refusal(&b, "*np", WC_ENAME, "The size of '*np' is 0");
		expect_refusal(&b, "z", WC_ENAME, "The size of 'z' is 0");
		expect_refusal(&b, "z[0]", WC_ENAME, "'z' has no elements: [0] is none");
		expect_refusal(&b, "rows[0][1]", WC_ENAME, "'rows' has no elements: [0]");
		expect_refusal(&b, "columns", WC_ENAME, "The size of 'columns' is 0");
		expect_refusal(&b, "columns[1][0]", WC_ENAME, "'columns[1]' has no elements: [0]");
		bench_stop(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expressions_mean_what_the_compiler_says),
		cmocka_unit_test(classes_and_containers_mean_what_the_compiler_says),
		cmocka_unit_test(pointers_on_the_way_are_told),
		cmocka_unit_test(a_null_pointer_on_the_way_is_waited_for),
		cmocka_unit_test(names_are_expressions_again),
		cmocka_unit_test(what_is_no_place_says_what_to_write),
		cmocka_unit_test(thread_local_variables_stay_with_their_threads),
		cmocka_unit_test(malformed_ones_have_a_caret),
		cmocka_unit_test(what_classes_do_not_say_is_an_error),
		cmocka_unit_test(a_variable_of_size_0_is_refused),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
