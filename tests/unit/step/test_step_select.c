/* Which functions are recorded, stepped over, or left alone; with a planner that knows what the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "watchctl/step/model/step_select.h"
#include "watchctl/step/model/track.h"

#define OK(call) assert_null(call)
#define PROGRAM 0x400000u
#define OWN_LIB 0x500000u
#define LIBC 0x700000u

static const struct planner_function program_functions[] = {
	{ .address = 0x401000, .size = 16, .name = "main" },
	{ .address = 0x401100, .size = 32, .name = "net_open(int, char const*)" },
	{ .address = 0x401200, .size = 32, .name = "net_close" },
	{ .address = 0x402000, .size = 16, .name = "malloc", .is_stub = true },
	{ .address = 0x402010, .size = 16, .name = "own_work", .is_stub = true },
	{ .address = 0x402020, .size = 16, .name = "longjmp", .is_stub = true },
	{ .address = 0x700100, .size = 64, .name = "strcmp", .by_pointer = true },
};

static const struct planner_function lib_functions[] = {
	{ .address = 0x501000, .size = 16, .name = "own_work" },
	{ .address = 0x502000, .size = 16, .name = "malloc", .is_stub = true },
};

static const struct planner_function libc_functions[] = {
	{ .address = 0x700000, .size = 64, .name = "malloc" },
	{ .address = 0x700100, .size = 64, .name = "strcmp" },
};

static struct wc_error *functions(struct planner *p, const struct module *m, bool stubs,
				  struct planner_list *ret)
{
	const struct {
		uint64_t start;
		const struct planner_function *v;
		size_t n;
	} known[] = { { PROGRAM, program_functions,
			sizeof(program_functions) / sizeof(program_functions[0]) },
		      { OWN_LIB, lib_functions, sizeof(lib_functions) / sizeof(lib_functions[0]) },
		      { LIBC, libc_functions, sizeof(libc_functions) / sizeof(libc_functions[0]) } };
	size_t i, j;

	for (i = 0; i < 3; i++) {
		if (known[i].start != m->start)
			continue;
		ret->v = calloc(known[i].n, sizeof(*ret->v));
		for (j = 0; j < known[i].n; j++)
			if (stubs || !(known[i].v[j].is_stub || known[i].v[j].by_pointer))
				ret->v[ret->n++] = known[i].v[j];
	}
	return NULL;
}

static const struct planner_ops ops = { .name = "script", .functions = functions };

static struct module mapped[] = {
	{ .start = PROGRAM, .end = PROGRAM + 0x10000, .path = (char *)"/opt/app/server" },
	{ .start = OWN_LIB, .end = OWN_LIB + 0x10000, .path = (char *)"/opt/app/libown.so.2.1" },
	{ .start = LIBC, .end = LIBC + 0x10000, .path = (char *)"/lib/x86_64-linux-gnu/libc.so.6" },
};

struct scene {
	struct step_selection selection;
	struct step_select *s;
	const struct step_point *p;
	const struct step_chosen *chosen;
	size_t n;
};

static void update(struct scene *c, size_t nmodules)
{
	const struct module_list l = { mapped, nmodules, nmodules };

	if (!c->s)
		c->s = step_select_new(&c->selection, &ops, NULL);
	assert_non_null(c->s);
	OK(step_select_update(c->s, &l, &c->p, &c->chosen, &c->n));
}

/* 'F' recorded, 'O' stepped over, '-' neither. */
static char use_of(const struct scene *c, uint64_t address)
{
	size_t i;

	for (i = 0; i < c->n; i++) {
		assert_int_equal(c->p[i].address, c->chosen[i].address);
		if (c->p[i].address == address)
			return c->p[i].use == POINT_FUNCTION ? 'F' : 'O';
	}
	return '-';
}

static bool is_code(const struct scene *c, uint64_t address)
{
	size_t n, i;
	const struct stepper_code *code = step_select_code(c->s, &n);

	for (i = 0; i < n; i++)
		if (address >= code[i].start && address < code[i].end)
			return true;
	return false;
}

static void test_program_and_own_libraries_are_recorded_the_system_stepped_over(void **state)
{
	struct scene c = { 0 };

	update(&c, 3);
	assert_int_equal(use_of(&c, 0x401000), 'F');
	assert_int_equal(use_of(&c, 0x501000), 'F');
	assert_int_equal(use_of(&c, 0x402000), 'O'); /* malloc, from each of the two */
	assert_int_equal(use_of(&c, 0x502000), 'O');
	assert_int_equal(use_of(&c, 0x700100), 'O'); /* by a pointer */
	assert_int_equal(use_of(&c, 0x700000), '-'); /* libc's own calls of malloc cost nothing */
	assert_int_equal(use_of(&c, 0x402010), '-'); /* own_work is recorded where it begins */
	assert_true(is_code(&c, 0x401010) && is_code(&c, 0x501010) && !is_code(&c, 0x700010));
	step_select_free(c.s);
}

static void test_the_way_a_function_leaves_goes_with_its_point(void **state)
{
	struct scene c = { 0 };
	size_t i;

	update(&c, 3);
	for (i = 0; i < c.n; i++)
		assert_int_equal(c.p[i].leaves, c.p[i].address == 0x402020 ? TRACK_JUMPS : TRACK_NORMAL);
	step_select_free(c.s);
}

static void test_only_takes_names_without_their_parameters(void **state)
{
	char *only[] = { (char *)"net_*", NULL };
	struct scene c = { .selection = { .only = only } };

	update(&c, 3);
	assert_int_equal(use_of(&c, 0x401100), 'F');
	assert_int_equal(use_of(&c, 0x401200), 'F');
	assert_int_equal(use_of(&c, 0x401000), '-');
	assert_int_equal(use_of(&c, 0x501000), '-');
	/* What they call in the system is recorded, what main calls there is not. */
	assert_int_equal(use_of(&c, 0x402000), 'O');
	assert_true(is_code(&c, 0x401110) && !is_code(&c, 0x401008));
	step_select_free(c.s);
}

static void test_a_module_is_chosen_by_its_name_up_to_the_version(void **state)
{
	char *modules[] = { (char *)"libown", NULL };
	struct scene c = { .selection = { .modules = modules } };

	update(&c, 3);
	assert_int_equal(use_of(&c, 0x501000), 'F');
	assert_int_equal(use_of(&c, 0x401000), '-');
	step_select_free(c.s);
}

static void test_step_over_and_step_into_change_the_default(void **state)
{
	char *over[] = { (char *)"libown.so*", (char *)"net_close", NULL };
	char *into[] = { (char *)"libc", NULL };
	struct scene c = { .selection = { .over = over, .into = into } };

	update(&c, 3);
	assert_int_equal(use_of(&c, 0x501000), '-');
	assert_int_equal(use_of(&c, 0x402010), 'O'); /* own_work by the program's stub */
	assert_int_equal(use_of(&c, 0x401200), 'O');
	assert_int_equal(use_of(&c, 0x700000), 'F');
	assert_int_equal(use_of(&c, 0x402000), '-'); /* malloc is recorded where it begins */
	step_select_free(c.s);
}

static void test_skipped_functions_have_no_point_whatever_else_is_said_of_them(void **state)
{
	char *skip[] = { (char *)"net_*", (char *)"strcmp", (char *)"own_work", NULL };
	char *into[] = { (char *)"net_open", NULL };
	struct scene c = { .selection = { .into = into, .skip = skip } };

	update(&c, 3);
	assert_int_equal(use_of(&c, 0x401000), 'F');
	assert_int_equal(use_of(&c, 0x401100), '-');
	assert_int_equal(use_of(&c, 0x401200), '-');
	assert_int_equal(use_of(&c, 0x700100), '-'); /* by a pointer */
	assert_int_equal(use_of(&c, 0x501000), '-'); /* nor by the program's stub: */
	assert_int_equal(use_of(&c, 0x402010), '-');
	assert_int_equal(use_of(&c, 0x402000), 'O'); /* what they call is recorded as before */
	assert_true(is_code(&c, 0x401110));
	step_select_free(c.s);
}

static void test_libraries_that_come_later_add_points_and_known_ones_are_not_reported_again(void **state)
{
	struct scene c = { 0 };
	size_t functions, over, modules;

	update(&c, 1);
	assert_int_equal(use_of(&c, 0x401000), 'F');
	update(&c, 3);
	assert_int_equal(use_of(&c, 0x401000), '-');
	assert_int_equal(use_of(&c, 0x501000), 'F');
	assert_true(is_code(&c, 0x401010) && is_code(&c, 0x501010));
	update(&c, 1); /* dlclose, dlopen */
	update(&c, 3);
	assert_int_equal(use_of(&c, 0x501000), 'F');
	step_select_count(c.s, &functions, &over, &modules);
	assert_int_equal(modules, 2);
	step_select_free(c.s);
}

static void test_low_level_libraries_are_reported_by_name_whatever_their_version(void **state)
{
	assert_true(step_low_level("/lib/x86_64-linux-gnu/libc.so.6"));
	assert_true(step_low_level("/usr/lib/libstdc++.so.6.0.30"));
	assert_true(step_low_level("/lib/libc-2.31.so"));
	assert_true(step_low_level("/lib64/ld-linux-x86-64.so.2"));
	assert_true(step_low_level("[vdso]"));
	assert_false(step_low_level("/usr/lib/libcurl.so.4"));
	assert_false(step_low_level("/usr/lib/libcrypto.so.3"));
	assert_false(step_low_level("/opt/libc/server"));
	assert_false(step_low_level("/usr/lib/libmagic.so.1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_program_and_own_libraries_are_recorded_the_system_stepped_over),
		cmocka_unit_test(test_the_way_a_function_leaves_goes_with_its_point),
		cmocka_unit_test(test_only_takes_names_without_their_parameters),
		cmocka_unit_test(test_a_module_is_chosen_by_its_name_up_to_the_version),
		cmocka_unit_test(test_step_over_and_step_into_change_the_default),
		cmocka_unit_test(test_skipped_functions_have_no_point_whatever_else_is_said_of_them),
		cmocka_unit_test(
			test_libraries_that_come_later_add_points_and_known_ones_are_not_reported_again),
		cmocka_unit_test(test_low_level_libraries_are_reported_by_name_whatever_their_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
