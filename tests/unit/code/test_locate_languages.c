/*
 * locate in languages whose arrays are not C's: Fortran, Ada, Pascal. The victims say where each variable is
 * (LOC(), 'Address, @), which is the oracle. And languages whose rules are not known, which are refused, not
 * guessed.
 */
#include "tests/unit/loc_bench.h"

#define FORTRAN_SOURCE " tests/victims/loc_fortran.f90"
#define ADA_BUILD "cp tests/victims/loc_ada* @ && cd @ && gnatmake -q "
#define C_LANGUAGE(code)                                                                            \
	"for f in loc_c loc_c2; do gcc -g -dA -S -o @/$f.s tests/victims/$f.c && "                  \
	"sed -i '/DW_AT_language/s/0x1d/" code "/' @/$f.s || exit; done; gcc -o @/loc_c @/loc_c.s " \
	"@/loc_c2.s"

static void fortran_variables_are_where_fortran_says(void **state)
{
	check_program("gfortran -g -J@ -o @/loc_c" FORTRAN_SOURCE);
	check_program("gfortran -g -O2 -J@ -o @/loc_c" FORTRAN_SOURCE);
	check_program("gfortran -gdwarf-4 -J@ -o @/loc_c" FORTRAN_SOURCE);
}

/* dwz moves types to units that do not report their language. */
static void a_shared_unit_does_not_change_the_rules(void **state)
{
	check_program("printf 'struct s { int a; long b[3]; } gs; int f(void) { return gs.a; }' >@/a.c && "
		      "printf 'extern struct s { int a; long b[3]; } gs; int g(void) { return gs.b[1]; }' "
		      ">@/b.c && "
		      "printf 'subroutine other\\nuse store\\nmat(1,3) = one%%id\\nfixed(1,1) = 1\\nend' "
		      ">@/c.f90 && "
		      "gcc -g -c -o @/a.o @/a.c && gcc -g -c -o @/b.o @/b.c && "
		      "gfortran -g -J@ -o @/loc_c" FORTRAN_SOURCE " @/c.f90 @/a.o @/b.o && dwz @/loc_c && "
		      "readelf --debug-dump=info @/loc_c | grep -q DW_TAG_partial_unit");
}

/* "shapes.first::calls", as gdb has it: what follows the dot is no member. */
static void fortran_submodules_are_scopes(void **state)
{
	struct bench b;

	check_program("gfortran -g -O2 -J@ -o @/loc_c tests/victims/loc_submodule.f90");
	victim_build("gfortran -g -J@ -o @/loc_c tests/victims/loc_submodule.f90");
	bench_start(&b, "loc_c");
	check_all_shown(&b);
	expect_refusal(&b, "calls", WC_ENAME, "\n  shapes.first::calls\n  shapes.second::calls");
	expect_refusal(&b, "times", WC_ENAME, "\n  shapes.first::area::times\n  shapes.second::deep::times");
	expect_refusal(&b, "shapes::first::cals", WC_ENAME, "'shapes.first::calls'");
	bench_stop(&b);
}

static void start_fortran(struct bench *b)
{
	victim_build("gfortran -g -J@ -o @/loc_c" FORTRAN_SOURCE);
	bench_start(b, "loc_c");
}

static void fortran_errors_say_what_to_write(void **state)
{
	struct bench b;

	start_fortran(&b);
	expect_refusal(&b, "never(1)", WC_ENAME,
		       "'store::never' currently has no elements|not allocated|--follow");
	expect_refusal(&b, "never", WC_ENAME, "not allocated");
	expect_refusal(&b, "empty", WC_ENAME, "no elements");
	expect_refusal(&b, "nowhere", WC_ENAME, "not associated|--follow");
	expect_refusal(&b, "mat(5,3)", WC_ENAME, "(0,3) .. (4,6)|(5,3) is none");
	expect_refusal(&b, "mat(2,2)", WC_ENAME, "(2,2) is none");
	expect_refusal(&b, "fixed(4,0)", WC_ENAME, "(-1,0) .. (3,2)");
	expect_refusal(&b, "mat(2)", WC_ENAME, "2 dimensions|mat(0,3)");
	expect_refusal(&b, "mat[2][3]", WC_ENAME, "2 dimensions");
	expect_refusal(&b, "mat(1:2,3)", WC_EUSAGE, "a section (a:b) cannot be watched");
	expect_refusal(&b, "name(2:3)", WC_EUSAGE, "a section");
	expect_refusal(&b, "slice", WC_ENAME, "are not contiguous|(1) .. (5)");
	expect_refusal(&b, "one->id", WC_ENAME, "write 'store::one%id'");
	expect_refusal(&b, "one%nothing", WC_ENAME, "no member 'nothing'|stamp");
	expect_refusal(&b, "flag(1)", WC_ENAME, "neither an array nor a pointer");
	bench_stop(&b);
}

static void fortran_types_and_values_are_reported(void **state)
{
	struct variable v;
	struct bench b;

	start_fortran(&b);
	expect_shown(&b, "mat(2,5)", "real(kind=8)", "42");
	expect_shown(&b, "mat(1+1,flag+2)", "real(kind=8)", "42");
	expect_shown(&b, "mat(one%id-5,5)", "real(kind=8)", "42");
	expect_shown(&b, "ready", "logical(kind=4)", "true");
	expect_shown(&b, "poly%id", "integer(kind=4)", "7");
	expect_shown(&b, "pair", "integer(kind=4) (2)", "0x600000006");
	v = find(&b, "mat");
	assert_string_equal(v.type.name, "real(kind=8) (:,:)");
	assert_string_equal(v.members, "(0,3) .. (4,6)");
	assert_string_equal(v.name, "store::mat");
	variable_deinit(&v);
	v = find(&b, "fixed");
	assert_string_equal(v.type.name, "integer(kind=4) (-1:3,0:2)");
	variable_deinit(&v);
	v = find(&b, "count_up::hits"); /* the same COMMON block, as another unit sees it */
	assert_int_equal(v.addr, victim_shown(&b.v, "hits")->addr);
	variable_deinit(&v);
	v = find(&b, "ONE%Next%Stamp");
	assert_string_equal(v.name, "store::one%Next%Stamp");
	variable_deinit(&v);
	bench_stop(&b);
}

/* What --follow watches: the pointer in the descriptor, and what is written when its bounds are. */
static void an_allocatable_array_says_what_moves_it(void **state)
{
	struct variable v = { 0 };
	struct wc_error *err;
	struct bench b;
	uint64_t value;

	start_fortran(&b);
	v = find(&b, "mat(2,5)");
	assert_int_equal(v.npointers, 2);
	assert_int_equal(v.bounds, 1 << 1);
	assert_true(memory_read(&b.mem, v.pointer[0], &value, sizeof(value)));
	assert_int_equal(value, victim_shown(&b.v, "mat")->addr);
	assert_true(v.pointer[1] > v.pointer[0] && v.pointer[1] < v.pointer[0] + 128);
	variable_deinit(&v);
	err = locate(b.l, "never(1)", &b.modules, &b.mem, &v, NULL);
	assert_non_null(err);
	assert_true(v.null_pointer);
	assert_int_equal(v.npointers, 1);
	wc_error_free(err);
	bench_stop(&b);
}

static void ada_variables_are_where_ada_says(void **state)
{
	check_program(ADA_BUILD "-g -o loc_c loc_ada.adb");
	check_program(ADA_BUILD "-g -O2 -f -o loc_c loc_ada.adb");
}

static void ada_errors_say_what_to_write(void **state)
{
	struct bench b;

	victim_build(ADA_BUILD "-g -o loc_c loc_ada.adb");
	bench_start(&b, "loc_c");
	expect_refusal(&b, "values(2)", WC_ENAME, "(3) .. (7)|(2) is none");
	expect_refusal(&b, "one(0)", WC_ENAME, "(1) .. (4)");
	expect_refusal(&b, "d(10)", WC_ENAME, "(5) .. (9)");
	expect_refusal(&b, "nothing(5)", WC_ENAME, "null pointer");
	expect_refusal(&b, "flags(9)", WC_ENAME, "packed|1 bits|0x|:1");
	bench_stop(&b);
}

static void pascal_variables_are_where_pascal_says(void **state)
{
	check_program("fpc -v0 -g -gw3 -dDWARF3 -o@/loc_c -FU@ tests/victims/loc_pascal.pas >/dev/null");
	check_program("fpc -v0 -g -gw2 -o@/loc_c -FU@ tests/victims/loc_pascal.pas >/dev/null");
}

static void pascal_errors_say_what_to_write(void **state)
{
	struct bench b;

	victim_build("fpc -v0 -g -gw3 -o@/loc_c -FU@ tests/victims/loc_pascal.pas >/dev/null");
	bench_start(&b, "loc_c");
	expect_refusal(&b, "values[8]", WC_ENAME, "[3] .. [7]|[8] is none");
	expect_refusal(&b, "grid[0,1]", WC_ENAME, "is none");
	expect_refusal(&b, "nothing[0]", WC_ENAME, "no elements");
	bench_stop(&b);
}

/* The same program, said to be in another language. */
static void a_language_that_is_not_known_is_refused_by_name(void **state)
{
	struct variable v;
	struct bench b;

	victim_build(C_LANGUAGE("0x13"));
	bench_start(&b, "loc_c");
	v = find(&b, "flag");
	assert_int_equal(v.addr, victim_shown(&b.v, "flag")->addr);
	variable_deinit(&v);
	expect_refusal(&b, "table[1]", WC_ENAME, "'table' belongs to a program in D|0x...:SIZE");
	expect_refusal(&b, "first.len", WC_ENAME, "in D|0x...:SIZE");
	expect_refusal(&b, "head->len", WC_ENAME, "in D");
	bench_stop(&b);
	victim_build(C_LANGUAGE("0x3f"));
	bench_start(&b, "loc_c");
	expect_refusal(&b, "table[1]", WC_ENAME, "a language that is not known here|0x...:SIZE");
	bench_stop(&b);
}

static void c_is_indexed_as_c(void **state)
{
	struct bench b;

	victim_build("gcc -g -o @/loc_c tests/victims/loc_c.c tests/victims/loc_c2.c");
	bench_start(&b, "loc_c");
	expect_refusal(&b, "table(1)", WC_ENAME, "write 'table[1]'");
	expect_refusal(&b, "grid[1,2]", WC_ENAME, "write 'grid[1][2]'");
	bench_stop(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fortran_variables_are_where_fortran_says),
		cmocka_unit_test(a_shared_unit_does_not_change_the_rules),
		cmocka_unit_test(fortran_submodules_are_scopes),
		cmocka_unit_test(fortran_errors_say_what_to_write),
		cmocka_unit_test(fortran_types_and_values_are_reported),
		cmocka_unit_test(an_allocatable_array_says_what_moves_it),
		cmocka_unit_test(ada_variables_are_where_ada_says),
		cmocka_unit_test(ada_errors_say_what_to_write),
		cmocka_unit_test(pascal_variables_are_where_pascal_says),
		cmocka_unit_test(pascal_errors_say_what_to_write),
		cmocka_unit_test(a_language_that_is_not_known_is_refused_by_name),
		cmocka_unit_test(c_is_indexed_as_c),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
