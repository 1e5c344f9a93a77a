/*
 * Which variable a name means: what the program once had and has no more, what libraries have for themselves,
 * names that need quotes. The victims' own &x is the oracle, and whatever a message offers must work as it is
 * written.
 */
#include "tests/unit/loc_bench.h"

/* Everything below the first line of the message that refuses @expr selects another variable of type @type. */
static void check_typed_candidates(struct bench *b, const char *expr, unsigned int wanted, const char *type)
{
	struct variable v = { 0 };
	struct wc_error *err = locate(b->l, expr, &b->modules, &b->mem, &v, NULL);
	uint64_t seen[8] = { 0 };
	unsigned int n = 0;
	char *save = NULL;

	assert_non_null(err);
	strtok_r(err->text, "\n", &save);
	for (char *line; (line = strtok_r(NULL, "\n", &save)) && n < 8; n++) {
		v = find(b, line);
		for (unsigned int i = 0; i < n; i++)
			assert_int_not_equal(v.addr, seen[i]);
		seen[n] = v.addr;
		if (type)
			assert_string_equal(v.type.name, type);
		variable_deinit(&v);
	}
	if (n != wanted)
		fail_msg("%s: %u candidates: %s", expr, n, err->text);
	wc_error_free(err);
}

/* The same of any types, or none. */
static void check_candidates(struct bench *b, const char *expr, unsigned int wanted)
{
	check_typed_candidates(b, expr, wanted, NULL);
}

/* What is optimised out of the program is not another function or a library's variable of that name. */
static void what_was_optimised_out_is_nothing_else(void **state)
{
	struct variable v;
	struct bench b;

	victim_build(
		"printf 'int chosen(void) { return 1; } int lib_count = 3; int lib_only = 4;' >@/lib.c && "
		"gcc -g -shared -fPIC -o @/libother.so @/lib.c && "
		"printf '#include \"tests/victims/loc_show.h\"\\nstatic int chosen_at = 1; static int "
		"lib_count = 5;\\n"
		"extern int lib_only; int *use = &lib_only; int chosen_by = 2;\\n"
		"int main(void) { SHOW(chosen_by); show_done(); return lib_count + chosen_at; }' >@/main.c "
		"&& "
		"printf 'static int chosen = 7; int get(void) { return chosen; }' >@/part.c && "
		"gcc -O2 -g -I. -o @/loc_c @/main.c @/part.c @/libother.so -Wl,-rpath,@");
	bench_start(&b, "loc_c");
	expect_refusal(&b, "lib_count", WC_ENAME, "'lib_count' was optimised out of|'libother.so:lib_count'");
	expect_refusal(&b, "chosen", WC_ENAME, "'chosen' was optimised out of|'chosen_by'");
	v = find(&b, "libother.so:lib_count");
	assert_non_null(strstr(v.module, "libother.so"));
	variable_deinit(&v);
	v = find(&b, "lib_only");
	assert_non_null(strstr(v.module, "libother.so"));
	variable_deinit(&v);
	bench_stop(&b);
}

/* What a library exports is meant, not what another one has for itself under that name. */
static void an_exported_variable_wins_over_a_private_one(void **state)
{
	struct variable v, w;
	struct bench b;

	victim_build(
		"printf 'int shared = 1; int both = 2; __attribute__((visibility(\"hidden\"))) int hidden = "
		"3;' "
		">@/one.c && printf '__attribute__((visibility(\"hidden\"))) int shared = 4; int both = 5;' "
		">@/two.c && mkdir -p @/x @/y && gcc -g -shared -fPIC -o @/libone.so @/one.c && "
		"gcc -g -shared -fPIC -o @/x/libtwo.so @/two.c && gcc -g -shared -fPIC -o @/y/libtwo.so "
		"@/one.c && "
		"printf '#include \"tests/victims/loc_show.h\"\\n#include <dlfcn.h>\\nint here;\\n"
		"int main(void) { if (!dlopen(\"@/libone.so\", 2) || !dlopen(\"@/x/libtwo.so\", 2) || "
		"!dlopen(\"@/y/libtwo.so\", 2)) return 1; SHOW(here); show_done(); return 0; }' >@/main.c && "
		"gcc -g -I. -o @/loc_c @/main.c -ldl");
	bench_start(&b, "loc_c");
	check_candidates(&b, "both", 3);
	check_candidates(&b, "hidden", 2);
	check_candidates(&b, "shared", 2);
	expect_refusal(&b, "shared", WC_ENAME, "2 variables|libone.so:shared|libtwo.so:shared");
	v = find(&b, "libone.so:hidden");
	w = find(&b, "y/libtwo.so:hidden");
	assert_int_not_equal(v.addr, w.addr);
	variable_deinit(&v);
	variable_deinit(&w);
	bench_stop(&b);
}

/* A program may be called as libraries are. */
static void a_program_is_one_whatever_its_name(void **state)
{
	static const char *const flags[] = { "", "-no-pie -fno-pie", "-static", "-static-pie" };

	for (size_t i = 0; i < 4; i++) {
		char command[1024];
		struct variable v;
		struct bench b;

		snprintf(
			command, sizeof(command),
			"printf 'int mine = 3, environ_of_ours;' >@/lib.c && "
			"gcc -g -shared -fPIC -o @/aaa @/lib.c && printf '#include "
			"\"tests/victims/loc_show.h\"\\n"
			"static volatile int mine; int main(void) { SHOW(mine); show_done(); return mine; }' "
			">@/main.c && gcc -g -I. %s -o @/prog.so.test @/main.c %s",
			flags[i], i < 2 ? "@/aaa -Wl,-rpath,@ -Wl,--no-as-needed" : "");
		victim_build(command);
		bench_start(&b, "prog.so.test");
		v = find(&b, "mine");
		assert_int_equal(v.addr, victim_shown(&b.v, "mine")->addr);
		assert_non_null(strstr(v.module, "prog.so.test"));
		variable_deinit(&v);
		for (size_t k = 0; k < b.modules.n; k++)
			assert_int_equal(b.modules.v[k].is_program,
					 strstr(b.modules.v[k].path, "prog.so.test") != NULL);
		bench_stop(&b);
	}
}

/* Names of files may hold what separates them from variables. */
static void names_with_colons_are_written_in_quotes(void **state)
{
	struct variable v;
	struct bench b;

	victim_build("mkdir -p '@/a:b' && cp tests/victims/loc_show.h '@/a:b' && "
		     "printf 'static volatile int twin = 1; int use_one(void) { return twin; } int solo;' "
		     ">'@/a:b/on e.c' && printf 'static volatile int twin = 2; int use_two(void) { return "
		     "twin; }' "
		     ">'@/a:b/it'\\''s.c' && printf '#include \"loc_show.h\"\\nextern int solo;\\n"
		     "int main(void) { SHOW(solo); show_done(); return 0; }' >'@/a:b/main.c' && "
		     "gcc -g -o '@/pro:gram' '@/a:b/on e.c' '@/a:b/it'\\''s.c' '@/a:b/main.c'");
	bench_start(&b, "pro:gram");
	check_candidates(&b, "twin", 2);
	expect_refusal(&b, "twin", WC_ENAME, "'on e.c':twin|'it\\'s.c':twin");
	v = find(&b, "'pro:gram':'a:b/on e.c':twin");
	assert_string_equal(v.name, "'pro:gram':'a:b/on e.c':twin");
	variable_deinit(&v);
	v = find(&b, "\"pro:gram\":solo");
	assert_int_equal(v.addr, victim_shown(&b.v, "solo")->addr);
	variable_deinit(&v);
	expect_refusal(&b, "'pro:gram:solo", WC_EUSAGE, "another quote");
	expect_refusal(&b, "'pro:gram'solo", WC_EUSAGE, "':' and a name");
	bench_stop(&b);
}

/* Not everything that a compiler calls something can be typed: then the address is offered. */
static void every_candidate_can_be_typed(void **state)
{
	struct bench b;

	victim_build("printf '#include \"tests/victims/loc_show.h\"\\nint plain;\\n"
		     "static auto one = [] { static volatile int calls = 1; return (int)calls; };\\n"
		     "static auto two = [](int) { static volatile int calls = 2; return (int)calls; };\\n"
		     "struct s { int operator()() { static volatile int calls = 3; return calls; } };\\n"
		     "int main() { SHOW(plain); show_done(); return one() + two(1) + s()(); }' >@/main.cc && "
		     "g++ -g -I. -o @/loc_c @/main.cc");
	bench_start(&b, "loc_c");
	check_candidates(&b, "calls", 3);
	bench_stop(&b);
}

/* Two variables "hits" of one function, offered by the names of their symbols, @symbols with '|' between. */
static void check_statics_of_functions(const char *compiler, const char *symbols)
{
	char command[1024];
	struct bench b;

	snprintf(command, sizeof(command),
		 "printf '#include \"tests/victims/loc_show.h\"\n"
		 "#define KEEP(x) asm volatile(\"\" :: \"r\"(&x))\nstruct conn { int id, state; } one;\n"
		 "int f(int k) { if (k) { static int hits; KEEP(hits); return ++hits; }\n"
		 "static int hits; KEEP(hits); return hits += 2; }\n"
		 "int main(void) { static struct conn *cur = &one; KEEP(cur); SHOW(cur); SHOW(cur->state); "
		 "show_done(); return f(1) + f(0) + cur->id; }' >@/main.c && %s -g -I. -o @/loc_c @/main.c",
		 compiler);
	victim_build(command);
	bench_start(&b, "loc_c");
	check_all_shown(&b);
	expect_shown(&b, "cur->state", "int", "0");
	check_typed_candidates(&b, "hits", 2, "int");
	check_typed_candidates(&b, "f::hits", 2, "int");
	expect_refusal(&b, "hits", WC_ENAME, symbols);
	bench_stop(&b);
}

/* The symbols of such variables are called "function.name": that is not their name. */
static void clang_statics_are_known_by_their_bare_names(void **state)
{
	check_statics_of_functions("clang -O0", "\n  'f.hits'|\n  'f.hits.1'");
	check_statics_of_functions("clang -O2", "\n  'f.hits'|\n  'f.hits.1'");
}

static void two_statics_of_a_function_are_told_apart_by_their_symbols(void **state)
{
	check_statics_of_functions("gcc -O0", "\n  'hits.");
	check_statics_of_functions("gcc -O2", "\n  'hits.");
}

/* The unit of a file has nothing but the origin of such a variable, which is in another one. */
static void what_is_optimised_at_link_time_is_of_its_file(void **state)
{
	static const char *const levels[] = { "-O0", "-O2" };

	for (size_t i = 0; i < 2; i++) {
		char command[1024];
		struct bench b;

		snprintf(
			command, sizeof(command),
			"printf '#include \"tests/victims/loc_show.h\"\n"
			"#define KEEP(x) asm volatile(\"\" :: \"r\"(&x) : \"memory\")\nstatic int shared;\n"
			"static inline void work(const char *shown) { static int calls; KEEP(calls); "
			"SHOW_AS(shown, calls); }\n' >@/part.h && "
			"for n in a b; do printf '#include \"part.h\"\nvoid f%%s(void) { KEEP(shared); "
			"SHOW_AS(\"%%s.c:shared\", shared); work(\"%%s.c:calls\"); }\n' $n $n $n >@/$n.c; done && "
			"printf '#include \"tests/victims/loc_show.h\"\nvoid fa(void), fb(void); int main(void) { fa(); fb(); "
			"show_done(); return 0; }\n' >@/main.c && "
			"gcc -flto %s -g -I. -o @/loc_c @/a.c @/b.c @/main.c 2>/dev/null",
			levels[i]);
		victim_build(command);
		bench_start(&b, "loc_c");
		assert_int_equal(b.v.n, 4);
		check_all_shown(&b);
		check_typed_candidates(&b, "shared", 2, "int");
		expect_refusal(&b, "shared", WC_ENAME, "\n  a.c:shared|\n  b.c:shared");
		expect_refusal(&b, "calls", WC_ENAME, "\n  a.c:work::calls|\n  b.c:work::calls");
		bench_stop(&b);
	}
}

/* A libdw that does not read packages has nothing but symbols to say: it must not be "build it with -g". */
static void a_package_of_split_debug_information_is_read_or_named(void **state)
{
	static const char *const versions[] = { "4", "5" };

	for (size_t i = 0; i < 2; i++) {
		char command[1024];
		struct variable v = { 0 };
		struct wc_error *err;
		struct bench b;

		snprintf(command, sizeof(command),
			 "printf '#include \"tests/victims/loc_show.h\"\nstruct { int a, hits; } server;\n"
			 "int main(void) { SHOW(server.hits); show_done(); return 0; }' >@/main.c && "
			 "root=$PWD && cd @ && clang -gdwarf-%s -gsplit-dwarf -I$root -c main.c -o main.o && "
			 "clang -o loc_c main.o && llvm-dwp -e loc_c -o loc_c.dwp && rm main.dwo",
			 versions[i]);
		victim_build(command);
		bench_start(&b, "loc_c");
		err = locate(b.l, "server.hits", &b.modules, &b.mem, &v, NULL);
		if (!err) {
			assert_int_equal(v.addr, victim_shown(&b.v, "server.hits")->addr);
			variable_deinit(&v);
		} else {
			expect_text("server.hits", err, WC_ENAME,
				    "The type of 'server'|loc_c.dwp, which libdw");
			expect_refusal(&b, "absent", WC_ENAME, "no variable 'absent'|loc_c.dwp, which libdw");
		}
		bench_stop(&b);
		assert_true(victim_sh("rm @/loc_c.dwp"));
		bench_start(&b, "loc_c");
		expect_refusal(&b, "server.hits", WC_ENAME, "The type of 'server'|the file main.dwo");
		expect_refusal(&b, "absent", WC_ENAME, "no variable 'absent'|the file main.dwo");
		bench_stop(&b);
	}
}

/* Dots are letters in the names of symbols: one may be called as a member of a variable is. */
static void a_symbol_with_a_dot_is_not_taken_for_a_member(void **state)
{
	struct variable v;
	struct bench b;

	victim_build(
		"printf '#include \"tests/victims/loc_show.h\"\nstruct { int id, x; } s, other;\n"
		"asm(\".bss; .type s.x,%%object; s.x: .skip 4; .size s.x,4; .type s.y,%%object; s.y: .skip 4; "
		".size s.y,4; .text\"); extern int s_x asm(\"s.x\"), s_y asm(\"s.y\");\n"
		"int main(void) { SHOW(s.x); SHOW(s_x); SHOW(s_y); SHOW(s.id); SHOW(other.x); show_done(); "
		"return 0; }' >@/main.c && gcc -g -I. -o @/loc_c @/main.c");
	bench_start(&b, "loc_c");
	expect_refusal(&b, "s.x", WC_ENAME, "member of the variable 's'|\n  's'.x|\n  's.x'");
	check_candidates(&b, "s.x", 2);
	check_candidates(&b, "loc_c:s.x", 2);
	v = find(&b, "'s'.x");
	assert_int_equal(v.addr, victim_shown(&b.v, "s.x")->addr);
	variable_deinit(&v);
	v = find(&b, "'s.x'");
	assert_int_equal(v.addr, victim_shown(&b.v, "s_x")->addr);
	variable_deinit(&v);
	v = find(&b, "s.y");
	assert_int_equal(v.addr, victim_shown(&b.v, "s_y")->addr);
	variable_deinit(&v);
	v = find(&b, "s.id");
	assert_int_equal(v.addr, victim_shown(&b.v, "s.id")->addr);
	variable_deinit(&v);
	v = find(&b, "main.c:s.x");
	assert_int_equal(v.addr, victim_shown(&b.v, "s.x")->addr);
	variable_deinit(&v);
	bench_stop(&b);
}

/* Each name between quotes behind "Did you mean" in the message that refuses @expr means a variable; @one is
 * among them. */
static void check_offers(struct bench *b, const char *expr, const char *one)
{
	struct variable v = { 0 };
	struct wc_error *err = locate(b->l, expr, &b->modules, &b->mem, &v, NULL);
	char *save = NULL, *offers;
	bool found = false;

	assert_non_null(err);
	offers = strstr(err->text, "Did you mean ");
	if (!offers)
		fail_msg("%s: %s", expr, err->text);
	strtok_r(offers, "'", &save);
	for (char *name; (name = strtok_r(NULL, "'", &save)); strtok_r(NULL, "'", &save)) {
		char quoted[256];

		snprintf(quoted, sizeof(quoted), "'%s'", name);
		v = find(b, quoted);
		assert_non_null(v.type.name);
		found |= strcmp(name, one) == 0;
		variable_deinit(&v);
	}
	if (!found)
		fail_msg("%s: '%s' is not offered", expr, one);
	wc_error_free(err);
}

#define TEMPLATES " -std=c++17 -o @/loc_c tests/victims/loc_templates.cc"

static void variables_of_templates_are_offered_by_names_that_work(void **state)
{
	static const char *const compilers[] = { "g++ -g", "g++ -g -O2", "clang++ -g", "clang++ -g -O2" };

	for (size_t i = 0; i < sizeof(compilers) / sizeof(*compilers); i++) {
		char command[256];
		struct bench b;

		snprintf(command, sizeof(command), "%s" TEMPLATES, compilers[i]);
		victim_build(command);
		bench_start(&b, "loc_c");
		check_all_shown(&b);
		check_typed_candidates(&b, "each", 2, NULL);
		check_typed_candidates(&b, "count", 3, "int");
		check_typed_candidates(&b, "inside", 2, "int");
		check_typed_candidates(&b, "limit", 2, "int");
		check_typed_candidates(&b, "calls", 2, "int");
		check_typed_candidates(&b, "runs", 2, "int");
		expect_refusal(&b, "each", WC_ENAME, "\n  my::Box<char, 4>::each|\n  my::Box<int, 3>::each");
		expect_refusal(&b, "limit", WC_ENAME, "\n  limit<int>");
		expect_refusal(&b, "runs", WC_ENAME, "\n  Counted<int>::run<long");
		check_offers(&b, "Counted::count", "Counted<int>::count");
		check_offers(&b, "Counted::own", "Counted<int>::own");
		check_offers(&b, "Counted<int>::cont", "Counted<int>::count");
		check_offers(&b, "my::Box::each", "my::Box<int, 3>::each");
		check_offers(&b, "my::Box<unsigned char, 1234>::each", "my::Box<int, 3>::each");
		check_offers(&b, "called::calls", "called<int, 1>(int)::calls");
		check_offers(&b, "in_lamda",
			     compilers[i][0] == 'g'
				     ? "with_lambda(int)::{lambda(int)#1}::operator()(int) const::in_lambda"
				     : "with_lambda(int)::$_0::operator()(int) const::in_lambda");
		bench_stop(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_optimised_out_is_nothing_else),
		cmocka_unit_test(an_exported_variable_wins_over_a_private_one),
		cmocka_unit_test(a_program_is_one_whatever_its_name),
		cmocka_unit_test(names_with_colons_are_written_in_quotes),
		cmocka_unit_test(every_candidate_can_be_typed),
		cmocka_unit_test(clang_statics_are_known_by_their_bare_names),
		cmocka_unit_test(what_is_optimised_at_link_time_is_of_its_file),
		cmocka_unit_test(a_package_of_split_debug_information_is_read_or_named),
		cmocka_unit_test(a_symbol_with_a_dot_is_not_taken_for_a_member),
		cmocka_unit_test(two_statics_of_a_function_are_told_apart_by_their_symbols),
		cmocka_unit_test(variables_of_templates_are_offered_by_names_that_work),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
