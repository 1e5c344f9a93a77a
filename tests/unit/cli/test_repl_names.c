/* Names that an expression can go on with, for completion: against what the victims' sources declare. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/code/locate/names.h"

#include "tests/unit/loc_victim.h"

#define C_SOURCES " tests/victims/loc_c.c tests/victims/loc_c2.c"

struct list {
	char text[8192];
	size_t n, most;
};

static bool each(void *ctx, const char *name)
{
	struct list *l = ctx;

	if (l->n++ && strlen(l->text) + strlen(name) + 2 < sizeof(l->text))
		strcat(l->text, " ");
	if (strlen(l->text) + strlen(name) + 1 < sizeof(l->text))
		strcat(l->text, name);
	return l->n != l->most;
}

static struct list list_of(const char *file, const char *prefix, enum names_of what)
{
	struct list l = { 0 };
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", victim_dir, file);
	assert_null(names_list(0, path, prefix, what, 1000, each, &l));
	return l;
}

static void assert_names(const char *file, const char *prefix, enum names_of what, const char *expected)
{
	assert_string_equal(list_of(file, prefix, what).text, expected);
}

/* Whether the list holds the whole word. */
static bool has(const struct list *l, const char *name)
{
	size_t len = strlen(name);

	for (const char *c = l->text; (c = strstr(c, name)); c++)
		if ((c == l->text || c[-1] == ' ') && (c[len] == ' ' || !c[len]))
			return true;
	return false;
}

static void build_c(void)
{
	victim_build("gcc -g -o @/names_c" C_SOURCES);
}

static void test_variables_go_on_by_their_beginning(void **state)
{
	struct list all;

	build_c();
	assert_names("names_c", "he", NAMES_VARIABLES, "head");
	assert_names("names_c", "fla", NAMES_VARIABLES, "flag flags");
	assert_names("names_c", "zzz", NAMES_VARIABLES, "");
	all = list_of("names_c", "", NAMES_VARIABLES);
	assert_true(has(&all, "table") && has(&all, "twin") && has(&all, "per_thread") &&
		    has(&all, "nowhere"));
	assert_false(has(&all, "main")); /* no variable */
}

static void test_members_go_on_behind_dots_and_arrows(void **state)
{
	build_c();
	assert_names("names_c", "first.", NAMES_VARIABLES,
		     "first.half first.len first.next first.wide first.x first.y");
	assert_names("names_c", "first.l", NAMES_VARIABLES, "first.len");
	assert_names("names_c", "head->n", NAMES_VARIABLES, "head->next");
	assert_names("names_c", "head->next->le", NAMES_VARIABLES, "head->next->len");
	assert_names("names_c", "table[2].ha", NAMES_VARIABLES, "table[2].half");
	assert_names("names_c", "bits.", NAMES_VARIABLES, "bits.across bits.high bits.low bits.middle");
	assert_names("names_c", "flag.", NAMES_VARIABLES, "");
	assert_names("names_c", "nosuch->", NAMES_VARIABLES, "");
}

/* Null and wild pointers lead nowhere in the process; their types are known all the same. */
static void test_pointers_are_followed_by_their_types(void **state)
{
	build_c();
	assert_names("names_c", "nowhere->le", NAMES_VARIABLES, "nowhere->len");
	assert_names("names_c", "wild->next->next->y", NAMES_VARIABLES, "wild->next->next->y");
	assert_names("names_c", "(*indirect)->le", NAMES_VARIABLES, "(*indirect)->len");
}

static void test_what_stands_in_front_stays(void **state)
{
	build_c();
	assert_names("names_c", "*hea", NAMES_VARIABLES, "*head");
	assert_names("names_c", "&first.le", NAMES_VARIABLES, "&first.len");
	assert_names("names_c", "loc_c2.c:twi", NAMES_VARIABLES, "loc_c2.c:twin");
	assert_names("names_c", "loc_c.c:twi", NAMES_VARIABLES, "loc_c.c:twin");
	assert_names("names_c", "loc_c2.c:hea", NAMES_VARIABLES, "");
	assert_names("names_c", "names_c:hea", NAMES_VARIABLES, "names_c:head");
}

static void test_functions_are_no_variables(void **state)
{
	build_c();
	assert_names("names_c", "mai", NAMES_FUNCTIONS, "main");
	assert_names("names_c", "second_fi", NAMES_FUNCTIONS, "second_file");
	assert_names("names_c", "second_fi", NAMES_VARIABLES, "");
}

static void test_without_debug_information_symbols_do(void **state)
{
	victim_build("gcc -o @/names_plain" C_SOURCES);
	assert_names("names_plain", "hea", NAMES_VARIABLES, "head");
	assert_names("names_plain", "mai", NAMES_FUNCTIONS, "main");
	assert_names("names_plain", "head->", NAMES_VARIABLES, "");
}

static void test_qualified_names_may_lose_their_scope(void **state)
{
	victim_build("g++ -std=c++17 -g -o @/names_cc tests/victims/loc_cpp.cc");
	assert_names("names_cc", "ns::inner::de", NAMES_VARIABLES, "ns::inner::deep");
	assert_names("names_cc", "dee", NAMES_VARIABLES, "deep");
	assert_names("names_cc", "ns::Counted::inst", NAMES_VARIABLES, "ns::Counted::instances");
}

static void test_members_of_base_classes_come_too(void **state)
{
	struct list l;

	victim_build("g++ -std=c++17 -g -o @/names_bases -x c++ - <<'END'\n"
		     "struct Base { int in_base; }; struct Derived : Base { int own; static int shared; } "
		     "object;\n"
		     "Derived &alias = object;\n"
		     "int main() { return object.own; }\n"
		     "END");
	l = list_of("names_bases", "object.", NAMES_VARIABLES);
	assert_true(has(&l, "object.in_base") && has(&l, "object.own"));
	assert_false(has(&l, "object.shared"));
	assert_names("names_bases", "alias.ow", NAMES_VARIABLES, "alias.own");
}

static void test_the_list_ends_where_it_is_told_to(void **state)
{
	struct list l = { .most = 2 };
	char path[256];

	build_c();
	snprintf(path, sizeof(path), "%s/names_c", victim_dir);
	assert_null(names_list(0, path, "", NAMES_VARIABLES, 1000, each, &l));
	assert_int_equal(l.n, 2);
	l = (struct list){ 0 };
	assert_null(names_list(0, path, "", NAMES_VARIABLES, 3, each, &l));
	assert_int_equal(l.n, 3);
}

static void test_a_process_has_the_names_of_its_program(void **state)
{
	struct list l = { 0 };
	struct victim v;

	build_c();
	victim_start(&v, "names_c");
	assert_null(names_list(v.pid, NULL, "head->ne", NAMES_VARIABLES, 10, each, &l));
	assert_string_equal(l.text, "head->next");
	/* The program has none of that name; a library has. */
	l = (struct list){ 0 };
	assert_null(names_list(v.pid, NULL, "mallo", NAMES_FUNCTIONS, 100, each, &l));
	assert_true(has(&l, "malloc"));
	victim_stop(&v);
}

static void test_what_is_no_program_is_an_error(void **state)
{
	struct list l = { 0 };
	struct wc_error *err = names_list(0, "/nonexistent/program", "", NAMES_VARIABLES, 10, each, &l);

	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENAME);
	wc_error_free(err);
	err = names_list(0, "/etc/passwd", "", NAMES_VARIABLES, 10, each, &l);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENAME);
	wc_error_free(err);
	err = names_list(0, "/dev/zero", "", NAMES_VARIABLES, 10, each, &l);
	assert_non_null(err);
	wc_error_free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variables_go_on_by_their_beginning),
		cmocka_unit_test(test_members_go_on_behind_dots_and_arrows),
		cmocka_unit_test(test_pointers_are_followed_by_their_types),
		cmocka_unit_test(test_what_stands_in_front_stays),
		cmocka_unit_test(test_functions_are_no_variables),
		cmocka_unit_test(test_without_debug_information_symbols_do),
		cmocka_unit_test(test_qualified_names_may_lose_their_scope),
		cmocka_unit_test(test_members_of_base_classes_come_too),
		cmocka_unit_test(test_the_list_ends_where_it_is_told_to),
		cmocka_unit_test(test_a_process_has_the_names_of_its_program),
		cmocka_unit_test(test_what_is_no_program_is_an_error),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
