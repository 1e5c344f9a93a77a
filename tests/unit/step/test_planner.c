/*
 * What the planner says about real programs, against what these say about themselves; and which functions it
 * lists, against their symbol tables.
 */
#include "tests/unit/plan_victim.h"

#define C_VALUES 134u
#define CPP_VALUES 43u

static struct plan_score score_of(const char *compile)
{
	static struct plan_run r;
	struct plan_score s;
	char path[256], output[256];

	victim_build(compile);
	snprintf(path, sizeof(path), "%s/victim", victim_dir);
	snprintf(output, sizeof(output), "%s/output", victim_dir);
	run_victim(&r, path, output);
	s = run_compare(&r, output);
	run_end(&r);
	assert_int_equal(s.wrong, 0);
	return s;
}

/* Without optimisation each parameter, result and pointee is there. */
static void every_value_of_plain_c_is_fetched(void **state)
{
	(void)state;
	assert_int_equal(score_of("gcc -g -O0 -o @/victim tests/victims/plan_c.c").right, C_VALUES);
	assert_int_equal(score_of("gcc -gdwarf-4 -O0 -o @/victim tests/victims/plan_c.c").right, C_VALUES);
	assert_int_equal(score_of("clang -g -O0 -o @/victim tests/victims/plan_c.c").right, C_VALUES);
}

/* With it, what is shown is right; what compilers leave out of functions of their own is said to be left out.
 */
static void optimised_c_shows_nothing_wrong(void **state)
{
	static const char *const compile[] = {
		"gcc -g -Og -o @/victim tests/victims/plan_c.c",
		"gcc -g -O1 -o @/victim tests/victims/plan_c.c",
		"gcc -g -O2 -o @/victim tests/victims/plan_c.c",
		"gcc -g -O3 -march=native -fomit-frame-pointer -o @/victim tests/victims/plan_c.c",
		"clang -g -O1 -o @/victim tests/victims/plan_c.c",
		"clang -g -O2 -o @/victim tests/victims/plan_c.c",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(compile) / sizeof(compile[0]); i++) {
		struct plan_score s = score_of(compile[i]);

		assert_true(s.right >= C_VALUES * 9 / 10);
		assert_true(s.missing <= 4);
		assert_int_equal(s.right + s.optimized_out + s.missing, C_VALUES);
	}
}

/* All but main is local then, and most of it varied. */
static void c_optimised_as_a_whole_shows_nothing_wrong(void **state)
{
	(void)state;
	assert_true(score_of("gcc -g -O2 -flto -o @/victim tests/victims/plan_c.c").right >=
		    C_VALUES * 8 / 10);
	assert_true(score_of("gcc -g -O2 -fwhole-program -o @/victim tests/victims/plan_c.c").right >=
		    C_VALUES * 8 / 10);
}

static void cpp_objects_are_found_where_they_are_passed(void **state)
{
	static const char *const compile[] = {
		"g++ -g -O0 -o @/victim tests/victims/plan_cpp.cc",
		"g++ -g -Og -o @/victim tests/victims/plan_cpp.cc",
		"clang++ -g -O1 -o @/victim tests/victims/plan_cpp.cc",
		"clang++ -g -O2 -o @/victim tests/victims/plan_cpp.cc",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(compile) / sizeof(compile[0]); i++)
		assert_int_equal(score_of(compile[i]).right, CPP_VALUES);
}

/* Here some go the way of the compiler's own variants, or through classes that are only declared. */
static void cpp_shows_nothing_wrong_where_it_cannot_know(void **state)
{
	(void)state;
	assert_true(score_of("g++ -g -O2 -o @/victim tests/victims/plan_cpp.cc").missing <= 4);
	assert_true(score_of("clang++ -g -O0 -o @/victim tests/victims/plan_cpp.cc").missing <= 1);
}

/* Listing */

struct listed {
	struct module_list modules;
	struct planner *planner;
	struct planner_list list;
	struct victim victim;
};

/* Builds a program that waits for its stdin, and lists it. */
static void list_victim(struct listed *l, const char *compile, bool stubs)
{
	struct planner_options o = { .string_max = 64, .pointee_max = 64 };
	char path[256];

	memset(l, 0, sizeof(*l));
	victim_build(compile);
	victim_start(&l->victim, "victim");
	o.memory = (struct memory_view){ victim_read, &l->victim };
	snprintf(path, sizeof(path), "%s/victim", victim_dir);
	assert_null(planner_lldb.open(path, &o, &l->planner));
	assert_null(module_list_read(l->victim.pid, &l->modules));
	assert_null(planner_lldb.set_modules(l->planner, &l->modules));
	assert_null(planner_lldb.functions(l->planner, module_by_name(&l->modules, path), stubs, &l->list));
}

static void end_listed(struct listed *l)
{
	free(l->list.v);
	planner_lldb.close(l->planner);
	module_list_deinit(&l->modules);
	victim_stop(&l->victim);
}

static const struct planner_function *listed_named(const struct listed *l, const char *name)
{
	for (size_t i = 0; i < l->list.n; i++)
		if (l->list.v[i].name && strcmp(l->list.v[i].name, name) == 0)
			return &l->list.v[i];
	return NULL;
}

static const struct planner_function *listed_at(const struct listed *l, uint64_t addr)
{
	for (size_t i = 0; i < l->list.n; i++)
		if (l->list.v[i].address == addr)
			return &l->list.v[i];
	return NULL;
}

static const struct function_plan *plan_of(struct listed *l, const char *name, bool over)
{
	const struct planner_function *f = listed_named(l, name);
	const struct function_plan *plan = NULL;

	assert_non_null(f);
	assert_null(planner_lldb.plan(l->planner, f->address, over, &plan));
	return plan;
}

/* The victim reports the addresses of its functions: "name TAB address TAB 1", and of what is none: "!name". */
static void check_shown(const struct listed *l, bool named)
{
	for (size_t i = 0; i < l->victim.n; i++) {
		const struct shown *s = &l->victim.shown[i];
		const struct planner_function *f = listed_at(l, s->addr);

		if (s->expr[0] == '!') {
			assert_null(f);
			continue;
		}
		assert_non_null(f);
		assert_false(f->is_stub);
		if (named)
			assert_string_equal(f->name, s->expr);
	}
	for (size_t i = 1; i < l->list.n; i++)
		assert_true(l->list.v[i - 1].address < l->list.v[i].address);
}

static void functions_are_listed_and_labels_are_not(void **state)
{
	struct listed l;

	(void)state;
	list_victim(&l, "gcc -g -O2 -o @/victim tests/victims/plan_lists.c", false);
	check_shown(&l, true);
	for (size_t i = 0; i < l.list.n; i++)
		assert_null(l.list.v[i].name ? strstr(l.list.v[i].name, ".cold") : NULL);
	assert_null(listed_named(&l, "_start"));
	assert_null(listed_named(&l, "_init"));
	end_listed(&l);
}

static void functions_of_a_stripped_program_have_no_names(void **state)
{
	struct listed l;
	const struct function_plan *plan;

	(void)state;
	list_victim(&l, "gcc -O1 -s -o @/victim tests/victims/plan_lists.c", false);
	check_shown(&l, false);
	/* `read` is exported, for it takes the place of the library's. */
	for (size_t i = 0; i < l.list.n; i++)
		assert_true(!l.list.v[i].name || strcmp(l.list.v[i].name, "read") == 0);
	/* long takes_three(long, long, long), and a double. */
	assert_null(planner_lldb.plan(l.planner, victim_shown(&l.victim, "takes_three")->addr, false, &plan));
	assert_int_equal(plan->function.flags, FUNCTION_NO_TYPES);
	assert_int_equal(plan->function.nparams, 4);
	assert_string_equal(plan->function.param[0].name, "rdi");
	assert_string_equal(plan->function.param[1].name, "rsi");
	assert_string_equal(plan->function.param[2].name, "rdx");
	assert_string_equal(plan->function.param[3].name, "xmm0");
	assert_int_equal(planner_lldb.type(l.planner, plan->function.param[3].type)->kind, TYPE_REGISTER);
	assert_int_equal(plan->plan.entry.v[3].op, FETCH_XMM);
	end_listed(&l);
}

static void check_import(struct listed *l, const char *name, bool is_stub)
{
	const struct planner_function *f = listed_named(l, name);

	assert_non_null(f);
	assert_int_equal(f->is_stub, is_stub);
	assert_int_equal(f->by_pointer, !is_stub);
}

static void calls_to_libraries_are_listed_by_stub_or_pointer(void **state)
{
	static const char *const stubs[] = {
		"gcc -O1 -o @/victim tests/victims/plan_lists.c",
		"gcc -O1 -fcf-protection=full -Wl,-z,ibtplt -o @/victim tests/victims/plan_lists.c",
		"gcc -O1 -Wl,-z,now -s -o @/victim tests/victims/plan_lists.c",
		"gcc -O1 -no-pie -o @/victim tests/victims/plan_lists.c",
	};
	struct listed l;

	(void)state;
	for (size_t i = 0; i < sizeof(stubs) / sizeof(stubs[0]); i++) {
		list_victim(&l, stubs[i], true);
		check_import(&l, "getppid", true);
		check_import(&l, "unsetenv", true);
		end_listed(&l);
	}
	list_victim(&l, "gcc -O1 -fno-plt -o @/victim tests/victims/plan_lists.c", true);
	check_import(&l, "getppid", false);
	check_import(&l, "strtol", false);
	/* The address that the program itself sees. */
	assert_int_equal(listed_named(&l, "strtol")->address, victim_shown(&l.victim, "!strtol")->addr);
	end_listed(&l);
}

static void a_known_function_is_planned_by_its_prototype(void **state)
{
	const struct function_plan *plan;
	struct listed l;

	(void)state;
	list_victim(&l, "gcc -O1 -o @/victim tests/victims/plan_lists.c", true);
	plan = plan_of(&l, "unsetenv", true);
	assert_int_equal(plan->function.flags, FUNCTION_OVER | FUNCTION_PROTOTYPE);
	assert_non_null(strstr(plan->function.module, "libc"));
	assert_int_not_equal(plan->function.address, 0);
	assert_int_equal(plan->function.nparams, 1);
	assert_string_equal(plan->function.param[0].name, "name");
	assert_int_equal(planner_lldb.type(l.planner, plan->function.param[0].type)->kind, TYPE_STRING);
	assert_int_equal(plan->plan.entry.v[plan->recipe[0].to].op, FETCH_STRING);
	assert_int_equal(planner_lldb.type(l.planner, plan->function.return_type)->size, 4);
	assert_int_equal(plan->fails, FAILS_MINUS_ONE);
	assert_int_equal(plan->plan.leave.v[plan->plan.leave.n - 1].op, FETCH_ERRNO);
	end_listed(&l);
}

/* The victim has a function `read` of its own, which is not that of the manual. */
static void an_own_function_with_a_famous_name_is_not_planned_by_the_manual(void **state)
{
	const struct function_plan *plan;
	struct listed l;

	(void)state;
	list_victim(&l, "gcc -O1 -o @/victim tests/victims/plan_lists.c", true);
	plan = plan_of(&l, "read", false);
	assert_int_equal(plan->function.flags, FUNCTION_NO_TYPES);
	plan = plan_of(&l, "read", true);
	assert_int_equal(plan->function.flags, FUNCTION_NO_TYPES | FUNCTION_OVER);
	end_listed(&l);
}

static void indirect_functions_of_a_static_program_have_their_names(void **state)
{
	const struct planner_function *f = NULL;
	struct listed l;

	(void)state;
	list_victim(&l, "gcc -O1 -static -o @/victim tests/victims/plan_lists.c", true);
	for (size_t i = 0; i < l.list.n; i++)
		if (l.list.v[i].is_stub && l.list.v[i].name && strcmp(l.list.v[i].name, "memcpy") == 0)
			f = &l.list.v[i];
	assert_non_null(f);
	end_listed(&l);
}

/* Types */

static void types_are_reported_once_and_parts_before_wholes(void **state)
{
	const struct type_event *t;
	struct listed l;
	uint32_t id;

	(void)state;
	list_victim(&l, "gcc -g -O1 -o @/victim tests/victims/plan_lists.c", false);
	for (size_t i = 0; i < l.list.n; i++) {
		const struct function_plan *plan;

		assert_null(planner_lldb.plan(l.planner, l.list.v[i].address, false, &plan));
	}
	for (id = 0; (t = planner_lldb.type(l.planner, id)); id++) {
		assert_int_equal(t->id, id);
		for (uint32_t k = 0; k < t->nmembers; k++)
			assert_true(t->member[k].type < id);
		for (uint32_t k = 0; k < id; k++) {
			const struct type_event *o = planner_lldb.type(l.planner, k);

			assert_false(t->name && o->name && strcmp(t->name, o->name) == 0 &&
				     t->target == o->target);
		}
	}
	assert_true(id > 5);
	end_listed(&l);
}

/* Offsets as the compiler has them, by offsetof(). */
static void a_struct_is_reported_as_the_compiler_lays_it_out(void **state)
{
	const struct type_event *t, *pointer;
	struct listed l;

	(void)state;
	list_victim(&l, "gcc -g -O1 -o @/victim tests/victims/plan_lists.c", false);
	pointer = planner_lldb.type(l.planner, plan_of(&l, "takes_tree", false)->function.param[0].type);
	assert_string_equal(pointer->name, "struct tree *");
	assert_int_equal(pointer->kind, TYPE_POINTER);
	t = planner_lldb.type(l.planner, pointer->target);
	assert_string_equal(t->name, "struct tree");
	assert_int_equal(t->size, victim_shown(&l.victim, "!sizeof tree")->addr);
	assert_int_equal(t->nmembers, 6);
	assert_string_equal(t->member[1].name, "left");
	assert_int_equal(t->member[1].offset, victim_shown(&l.victim, "!tree.left")->addr);
	assert_int_equal(planner_lldb.type(l.planner, t->member[1].type)->target, NO_TYPE);
	assert_string_equal(t->member[3].name, "low");
	assert_int_equal(t->member[3].bit_size, 5);
	assert_int_equal(t->member[4].bit_offset, 5);
	assert_int_equal(t->member[4].offset, t->member[3].offset);
	assert_string_equal(t->member[5].name, "values");
	assert_int_equal(t->member[5].offset, victim_shown(&l.victim, "!tree.values")->addr);
	t = planner_lldb.type(l.planner, t->member[5].type);
	assert_int_equal(t->kind, TYPE_ARRAY);
	assert_int_equal(t->size, 12);
	assert_int_equal(planner_lldb.type(l.planner, t->target)->size, 4);
	end_listed(&l);
}

static void a_program_that_is_none_is_an_error_with_a_reason(void **state)
{
	struct planner_options o = { .string_max = 64 };
	struct planner *p;
	struct wc_error *err;

	(void)state;
	err = planner_lldb.open("/nonexistent", &o, &p);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ETARGET);
	assert_non_null(strstr(err->text, "/nonexistent"));
	wc_error_free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_value_of_plain_c_is_fetched),
		cmocka_unit_test(optimised_c_shows_nothing_wrong),
		cmocka_unit_test(c_optimised_as_a_whole_shows_nothing_wrong),
		cmocka_unit_test(cpp_objects_are_found_where_they_are_passed),
		cmocka_unit_test(cpp_shows_nothing_wrong_where_it_cannot_know),
		cmocka_unit_test(functions_are_listed_and_labels_are_not),
		cmocka_unit_test(functions_of_a_stripped_program_have_no_names),
		cmocka_unit_test(calls_to_libraries_are_listed_by_stub_or_pointer),
		cmocka_unit_test(a_known_function_is_planned_by_its_prototype),
		cmocka_unit_test(an_own_function_with_a_famous_name_is_not_planned_by_the_manual),
		cmocka_unit_test(indirect_functions_of_a_static_program_have_their_names),
		cmocka_unit_test(types_are_reported_once_and_parts_before_wholes),
		cmocka_unit_test(a_struct_is_reported_as_the_compiler_lays_it_out),
		cmocka_unit_test(a_program_that_is_none_is_an_error_with_a_reason),
	};

	if (strcmp(lldb_shim_version(), "none") == 0) {
		print_message("skipped: built without LLDB\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
