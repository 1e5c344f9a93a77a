/*
 * Names of code: the victims print where their functions are (&f), and places inside them that the assembler
 * recorded wherever the compiler copied them: the oracle.
 */
#include "tests/unit/loc_bench.h"

#include "watchctl/code/locate/code_name.h"
#include "watchctl/code/locate/code_name_parse.h"
#include "watchctl/code/symbols/code_name_match.h"

static struct variable find_code(struct bench *b, const char *expr)
{
	struct variable v = { 0 };
	struct wc_error *err = locate_code(b->l, expr, &b->modules, &b->mem, &v, NULL);

	if (err)
		fail_msg("%s: %s", expr, err->text);
	assert_int_equal(v.size, 1);
	return v;
}

static struct code_range *ranges_of(struct bench *b, const char *function, size_t *n)
{
	struct code_range *r = NULL;
	struct wc_error *err = code_ranges(b->l, function, &b->modules, &r, n, NULL);

	if (err)
		fail_msg("%s: %s", function, err->text);
	assert_true(*n > 0);
	for (size_t i = 0; i < *n; i++)
		assert_true(r[i].start < r[i].end && (!i || r[i - 1].end < r[i].start));
	return r;
}

static bool holds(const struct code_range *r, size_t n, uint64_t addr)
{
	for (size_t i = 0; i < n; i++)
		if (addr >= r[i].start && addr < r[i].end)
			return true;
	return false;
}

static void expect_no_code(struct bench *b, const char *expr, enum wc_kind kind, const char *parts)
{
	struct variable v = { 0 };

	expect_text(expr, locate_code(b->l, expr, &b->modules, &b->mem, &v, NULL), kind, parts);
	assert_null(v.name);
}

static void expect_no_ranges(struct bench *b, const char *function, enum wc_kind kind, const char *parts)
{
	struct code_range *r = NULL;
	size_t n = 0;

	expect_text(function, code_ranges(b->l, function, &b->modules, &r, &n, NULL), kind, parts);
	assert_null(r);
}

static void check_places(struct bench *b)
{
	for (size_t i = 0; i < b->v.n; i++) {
		const struct shown *s = &b->v.shown[i];
		struct variable v;

		if (strncmp(s->expr, "at ", 3) != 0)
			continue;
		v = find_code(b, s->expr + 3);
		if (v.addr != s->addr)
			fail_msg("%s: found %#lx, is %#lx", s->expr + 3, v.addr, s->addr);
		variable_deinit(&v);
	}
}

/* Of every function all places are in its ranges, and none of a function that has nothing to do with it. */
static void check_ranges(struct bench *b)
{
	for (size_t i = 0; i < b->v.n; i++) {
		const struct shown *s = &b->v.shown[i];
		struct code_range *r;
		size_t n;

		if (strncmp(s->expr, "in ", 3) != 0)
			continue;
		r = ranges_of(b, s->expr + 3, &n);
		if (!holds(r, n, s->addr))
			fail_msg("%s: %#lx is left out", s->expr + 3, s->addr);
		if (strcmp(s->expr, "in small") == 0)
			assert_false(holds(r, n, victim_shown(&b->v, "in caller")->addr));
		if (strcmp(s->expr, "in only_inlined") == 0)
			assert_false(holds(r, n, victim_shown(&b->v, "in caller")->addr));
		free(r);
	}
}

#define SOURCES                                                                                   \
	" -DLINE=$(grep -n '/. line .' tests/victims/code.c | cut -d: -f1) tests/victims/code.c " \
	"tests/victims/code2.c"

static void check_code_of(const char *command)
{
	struct bench b;

	victim_build(command);
	bench_start(&b, "code");
	check_places(&b);
	check_ranges(&b);
	bench_stop(&b);
}

static void c_functions_are_where_the_compiler_says(void **state)
{
	check_code_of("gcc -g -o @/code" SOURCES);
	check_code_of("gcc -O2 -g -o @/code" SOURCES);
	check_code_of("gcc -O3 -g -no-pie -gdwarf-4 -o @/code" SOURCES);
}

static void link_time_optimised_functions_are_no_different(void **state)
{
	check_code_of("gcc -O2 -flto -g -o @/code" SOURCES);
}

static void clang_is_no_different(void **state)
{
	check_code_of("clang -g -o @/code" SOURCES);
	check_code_of("clang -O2 -g -o @/code" SOURCES);
}

static void start_optimised(struct bench *b)
{
	victim_build("gcc -O2 -g -o @/code" SOURCES);
	bench_start(b, "code");
}

static void errors_say_what_and_what_to_try(void **state)
{
	struct bench b;

	start_optimised(&b);
	expect_no_code(&b, "twin", WC_ENAME, "2 functions|\n  code.c:twin|\n  code2.c:twin");
	expect_no_code(&b, "calller", WC_ENAME, "There is no function 'calller'|'caller'");
	expect_no_code(&b, "nofile.c:caller", WC_ENAME, "No source file 'nofile.c'");
	expect_no_code(&b, "code.c:calller", WC_ENAME, "no function 'calller' in code.c|'caller'");
	expect_no_code(&b, "only_inlined", WC_ENAME,
		       "'only_inlined' has no code of its own|address of one of these copies|\n  "
		       "0x|code.c:|in caller");
	expect_no_code(&b, "pick", WC_ENAME, "indirect function|pick_slow|pick_fast");
	expect_no_code(&b, "code.c:1", WC_ENAME, "Line 1 of code.c has no code|nearest line that has is");
	expect_no_code(&b, "code.c:99999", WC_ENAME, "Line 99999 of code.c has no code");
	expect_no_code(&b, "other.c:10", WC_ENAME, "No source file 'other.c'");
	expect_no_code(&b, "code:10", WC_EUSAGE, "'code' is a module");
	expect_no_code(&b, "caller+0xfffff", WC_ENAME, "bytes long");
	expect_no_ranges(&b, "calller", WC_ENAME, "There is no function 'calller'|'caller'");
	expect_no_ranges(&b, "caller+3", WC_EUSAGE, "name of a function is needed");
	expect_no_ranges(&b, "code.c:10", WC_EUSAGE, "name of a function is needed");
	bench_stop(&b);
}

static void a_missing_module_is_kept_apart(void **state)
{
	struct variable v = { 0 };
	struct code_range *r = NULL;
	bool missing = false;
	struct bench b;
	size_t n;

	start_optimised(&b);
	expect_text("", locate_code(b.l, "libplugin.so:run", &b.modules, &b.mem, &v, &missing), WC_ENAME,
		    "No module 'libplugin.so'");
	assert_true(missing);
	missing = false;
	expect_text("", code_ranges(b.l, "libplugin.so:run", &b.modules, &r, &n, &missing), WC_ENAME,
		    "No module 'libplugin.so'");
	assert_true(missing);
	expect_text("", locate_code(b.l, "libc.so.6:no_such_thing", &b.modules, &b.mem, &v, &missing),
		    WC_ENAME, "There is no function 'no_such_thing' in libc.so.6");
	assert_false(missing);
	bench_stop(&b);
}

/* objdump shows where instructions begin. */
static void offsets_must_be_instructions(void **state)
{
	unsigned long start, at, next;
	struct variable v, main_;
	struct bench b;
	char expr[64];
	FILE *f;

	start_optimised(&b);
	main_ = find_code(&b, "main");
	assert_true(victim_sh("objdump -d --no-show-raw-insn --disassemble=main @/code | sed -n 's/^ "
			      "*\\([0-9a-f]*\\):.*/\\1/p' "
			      "> @/boundaries"));
	snprintf(expr, sizeof(expr), "%s/boundaries", victim_dir);
	f = fopen(expr, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lx", &start), 1);
	for (at = start; fscanf(f, "%lx", &next) == 1; at = next) {
		snprintf(expr, sizeof(expr), "main+%#lx", at - start);
		v = find_code(&b, expr);
		assert_int_equal(v.addr, main_.addr + at - start);
		assert_int_equal(v.decl_line > 0, 1);
		variable_deinit(&v);
		if (next == at + 1)
			continue;
		snprintf(expr, sizeof(expr), "main+%lu", at - start + 1);
		{
			char want[128];

			snprintf(want, sizeof(want), "inside an instruction|main+0x%lx and main+0x%lx",
				 at - start, next - start);
			expect_no_code(&b, expr, WC_ENAME, want);
		}
	}
	fclose(f);
	assert_true(at - start > 100);
	variable_deinit(&main_);
	bench_stop(&b);
}

static void copies_elsewhere_are_counted(void **state)
{
	struct variable v;
	struct bench b;

	start_optimised(&b);
	v = find_code(&b, "small");
	assert_true(v.copies >= 1);
	variable_deinit(&v);
	v = find_code(&b, "pick_fast");
	assert_int_equal(v.copies, 0);
	assert_string_equal(v.name, "pick_fast");
	variable_deinit(&v);
	bench_stop(&b);
}

static void a_stripped_program_has_its_exports(void **state)
{
	struct variable v;
	struct bench b;

	victim_build("gcc -O2 -g -rdynamic -o @/code" SOURCES " && strip @/code");
	bench_start(&b, "code");
	v = find_code(&b, "with_cold");
	assert_int_equal(v.addr, victim_shown(&b.v, "at with_cold")->addr);
	variable_deinit(&v);
	expect_no_code(&b, "code:twin", WC_ENAME, "There is no function 'twin'|no debug information");
	bench_stop(&b);
}

static void symbols_alone_report_parts_and_copies(void **state)
{
	struct bench b;

	victim_build("gcc -O2 -g -o @/code" SOURCES " && objcopy --strip-debug @/code");
	bench_start(&b, "code");
	for (size_t i = 0; i < b.v.n; i++) {
		const struct shown *s = &b.v.shown[i];
		struct code_range *r;
		size_t n;

		if (strcmp(s->expr, "in with_cold") != 0 && strcmp(s->expr, "in specialised") != 0)
			continue;
		r = ranges_of(&b, s->expr + 3, &n);
		assert_true(holds(r, n, s->addr));
		free(r);
	}
	bench_stop(&b);
}

static void libc_has_its_indirect_functions(void **state)
{
	struct code_range *r;
	struct variable v = { 0 };
	struct wc_error *err;
	struct bench b;
	char name[128];
	size_t n;

	start_optimised(&b);
	/* By what it is called at the program's calls, malloc is inside __libc_malloc and its parts. */
	v = find_code(&b, "libc.so.6:malloc");
	r = ranges_of(&b, "malloc", &n);
	assert_true(holds(r, n, v.addr));
	free(r);
	variable_deinit(&v);
	expect_no_code(&b, "libc.so.6:memcpy", WC_ENAME, "'memcpy' of libc.so.6 is an indirect function");
	/* What &memcpy is in the program is what it is told to name. */
	v = (struct variable){ 0 };
	err = locate_code(b.l, "memcpy", &b.modules, &b.mem, &v, NULL);
	assert_non_null(err);
	if (!strstr(err->text, "uses '")) {
		print_message("skipped: no symbols of libc: %s\n", err->text);
		wc_error_free(err);
		bench_stop(&b);
		skip();
	}
	snprintf(name, sizeof(name), "%s", strstr(err->text, "uses '") + 6);
	*strchr(name, '\'') = '\0';
	wc_error_free(err);
	v = find_code(&b, name);
	assert_int_equal(v.addr, victim_shown(&b.v, "is memcpy")->addr);
	r = ranges_of(&b, "memcpy", &n);
	assert_true(holds(r, n, v.addr));
	free(r);
	variable_deinit(&v);
	bench_stop(&b);
}

static void an_address_is_taken_as_it_is(void **state)
{
	struct variable v, small;
	struct bench b;
	char expr[32];

	start_optimised(&b);
	small = find_code(&b, "small");
	snprintf(expr, sizeof(expr), "%#lx", small.addr);
	v = find_code(&b, expr);
	assert_int_equal(v.addr, small.addr);
	assert_string_equal(v.module, small.module);
	assert_true(v.decl_line > 0);
	variable_deinit(&v);
	v = find_code(&b, "0x10");
	assert_int_equal(v.addr, 0x10);
	assert_null(v.module);
	variable_deinit(&v);
	variable_deinit(&small);
	bench_stop(&b);
}

static void cxx_functions_go_by_their_qualified_names(void **state)
{
	struct code_range *r;
	struct variable v;
	struct bench b;
	size_t n;

	victim_build("g++ -std=c++17 -O1 -g -o @/code tests/victims/code.cc");
	bench_start(&b, "code");
	check_places(&b);
	expect_no_code(&b, "over", WC_ENAME, "2 functions|\n  ns::over(char)|\n  ns::over(int)");
	expect_no_code(&b, "ns::Clas::method", WC_ENAME, "'ns::Class::method'");
	v = find_code(&b, "ns::over(int)");
	assert_string_equal(v.name, "ns::over(int)");
	variable_deinit(&v);
	r = ranges_of(&b, "ns::over", &n);
	assert_true(holds(r, n, victim_shown(&b.v, "at ns::over(int)")->addr));
	assert_true(holds(r, n, victim_shown(&b.v, "at over(char)")->addr));
	free(r);
	/* All instances of a template. */
	r = ranges_of(&b, "ns::twice", &n);
	assert_true(holds(r, n, victim_shown(&b.v, "at ns::twice<int>")->addr));
	assert_true(holds(r, n, victim_shown(&b.v, "at ns::twice<long>")->addr));
	free(r);
	bench_stop(&b);
}

static void go_functions_go_by_package(void **state)
{
	struct code_range *r;
	struct variable v;
	struct bench b;
	size_t n;

	victim_build("GOCACHE=@/cache GOFLAGS=-mod=mod HOME=@ go build -o @/code tests/victims/code.go");
	bench_start(&b, "code");
	check_places(&b);
	v = find_code(&b, "main.main");
	variable_deinit(&v);
	r = ranges_of(&b, "main.(*Pool).Get", &n);
	assert_true(holds(r, n, victim_shown(&b.v, "at main.(*Pool).Get")->addr));
	free(r);
	expect_no_code(&b, "main.Gett", WC_ENAME, "no function 'main.Gett'");
	bench_stop(&b);
}

static void malformed_expressions_are_usage_errors_with_a_caret(void **state)
{
	static const struct {
		const char *text, *expected;
		unsigned int column;
	} cases[] = {
		{ "", "the name of a function", 1 },
		{ "file.c:", "the name of a function or a line number", 8 },
		{ ":f", "before ':'", 1 },
		{ "f+", "an offset in bytes after '+'", 3 },
		{ "f+x", "an offset in bytes after '+'", 3 },
		{ "f+0x12q", "the end", 7 },
		{ "f+99999999999999999999", "fits in 64 bits", 3 },
		{ "f(int", "balanced brackets", 2 },
		{ "f)", "'+' and an offset, or the end", 2 },
		{ "f g", "'+' and an offset, or the end", 2 },
		{ "12", "a source file and ':' before a line number", 1 },
		{ "file.c:0", "a line number from 1 on", 8 },
		{ "file.c:12x", "the end", 10 },
		{ "0x", "the end", 2 },
		{ "0x12+3", "the end", 5 },
		{ "-x", "the name of a function", 1 },
		{ "f:::", "the name of a function", 5 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct code_expr e;
		struct wc_error *err = code_name_parse(cases[i].text, &e);
		char caret[64];

		if (!err)
			fail_msg("'%s' is accepted", cases[i].text);
		assert_int_equal(err->kind, WC_EUSAGE);
		snprintf(caret, sizeof(caret), "column %u of the expression:\n  %s\n  %*s^", cases[i].column,
			 cases[i].text, (int)cases[i].column - 1, "");
		if (!strstr(err->text, cases[i].expected) || !strstr(err->text, caret))
			fail_msg("%s", err->text);
		wc_error_free(err);
	}
}

static void names_keep_their_brackets_and_operators(void **state)
{
	static const struct {
		const char *text, *prefix, *name;
		uint64_t offset;
	} cases[] = {
		{ "f", NULL, "f", 0 },
		{ " f + 0x12 ", NULL, "f", 0x12 },
		{ "f+18", NULL, "f", 18 },
		{ "f+010", NULL, "f", 10 },
		{ "libx.so:ns::f(int, char)+4", "libx.so", "ns::f(int, char)", 4 },
		{ "operator+", NULL, "operator+", 0 },
		{ "ns::operator+ +8", NULL, "ns::operator+", 8 },
		{ "A::operator<<", NULL, "A::operator<<", 0 },
		{ "A::operator++", NULL, "A::operator++", 0 },
		{ "A::operator new", NULL, "A::operator new", 0 },
		{ "A::get(unsigned int) const", NULL, "A::get(unsigned int) const", 0 },
		{ "main.(*Pool).Get", NULL, "main.(*Pool).Get", 0 },
		{ "github.com/a-b/c.(*T).M", NULL, "github.com/a-b/c.(*T).M", 0 },
		{ "<a::T as b::U>::f", NULL, "<a::T as b::U>::f", 0 },
		{ "a.cc:std::map<int, a::b>::find", "a.cc", "std::map<int, a::b>::find", 0 },
		{ "A::~A", NULL, "A::~A", 0 },
		{ "::f", NULL, "f", 0 },
		{ "f.part.0", NULL, "f.part.0", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct code_expr e;
		struct wc_error *err = code_name_parse(cases[i].text, &e);

		if (err)
			fail_msg("%s", err->text);
		assert_string_equal(e.name, cases[i].name);
		assert_int_equal(e.offset, cases[i].offset);
		if (cases[i].prefix)
			assert_string_equal(e.prefix[0], cases[i].prefix);
		else
			assert_int_equal(e.nprefixes, 0);
		code_expr_deinit(&e);
	}
}

static void symbols_answer_to_what_people_leave_out(void **state)
{
	static const struct {
		const char *symbol, *query;
		enum name_fit fit;
		enum hit_part part;
	} cases[] = {
		{ "f", "f", FIT_EXACT, HIT_WHOLE },
		{ "f@@GLIBC_2.2.5", "f", FIT_EXACT, HIT_WHOLE },
		{ "f.cold", "f", FIT_EXACT, HIT_PART },
		{ "f.isra.0.cold", "f", FIT_EXACT, HIT_PART },
		{ "f.constprop.3", "f", FIT_EXACT, HIT_CLONE },
		{ "f.constprop.3", "f.constprop.3", FIT_EXACT, HIT_WHOLE },
		{ "f.llvm.1234567", "f", FIT_EXACT, HIT_WHOLE },
		{ "main.f", "main", FIT_NONE, HIT_WHOLE },
		{ "main.f", "f", FIT_SUFFIX, HIT_WHOLE },
		{ "main.cold", "cold", FIT_NONE, HIT_PART },
		{ "runtime.clone.abi0", "runtime.clone", FIT_EXACT, HIT_WHOLE },
		{ "main.(*Pool).Get", "main.(*Pool).Get", FIT_EXACT, HIT_WHOLE },
		{ "main.(*Pool).Get", "Get", FIT_SUFFIX, HIT_WHOLE },
		{ "_ZN2ns4overEi", "ns::over", FIT_EXACT, HIT_WHOLE },
		{ "_ZN2ns4overEi", "over", FIT_SUFFIX, HIT_WHOLE },
		{ "_ZN2ns4overEi", "ns::over(int)", FIT_EXACT, HIT_WHOLE },
		{ "_ZN2ns4overEi", "ns::over(char)", FIT_NONE, HIT_WHOLE },
		{ "_ZN2ns4overEi.cold", "over", FIT_SUFFIX, HIT_PART },
		{ "_ZN2ns5twiceIiEET_S1_", "ns::twice<int>", FIT_EXACT, HIT_WHOLE },
		{ "_ZN2ns5twiceIiEET_S1_", "ns::twice", FIT_EXACT, HIT_WHOLE },
		{ "_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector::push_back", FIT_EXACT, HIT_WHOLE },
		{ "_ZN1AlsEi", "A::operator<<", FIT_EXACT, HIT_WHOLE },
		{ "_ZN4core3fmt9Formatter3new17h0123456789abcdefE", "core::fmt::Formatter::new", FIT_EXACT,
		  HIT_WHOLE },
		{ "_RNvNtCs1234_7mycrate3foo3bar", "foo::bar", FIT_SUFFIX, HIT_WHOLE },
		{ "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar", FIT_EXACT, HIT_WHOLE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		enum hit_part part = HIT_WHOLE;
		enum name_fit fit = code_name_fit(cases[i].symbol, cases[i].query, &part);

		if (fit != cases[i].fit || (fit && part != cases[i].part))
			fail_msg("%s for %s: fit %d, part %d", cases[i].symbol, cases[i].query, fit, part);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c_functions_are_where_the_compiler_says),
		cmocka_unit_test(link_time_optimised_functions_are_no_different),
		cmocka_unit_test(clang_is_no_different),
		cmocka_unit_test(errors_say_what_and_what_to_try),
		cmocka_unit_test(a_missing_module_is_kept_apart),
		cmocka_unit_test(offsets_must_be_instructions),
		cmocka_unit_test(copies_elsewhere_are_counted),
		cmocka_unit_test(a_stripped_program_has_its_exports),
		cmocka_unit_test(symbols_alone_report_parts_and_copies),
		cmocka_unit_test(libc_has_its_indirect_functions),
		cmocka_unit_test(an_address_is_taken_as_it_is),
		cmocka_unit_test(cxx_functions_go_by_their_qualified_names),
		cmocka_unit_test(go_functions_go_by_package),
		cmocka_unit_test(malformed_expressions_are_usage_errors_with_a_caret),
		cmocka_unit_test(names_keep_their_brackets_and_operators),
		cmocka_unit_test(symbols_answer_to_what_people_leave_out),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
