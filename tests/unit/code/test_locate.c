/*
 * locate: the victims print what the compiler knows about each expression (&x, sizeof x), which is the
 * oracle for addresses and sizes. Types and values are compared with the victims' sources.
 */
#include "tests/unit/loc_bench.h"

#include "tests/unit/wait.h"
#include "watchctl/code/lookup/locate_parse.h"
#include "watchctl/code/lookup/locator.h"

#define C_SOURCES " tests/victims/loc_c.c tests/victims/loc_c2.c"
#define CXX_SOURCE " tests/victims/loc_cpp.cc"

static void c_variables_are_where_the_compiler_says(void **state)
{
	check_program("gcc -g -o @/loc_c" C_SOURCES);
}

static void optimised_c_is_no_different(void **state)
{
	check_program("gcc -O2 -g -o @/loc_c" C_SOURCES);
}

static void link_time_optimised_c_is_no_different(void **state)
{
	check_program("gcc -O1 -flto -g -o @/loc_c" C_SOURCES);
}

static void old_dwarf_is_no_different(void **state)
{
	check_program("gcc -gdwarf-2 -gstrict-dwarf -o @/loc_c" C_SOURCES);
	check_program("gcc -gdwarf-4 -fdebug-types-section -o @/loc_c" C_SOURCES);
}

static void compressed_and_separate_debug_information_is_found(void **state)
{
	check_program("gcc -g -gz -o @/loc_c" C_SOURCES);
	check_program("gcc -g -o @/loc_c" C_SOURCES
		      " && cd @ && objcopy --only-keep-debug loc_c loc_c.debug && "
		      "strip loc_c && objcopy --add-gnu-debuglink=loc_c.debug loc_c");
	/* Other programs of that name must not find it. */
	assert_true(victim_sh("rm @/loc_c.debug"));
}

static void split_debug_information_is_found(void **state)
{
	check_program("src=$PWD && cd @ && for f in loc_c loc_c2; do "
		      "gcc -g -gsplit-dwarf -c -o $f.o $src/tests/victims/$f.c; done && gcc -o loc_c "
		      "loc_c.o loc_c2.o");
}

static void clang_is_no_different(void **state)
{
	check_program("clang -g -o @/loc_c" C_SOURCES);
	check_program("clang -O2 -g -o @/loc_c" C_SOURCES);
}

static void cxx_variables_are_where_the_compiler_says(void **state)
{
	check_program("g++ -std=c++17 -g -o @/loc_c" CXX_SOURCE);
	check_program("g++ -std=c++17 -O2 -g -o @/loc_c" CXX_SOURCE);
}

static void what_is_in_a_namespace_without_a_name_is_of_its_file(void **state)
{
	static const char *const compilers[] = { "g++ -g", "g++ -O2 -g", "clang++ -g" };

	for (size_t i = 0; i < 3; i++) {
		char command[256];

		snprintf(command, sizeof(command),
			 "%s -o @/loc_c tests/victims/loc_anon2.cc tests/victims/loc_anon.cc", compilers[i]);
		check_program(command);
	}
}

static void clang_cxx_is_no_different(void **state)
{
	check_program("clang++ -std=c++17 -g -fstandalone-debug -o @/loc_c" CXX_SOURCE);
}

static void go_variables_are_found_by_package(void **state)
{
	struct variable v;
	struct bench b;

	check_program("GOCACHE=@/cache GOFLAGS=-mod=mod HOME=@ go build -o @/loc_c tests/victims/loc_go.go");
	bench_start(&b, "loc_c");
	expect_refusal(&b, "main.word[4]", WC_ENAME, "currently has 4 elements: [4]");
	expect_refusal(&b, "main.table[1]", WC_ENAME, "map[int]int|cannot be found by an index|0x...:SIZE");
	expect_refusal(&b, "main.head[1]", WC_ENAME, "*main.node|found by an index");
	expect_shown(&b, "main.items[main.counter - 6].value", "int64", "2");
	expect_shown(&b, "main.word[(main.counter + 1) / 4]", "uint8", "114");
	v = find(&b, "main.word[2]");
	assert_int_equal(v.npointers, 1);
	variable_deinit(&v);
	bench_stop(&b);
}

#define GO_BUILD "GOCACHE=@/cache GOFLAGS=-mod=mod HOME=@ go build "

static void stripped_go_programs_say_so(void **state)
{
	struct variable v;
	struct bench b;

	victim_build(GO_BUILD "-ldflags=-w -o @/loc_c tests/victims/loc_go.go");
	bench_start(&b, "loc_c");
	v = find(&b, "main.counter");
	assert_int_equal(v.addr, victim_shown(&b.v, "main.counter")->addr);
	assert_int_equal(v.size, 4);
	variable_deinit(&v);
	expect_refusal(&b, "main.stats.Hits", WC_ENAME, "type of 'main.stats' is not known");
	expect_refusal(&b, "main.countr", WC_ENAME, "'main.countr'|'main.counter'|no debug information");
	bench_stop(&b);
	victim_build(GO_BUILD "-ldflags='-s -w' -o @/loc_c tests/victims/loc_go.go");
	bench_start(&b, "loc_c");
	expect_refusal(&b, "main.counter", WC_ENAME, "'main.counter'|neither debug information nor symbols");
	bench_stop(&b);
}

/* Debian's compiler and, where there is another one in the path, that. */
static void check_rust(const char *flags, void (*check)(struct bench *b))
{
	static const char *const compilers[] = { "/usr/bin/rustc", "rustc" };
	bool built = false;

	for (size_t i = 0; i < 2; i++) {
		char command[256];
		struct bench b;

		snprintf(command, sizeof(command), "command -v %s >/dev/null", compilers[i]);
		if (!victim_sh(command))
			continue;
		snprintf(command, sizeof(command),
			 "%s -Awarnings --edition 2021 %s -o @/loc_c tests/victims/rusty.rs", compilers[i],
			 flags);
		built = true;
		if (!victim_sh(command))
			fail_msg("this command fails: %s", command);
		bench_start(&b, "loc_c");
		check(&b);
		bench_stop(&b);
	}
	if (built)
		return;
	print_message("skipped: rustc is not installed\n");
	skip();
}

static void check_rust_shown(struct bench *b)
{
	struct variable v;

	check_all_shown(b);
	v = find(b, "rusty::MINE");
	assert_true(v.thread_local_storage);
	variable_deinit(&v);
	v = find(b, "STATS");
	assert_string_equal(v.members, "hits, name, pair");
	variable_deinit(&v);
	expect_shown(b, "READY", "AtomicBool", "0");
	expect_shown(b, "server::inner::COUNT", "AtomicU64", "7");
	expect_refusal(b, "server::FLAGG", WC_ENAME, "'rusty::server::FLAG'");
	expect_shown(b, "LIST[1]", "u32", "2");
	expect_shown(b, "LIST[STATS.hits - 4]", "u32", "2");
	expect_shown(b, "server::TABLE[STATS.hits / 2]", "u16", "3");
	expect_refusal(b, "LIST[3]", WC_ENAME, "currently has 3 elements: [3]");
	expect_refusal(b, "LOCKED[0]", WC_ENAME, "Mutex<u64>|found by an index|data");
	v = find(b, "LIST[2]");
	assert_int_equal(v.npointers, 1); /* what --follow follows */
	variable_deinit(&v);
}

static void rust_variables_are_found_by_crate(void **state)
{
	check_rust("-g", check_rust_shown);
	check_rust("-g -O", check_rust_shown);
}

/* Paths need types; names do not. */
static void check_rust_names(struct bench *b)
{
	struct variable v;

	for (size_t i = 0; i < b->v.n; i++) {
		const struct shown *s = &b->v.shown[i];

		if (strpbrk(s->expr, ".["))
			continue;
		v = find(b, s->expr);
		if (v.addr != s->addr || v.size != s->size)
			fail_msg("%s: found %#lx size %lu, is %#lx size %lu", s->expr, v.addr, v.size,
				 s->addr, s->size);
		variable_deinit(&v);
	}
	v = find(b, "MINE");
	assert_true(v.thread_local_storage);
	assert_string_equal(v.name, "rusty::MINE");
	variable_deinit(&v);
}

static void rust_names_do_without_debug_information(void **state)
{
	check_rust("", check_rust_names);
	check_rust("-C symbol-mangling-version=v0", check_rust_names);
}

static void a_copied_library_variable_is_found_in_the_executable(void **state)
{
	check_program("gcc -g -shared -fPIC -o @/libloc.so tests/victims/loc_lib.c && "
		      "gcc -o @/loc_c tests/victims/loc_user.c @/libloc.so -Wl,-rpath,@");
	check_program("gcc -g -shared -fPIC -o @/libloc.so tests/victims/loc_lib.c && "
		      "gcc -g -no-pie -fno-pie -o @/loc_c tests/victims/loc_user.c @/libloc.so -Wl,-rpath,@");
}

static void start_c(struct bench *b)
{
	victim_build("gcc -g -o @/loc_c" C_SOURCES);
	bench_start(b, "loc_c");
}

static void values_show_as_their_types(void **state)
{
	struct bench b;

	start_c(&b);
	expect_shown(&b, "flag", "int", "1");
	expect_shown(&b, "only_here", "volatile int", "3");
	expect_shown(&b, "color", "enum color", "BLUE");
	expect_shown(&b, "flags", "enum flags", "FLAG_A|FLAG_C");
	expect_shown(&b, "truth", "_Bool", "true");
	expect_shown(&b, "letter", "char", "'a' (97)");
	expect_shown(&b, "ratio", "double", "3.25");
	expect_shown(&b, "small", "float", "0.1");
	expect_shown(&b, "byte", "uint8_t", "200");
	expect_shown(&b, "*text", "const char", "'h' (104)");
	expect_shown(&b, "text[4]", "const char", "'o' (111)");
	expect_shown(&b, "atomic_count", "_Atomic int", "77");
	expect_shown(&b, "head->next->len", "int", "20");
	expect_shown(&b, "nowhere", "struct node *", "0x0");
	expect_shown(&b, "wild", "struct node *", "0x1000");
	bench_stop(&b);
}

static void bit_fields_have_a_unit_and_a_place_in_it(void **state)
{
	struct bench b;

	start_c(&b);
	expect_shown(&b, "bits.low", "unsigned int", "5");
	expect_shown(&b, "bits.middle", "int", "-2");
	expect_shown(&b, "bits.high", "unsigned int", "1000");
	expect_shown(&b, "bits.across", "long unsigned int", "123456789");
	expect_shown(&b, "packed.a", "unsigned int", "17");
	expect_shown(&b, "packed.b", "unsigned int", "9000");
	bench_stop(&b);
	victim_build("gcc -gdwarf-2 -gstrict-dwarf -o @/loc_c" C_SOURCES);
	bench_start(&b, "loc_c");
	expect_shown(&b, "bits.middle", "int", "-2");
	expect_shown(&b, "bits.across", "long unsigned int", "123456789");
	expect_shown(&b, "packed.b", "unsigned int", "9000");
	bench_stop(&b);
}

static void expect_type_name(struct bench *b, const char *expr, const char *want)
{
	struct variable v = find(b, expr);

	assert_string_equal(v.type.name, want);
	variable_deinit(&v);
}

static void types_are_named_as_in_the_source(void **state)
{
	struct bench b;

	start_c(&b);
	expect_type_name(&b, "head", "struct node *");
	expect_type_name(&b, "indirect", "struct node **");
	expect_type_name(&b, "grid", "int [4][5][6]");
	expect_type_name(&b, "grid[1]", "int [5][6]");
	expect_type_name(&b, "function_pointer", "int (*)(void)");
	expect_type_name(&b, "text", "const char *");
	expect_type_name(&b, "first.half", "uint32_t [2]");
	bench_stop(&b);
}

static void an_aggregate_offers_what_is_inside(void **state)
{
	struct variable v;
	struct bench b;

	start_c(&b);
	v = find(&b, "first");
	assert_string_equal(v.members, "next, len, x, y, wide, half");
	variable_deinit(&v);
	v = find(&b, "grid");
	assert_string_equal(v.members, "[0] .. [3]");
	variable_deinit(&v);
	v = find(&b, "flag");
	assert_null(v.members);
	assert_non_null(strstr(v.decl_file, "loc_c.c"));
	assert_true(v.decl_line > 0);
	assert_string_equal(v.name, "flag");
	variable_deinit(&v);
	bench_stop(&b);
}

static void errors_say_what_and_what_to_try(void **state)
{
	struct bench b;

	start_c(&b);
	expect_refusal(&b, "flagg", WC_ENAME, "no variable 'flagg'|Did you mean 'flag'");
	expect_refusal(&b, "twin", WC_ENAME, "2 variables|\n  loc_c.c:twin|\n  loc_c2.c:twin");
	expect_refusal(&b, "calls", WC_ENAME, "2 variables|\n  counter::calls|\n  other_counter::calls");
	expect_refusal(&b, "on_the_stack", WC_ENAME, "main::on_the_stack|local variable");
	expect_refusal(&b, "nowhere->len", WC_ENAME, "'nowhere' is currently a null pointer");
	expect_refusal(&b, "wild->len", WC_ENAME, "0x1000|not mapped");
	expect_refusal(&b, "first.zz", WC_ENAME, "no member 'zz'|next, len, x, y, wide, half");
	expect_refusal(&b, "table[3]", WC_ENAME, "3 elements|[0] to [2]");
	expect_refusal(&b, "table[-1]", WC_ENAME, "3 elements");
	expect_refusal(&b, "head.len", WC_ENAME, "head->len");
	expect_refusal(&b, "first->len", WC_ENAME, "first.len");
	expect_refusal(&b, "flag[0]", WC_ENAME, "neither an array nor a pointer");
	expect_refusal(&b, "flag.x", WC_ENAME, "'int'|no members");
	expect_refusal(&b, "*flag", WC_ENAME, "not a pointer");
	expect_refusal(&b, "bits.low.x", WC_ENAME, "bit field");
	expect_refusal(&b, "loc_d.c:flag", WC_ENAME, "No source file 'loc_d.c'|'loc_c.c'");
	expect_refusal(&b, "loc_c.c:flug", WC_ENAME, "no variable 'flug' in loc_c.c|'loc_c.c:flag'");
	bench_stop(&b);
}

static void expect_pointers(struct bench *b, const struct variable *v, const char *first, const char *second)
{
	unsigned int n = (first != NULL) + (second != NULL);

	assert_int_equal(v->npointers, n);
	if (first)
		assert_int_equal(v->pointer[0], victim_shown(&b->v, first)->addr);
	if (second)
		assert_int_equal(v->pointer[1], victim_shown(&b->v, second)->addr);
}

/* Whoever follows a path watches them. */
static void the_pointers_on_a_path_are_reported(void **state)
{
	static const struct {
		const char *expr, *first, *second;
	} cases[] = {
		{ "head->len", "head", NULL },
		{ "head->next->len", "head", "head->next" },
		{ "*head", "head", NULL },
		{ "head[0].len", "head", NULL },
		{ "(*indirect)->y", "indirect", "head" },
		{ "**indirect", "indirect", "head" },
		{ "head->next", "head", NULL },
		{ "table->len", NULL, NULL },
		{ "flag", NULL, NULL },
		{ "**grid[1]", NULL, NULL },
	};
	struct bench b;

	start_c(&b);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct variable v = find(&b, cases[i].expr);

		expect_pointers(&b, &v, cases[i].first, cases[i].second);
		assert_false(v.null_pointer);
		variable_deinit(&v);
	}
	bench_stop(&b);
}

static void a_path_that_ends_at_a_pointer_says_which(void **state)
{
	static const struct {
		const char *expr, *first, *second;
	} cases[] = {
		{ "nowhere->len", "nowhere", NULL },
		{ "nowhere->next->len", "nowhere", NULL },
		{ "wild->len", "wild", NULL },
		{ "head->next->next->len", "head", "head->next" },
	};
	struct variable v = { 0 };
	struct wc_error *err;
	struct bench b;

	start_c(&b);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		bool third = strstr(cases[i].expr, "next->next");

		v = (struct variable){ 0 };
		err = locate(b.l, cases[i].expr, &b.modules, &b.mem, &v, NULL);
		assert_non_null(err);
		assert_int_equal(err->kind, WC_ENAME);
		assert_true(v.null_pointer);
		v.npointers -= third;
		expect_pointers(&b, &v, cases[i].first, cases[i].second);
		if (third)
			assert_int_equal(v.pointer[2], victim_shown(&b.v, "head->next->len")->addr -
							       offsetof(
								       struct {
									       void *next;
									       int len;
								       },
								       len));
		assert_null(v.name);
		wc_error_free(err);
	}
	v = (struct variable){ 0 };
	err = locate(b.l, "head->zz", &b.modules, &b.mem, &v, NULL);
	assert_non_null(err);
	assert_false(v.null_pointer);
	wc_error_free(err);
	bench_stop(&b);
}

static void every_candidate_of_an_ambiguous_name_selects_one(void **state)
{
	static const char *const names[] = { "twin", "calls" };
	struct bench b;

	start_c(&b);
	for (size_t i = 0; i < 2; i++) {
		struct variable v = { 0 };
		struct wc_error *err = locate(b.l, names[i], &b.modules, &b.mem, &v, NULL);
		uint64_t seen = 0;
		char *save = NULL;
		unsigned int n = 0;

		assert_non_null(err);
		strtok_r(err->text, "\n", &save);
		for (char *line; (line = strtok_r(NULL, "\n", &save)); n++) {
			v = find(&b, line);
			assert_int_not_equal(v.addr, seen);
			seen = v.addr;
			variable_deinit(&v);
		}
		assert_int_equal(n, 2);
		wc_error_free(err);
	}
	bench_stop(&b);
}

static void an_optimised_out_variable_is_called_so(void **state)
{
	struct bench b;

	victim_build("gcc -O2 -g -o @/loc_c -x c - <<'END'\n"
		     "#include \"tests/victims/loc_show.h\"\n"
		     "static int folded = 5;\nint kept = 1;\n"
		     "int main(void) { SHOW(kept); show_done(); return folded; }\nEND");
	bench_start(&b, "loc_c");
	expect_refusal(&b, "folded", WC_ENAME, "'folded' was optimised out");
	bench_stop(&b);
}

static void a_missing_module_is_kept_apart_from_a_missing_name(void **state)
{
	struct variable v = { 0 };
	struct wc_error *err;
	bool missing = false;
	struct bench b;

	start_c(&b);
	err = locate(b.l, "libplugin.so:state", &b.modules, &b.mem, &v, &missing);
	assert_non_null(err);
	assert_true(missing);
	assert_non_null(strstr(err->text, "No module 'libplugin.so' is loaded"));
	assert_non_null(strstr(err->text, "libc.so.6"));
	wc_error_free(err);
	err = locate(b.l, "libc.so.6:no_such_thing_at_all", &b.modules, &b.mem, &v, &missing);
	assert_non_null(err);
	assert_false(missing);
	wc_error_free(err);
	err = locate(b.l, "nosuch.c:flag", &b.modules, &b.mem, &v, &missing);
	assert_non_null(err);
	assert_false(missing);
	wc_error_free(err);
	bench_stop(&b);
}

static void module_prefixes_take_every_form(void **state)
{
	static const char *const forms[] = { "loc_c:flag", "loc_c:loc_c.c:flag", "loc_c : flag" };
	struct variable v;
	struct bench b;
	char path[96];

	start_c(&b);
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		v = find(&b, forms[i]);
		assert_int_equal(v.addr, victim_shown(&b.v, "flag")->addr);
		variable_deinit(&v);
	}
	snprintf(path, sizeof(path), "%s/loc_c:flag", victim_dir);
	v = find(&b, path);
	assert_int_equal(v.addr, victim_shown(&b.v, "flag")->addr);
	variable_deinit(&v);
	bench_stop(&b);
}

static void a_stripped_program_is_searched_by_its_exports(void **state)
{
	struct variable v;
	struct bench b;

	victim_build("gcc -g -o @/loc_c" C_SOURCES " -rdynamic && strip @/loc_c");
	bench_start(&b, "loc_c");
	v = find(&b, "flag");
	assert_int_equal(v.addr, victim_shown(&b.v, "flag")->addr);
	assert_int_equal(v.size, 4);
	assert_int_equal(v.type.kind, VALUE_UNKNOWN);
	assert_null(v.type.name);
	variable_deinit(&v);
	expect_refusal(&b, "first.len", WC_ENAME, "type of 'first' is not known|0x...:SIZE");
	expect_refusal(&b, "loc_c:twin", WC_ENAME, "no variable 'twin'|no debug information");
	bench_stop(&b);
}

static void a_function_is_no_variable(void **state)
{
	struct bench b;
	char addr[80];

	victim_build("gcc -g -o @/place tests/victims/loc_place.c");
	bench_start(&b, "place");
	snprintf(addr, sizeof(addr), "'main' is a function|-x|0x%lx:1", victim_shown(&b.v, "main")->addr);
	expect_refusal(&b, "main", WC_ENAME, addr);
	bench_stop(&b);
}

static void cxx_values_and_ambiguities(void **state)
{
	struct bench b;

	victim_build("g++ -std=c++17 -g -o @/loc_c" CXX_SOURCE);
	bench_start(&b, "loc_c");
	expect_shown(&b, "mode", "Mode", "Busy");
	expect_shown(&b, "pointer->in_virtual", "int", "12");
	expect_shown(&b, "holder.to.own", "int", "13");
	expect_shown(&b, "ns::Box<int,3>::count", "int", "5");
	expect_refusal(&b, "same", WC_ENAME, "other::same|third::same");
	expect_refusal(&b, "row[3]", WC_ENAME, "currently has 3 elements: [3]");
	expect_refusal(&b, "tree[1]", WC_ENAME, "map<int|found by an index|0x...:SIZE");
	expect_refusal(&b, "bits[1]", WC_ENAME, "found by an index");
	expect_shown(&b, "choice", "Choice", "SECOND");
	expect_refusal(&b, "ns::Counted::instnces", WC_ENAME, "'ns::Counted::instances'");
	bench_stop(&b);
}

static void an_address_is_taken_as_it_is(void **state)
{
	struct module prog = { .start = 0x2000, .end = 0x3000, .path = (char *)"/bin/prog" };
	const struct module_list none = { 0 }, modules = { .v = &prog, .n = 1 };
	struct locator *l = locator_new();
	struct variable v;

	assert_null(locate(l, "0x7f0012345678", &none, NULL, &v, NULL));
	assert_int_equal(v.addr, 0x7f0012345678);
	assert_int_equal(v.size, 0);
	assert_null(v.module);
	variable_deinit(&v);
	assert_null(locate(l, " 0x1000 : 8 ", &none, NULL, &v, NULL));
	assert_int_equal(v.addr, 0x1000);
	assert_int_equal(v.size, 8);
	variable_deinit(&v);
	assert_null(locate(l, "0x2010", &modules, NULL, &v, NULL));
	assert_string_equal(v.module, "/bin/prog");
	variable_deinit(&v);
	locator_free(l);
}

static void malformed_expressions_are_usage_errors_with_a_caret(void **state)
{
	static const struct {
		const char *text, *expected;
		unsigned int column;
	} cases[] = {
		{ "", "the name of a variable", 1 },
		{ "flag.", "the name of a member after '.'", 6 },
		{ "a->", "the name of a member after '->'", 4 },
		{ "a[1", "']'", 4 },
		{ "a[]", "a number inside '[ ]'", 3 },
		{ "a[99999999999999999999]", "fits in 64 bits", 3 },
		{ "(a", "')'", 3 },
		{ "a b", "the end", 3 },
		{ "a)", "the end", 2 },
		{ "-", "the name of a variable", 2 },
		{ "file.c:", "the name of a variable", 8 },
		{ ":x", "before ':'", 1 },
		{ "ns::", "a name", 5 },
		{ "0x12q", "':' and a size", 5 },
		{ "0x12:", "a size in bytes", 6 },
		{ "0x12:x", "a size in bytes", 6 },
		{ "0x11112222333344445", "fits in 64 bits", 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct locate_expr e;
		struct wc_error *err = locate_parse(cases[i].text, &e);
		char caret[64];

		assert_non_null(err);
		assert_int_equal(err->kind, WC_EUSAGE);
		snprintf(caret, sizeof(caret), "column %u of the expression:\n  %s\n  %*s^", cases[i].column,
			 cases[i].text, (int)cases[i].column - 1, "");
		if (!strstr(err->text, cases[i].expected) || !strstr(err->text, caret))
			fail_msg("%s", err->text);
		wc_error_free(err);
	}
}

static void parse(const char *text, struct locate_expr *e)
{
	struct wc_error *err = locate_parse(text, e);

	if (err)
		fail_msg("%s", err->text);
}

static void names_of_other_languages_are_one_name(void **state)
{
	static const struct {
		const char *text, *prefix, *base;
		size_t steps;
	} cases[] = {
		{ "ns::Class::member", NULL, "ns::Class::member", 0 },
		{ "::global", NULL, "global", 0 },
		{ "file.cc:ns::x", "file.cc", "ns::x", 0 },
		{ "file.cc:::x", "file.cc", "x", 0 },
		{ "(anonymous namespace)::x.y", NULL, "(anonymous namespace)::x", 1 },
		{ "std::map<int, a::b>::end_", NULL, "std::map<int, a::b>::end_", 0 },
		{ "f(int, char)::calls", NULL, "f(int, char)::calls", 0 },
		{ "krate::{impl#0}::NAME", NULL, "krate::{impl#0}::NAME", 0 },
		{ "github.com/a-b/c.Pool.size", NULL, "github.com/a-b/c", 2 },
		{ "main.counter", NULL, "main", 1 },
		{ "/usr/lib/libx.so.1:var[2]", "/usr/lib/libx.so.1", "var", 1 },
		{ "lib-a+b.so:v", "lib-a+b.so", "v", 0 },
		{ "3d.c:v", "3d.c", "v", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct locate_expr e;

		parse(cases[i].text, &e);
		assert_string_equal(e.base, cases[i].base);
		assert_int_equal(e.nsteps, cases[i].steps);
		if (cases[i].prefix)
			assert_string_equal(e.prefix[0], cases[i].prefix);
		else
			assert_int_equal(e.nprefixes, 0);
		locate_expr_deinit(&e);
	}
}

/* "*p->q" is *(p->q), as in C. */
static void a_star_applies_last(void **state)
{
	struct locate_expr e;

	parse("*p->q[3]", &e);
	assert_int_equal(e.nsteps, 3);
	assert_int_equal(e.step[0].op, LOCATE_ARROW);
	assert_int_equal(e.step[1].op, LOCATE_INDEX);
	assert_int_equal(e.step[1].index[0], 3);
	assert_int_equal(e.step[2].op, LOCATE_DEREF);
	locate_expr_deinit(&e);
	parse("(*p).q", &e);
	assert_int_equal(e.step[0].op, LOCATE_DEREF);
	assert_int_equal(e.step[1].op, LOCATE_MEMBER);
	locate_expr_deinit(&e);
}

static void deep_nesting_is_an_error_not_a_crash(void **state)
{
	char text[4096];
	struct locate_expr e;
	struct wc_error *err;

	memset(text, '(', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	err = locate_parse(text, &e);
	assert_non_null(err);
	wc_error_free(err);
	memset(text, '<', sizeof(text) - 1);
	text[0] = 'a';
	err = locate_parse(text, &e);
	assert_non_null(err);
	wc_error_free(err);
}

/* libc's debug information is compressed by dwz and in a separate file: still well below a second of the CPU's time. */
static void the_first_lookup_in_libc_is_quick(void **state)
{
	struct variable v = { 0 };
	struct wc_error *err;
	struct bench b;
	uint64_t ns;

	start_c(&b);
	ns = cpu_ns();
	err = locate(b.l, "libc.so.6:main_arena.system_mem", &b.modules, &b.mem, &v, NULL);
	ns = cpu_ns() - ns;
	if (err) {
		print_message("skipped: no debug information of libc: %s\n", err->text);
		wc_error_free(err);
		bench_stop(&b);
		skip();
	}
	assert_in_range(ns, 0, wait_ns() / 30);
	assert_int_equal(v.size, 8);
	assert_int_equal(v.type.kind, VALUE_UNSIGNED);
	assert_string_equal(v.name, "libc.so.6:main_arena.system_mem");
	variable_deinit(&v);
	bench_stop(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c_variables_are_where_the_compiler_says),
		cmocka_unit_test(optimised_c_is_no_different),
		cmocka_unit_test(link_time_optimised_c_is_no_different),
		cmocka_unit_test(old_dwarf_is_no_different),
		cmocka_unit_test(compressed_and_separate_debug_information_is_found),
		cmocka_unit_test(split_debug_information_is_found),
		cmocka_unit_test(clang_is_no_different),
		cmocka_unit_test(cxx_variables_are_where_the_compiler_says),
		cmocka_unit_test(what_is_in_a_namespace_without_a_name_is_of_its_file),
		cmocka_unit_test(clang_cxx_is_no_different),
		cmocka_unit_test(go_variables_are_found_by_package),
		cmocka_unit_test(stripped_go_programs_say_so),
		cmocka_unit_test(rust_variables_are_found_by_crate),
		cmocka_unit_test(rust_names_do_without_debug_information),
		cmocka_unit_test(a_copied_library_variable_is_found_in_the_executable),
		cmocka_unit_test(values_show_as_their_types),
		cmocka_unit_test(bit_fields_have_a_unit_and_a_place_in_it),
		cmocka_unit_test(types_are_named_as_in_the_source),
		cmocka_unit_test(an_aggregate_offers_what_is_inside),
		cmocka_unit_test(errors_say_what_and_what_to_try),
		cmocka_unit_test(the_pointers_on_a_path_are_reported),
		cmocka_unit_test(a_path_that_ends_at_a_pointer_says_which),
		cmocka_unit_test(every_candidate_of_an_ambiguous_name_selects_one),
		cmocka_unit_test(an_optimised_out_variable_is_called_so),
		cmocka_unit_test(a_missing_module_is_kept_apart_from_a_missing_name),
		cmocka_unit_test(module_prefixes_take_every_form),
		cmocka_unit_test(a_stripped_program_is_searched_by_its_exports),
		cmocka_unit_test(a_function_is_no_variable),
		cmocka_unit_test(cxx_values_and_ambiguities),
		cmocka_unit_test(an_address_is_taken_as_it_is),
		cmocka_unit_test(malformed_expressions_are_usage_errors_with_a_caret),
		cmocka_unit_test(names_of_other_languages_are_one_name),
		cmocka_unit_test(a_star_applies_last),
		cmocka_unit_test(deep_nesting_is_an_error_not_a_crash),
		cmocka_unit_test(the_first_lookup_in_libc_is_quick),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
