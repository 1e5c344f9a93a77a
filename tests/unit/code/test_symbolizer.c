/* symbolizer: addr2line, the source's own line numbers and the victim's addresses are the oracles. */
#include "tests/unit/loc_victim.h"

#include <sys/auxv.h>
#include <time.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/symbols/symbolizer.h"

struct bench {
	struct victim v;
	struct module_list modules;
	struct symbolizer *s;
};

static void read_modules(struct bench *b, pid_t pid)
{
	struct wc_error *err = module_list_read(pid, &b->modules);

	assert_null(err);
	b->s = symbolizer_new();
	assert_non_null(b->s);
	for (size_t i = 0; i < b->modules.n; i++)
		assert_true(symbolizer_add(b->s, &b->modules.v[i]));
}

static void bench_start(struct bench *b, const char *command)
{
	memset(b, 0, sizeof(*b));
	victim_build(command);
	victim_start(&b->v, "calls");
	read_modules(b, b->v.pid);
}

static void bench_stop(struct bench *b)
{
	symbolizer_free(b->s);
	module_list_deinit(&b->modules);
	victim_stop(&b->v);
}

static uint64_t shown(const struct bench *b, const char *name)
{
	return victim_shown(&b->v, name)->addr;
}

/* The line of loc_calls.c that holds @comment. */
static unsigned int line_of(const char *comment)
{
	FILE *f = fopen("tests/victims/loc_calls.c", "r");
	unsigned int line = 0;
	char text[256];

	assert_non_null(f);
	while (fgets(text, sizeof(text), f)) {
		line++;
		if (strstr(text, comment)) {
			fclose(f);
			return line;
		}
	}
	fail_msg("no line with '%s'", comment);
	return 0;
}

static void expect_frame(const struct frame_name *f, const char *function, unsigned int line)
{
	assert_string_equal(f->function, function);
	assert_non_null(strstr(f->file, "loc_calls.c"));
	assert_int_equal(f->line, line);
}

/* The nop of innermost() stands two lines below the comment. */
static void inlined_calls_are_listed_innermost_first(void **state)
{
	static const char *const builds[] = { "gcc -O2 -g -o @/calls tests/victims/loc_calls.c",
					      "clang -O2 -g -o @/calls tests/victims/loc_calls.c",
					      "gcc -O2 -g -gdwarf-4 -o @/calls tests/victims/loc_calls.c",
					      "gcc -O2 -g -flto -o @/calls tests/victims/loc_calls.c",
					      ("src=$PWD && cd @ && gcc -O2 -g -gsplit-dwarf -c -o calls.o "
					       "$src/tests/victims/loc_calls.c && gcc -o calls calls.o"),
					      "clang -O2 -g -gdwarf-4 -o @/calls tests/victims/loc_calls.c" };

	for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++) {
		const struct location *loc;
		struct bench b;

		bench_start(&b, builds[i]);
		loc = symbolizer_lookup(b.s, shown(&b, "innermost_here"));
		assert_int_equal(loc->nframes, 3);
		expect_frame(&loc->frame[0], "innermost", line_of("/* line of innermost */") + 1);
		expect_frame(&loc->frame[1], "middle", line_of("/* line of middle */"));
		expect_frame(&loc->frame[2], "outer", line_of("/* line of outer */"));
		assert_int_equal(loc->function_start, shown(&b, "outer"));
		assert_int_equal(loc->offset, shown(&b, "innermost_here") - shown(&b, "outer"));
		assert_false(loc->stale);
		bench_stop(&b);
	}
}

static void without_debug_information_symbols_give_names(void **state)
{
	const struct location *loc;
	uint64_t start, end;
	struct bench b;

	bench_start(&b, "gcc -O2 -o @/calls tests/victims/loc_calls.c");
	loc = symbolizer_lookup(b.s, shown(&b, "outer") + 1);
	assert_int_equal(loc->nframes, 1);
	assert_string_equal(loc->frame[0].function, "outer");
	assert_null(loc->frame[0].file);
	assert_int_equal(loc->frame[0].line, 0);
	assert_int_equal(loc->offset, 1);
	assert_true(symbolizer_function(b.s, shown(&b, "outer") + 1, &start, &end));
	assert_int_equal(start, shown(&b, "outer"));
	assert_true(end > start + 1);
	bench_stop(&b);
}

static void a_stripped_program_gives_module_and_offset_only(void **state)
{
	const struct location *loc;
	uint64_t start, end;
	struct bench b;

	bench_start(&b, "gcc -O2 -o @/calls tests/victims/loc_calls.c && strip @/calls");
	loc = symbolizer_lookup(b.s, shown(&b, "outer"));
	assert_non_null(strstr(loc->module, "/calls"));
	assert_int_equal(loc->module_offset, shown(&b, "outer") - module_by_name(&b.modules, "calls")->bias);
	assert_int_equal(loc->nframes, 1);
	assert_null(loc->frame[0].function);
	assert_int_equal(loc->function_start, 0);
	assert_false(symbolizer_function(b.s, shown(&b, "outer"), &start, &end));
	bench_stop(&b);
}

static void a_part_split_off_has_its_own_name_and_start(void **state)
{
	uint64_t start, end;
	const struct location *loc;
	struct bench b;
	FILE *f;
	unsigned long cold = 0;
	char command[160];

	bench_start(&b, "gcc -O2 -g -o @/calls tests/victims/loc_calls.c");
	snprintf(command, sizeof(command), "nm %s/calls | sed -n 's/ t main.cold$//p'", victim_dir);
	f = popen(command, "r");
	assert_non_null(f);
	if (fscanf(f, "%lx", &cold) != 1) {
		print_message("skipped: this compiler splits nothing off\n");
		pclose(f);
		bench_stop(&b);
		skip();
	}
	pclose(f);
	cold += module_by_name(&b.modules, "calls")->bias;
	loc = symbolizer_lookup(b.s, cold + 1);
	assert_string_equal(loc->frame[loc->nframes - 1].function, "main.cold");
	assert_int_equal(loc->function_start, cold);
	assert_int_equal(loc->offset, 1);
	assert_true(symbolizer_function(b.s, cold + 1, &start, &end));
	assert_int_equal(start, cold);
	bench_stop(&b);
}

static void assembler_labels_without_size_reach_to_the_next(void **state)
{
	const struct location *loc;
	uint64_t start, end;
	struct bench b;

	bench_start(&b, "gcc -o @/calls -x c tests/victims/loc_calls.c -x assembler - <<'END'\n"
			"\t.text\n\t.globl first_label, second_label\n"
			"first_label:\n\tnop\n\tnop\nsecond_label:\n\tret\n"
			"\t.section .note.GNU-stack,\"\"\nEND");
	start = 0;
	for (uint64_t a = shown(&b, "main"); a < shown(&b, "main") + 0x400 && !start; a++) {
		loc = symbolizer_lookup(b.s, a);
		if (loc->frame[0].function && strcmp(loc->frame[0].function, "first_label") == 0)
			start = a;
	}
	assert_int_not_equal(start, 0);
	loc = symbolizer_lookup(b.s, start + 1);
	assert_string_equal(loc->frame[0].function, "first_label");
	assert_int_equal(loc->offset, 1);
	assert_string_equal(symbolizer_lookup(b.s, start + 2)->frame[0].function, "second_label");
	assert_true(symbolizer_function(b.s, start, &start, &end));
	assert_int_equal(end, start + 2);
	bench_stop(&b);
}

static void cxx_names_are_demangled_with_and_without_debug_information(void **state)
{
	static const char *const flags[] = { "-g", "" };

	for (size_t i = 0; i < 2; i++) {
		const struct location *loc;
		char command[512];
		struct bench b;

		snprintf(command, sizeof(command),
			 "g++ %s -O0 -o @/calls -x c++ - <<'END'\n"
			 "#include \"tests/victims/loc_show.h\"\n"
			 "namespace ns { template <typename T> struct Box { __attribute__((noinline)) int "
			 "get(T, long) const "
			 "{ return 1; } }; }\n"
			 "static int file_local(char) { return 2; }\n"
			 "int main() { ns::Box<int> b; auto p = &ns::Box<int>::get; b.get(1, 2); "
			 "file_local(1);\n"
			 "printf(\"get\\t%%p\\t1\\nlocal\\t%%p\\t1\\n\", *(void **)&p, (void *)file_local); "
			 "show_done(); }\nEND",
			 flags[i]);
		bench_start(&b, command);
		loc = symbolizer_lookup(b.s, shown(&b, "get") + 1);
		assert_string_equal(loc->frame[0].function, "ns::Box<int>::get(int, long) const");
		loc = symbolizer_lookup(b.s, shown(&b, "local") + 1);
		assert_string_equal(loc->frame[0].function, "file_local(char)");
		bench_stop(&b);
	}
}

static void data_symbols_have_offsets(void **state)
{
	struct bench b;
	char text[64];

	bench_start(&b, "gcc -O2 -g -o @/calls tests/victims/loc_calls.c");
	assert_true(symbolizer_data_name(b.s, shown(&b, "table[1]"), text, sizeof(text)));
	assert_string_equal(text, "table+0x4");
	assert_true(symbolizer_data_name(b.s, shown(&b, "table[1]") - 4, text, sizeof(text)));
	assert_string_equal(text, "table");
	assert_true(symbolizer_data_name(b.s, shown(&b, "main"), text, sizeof(text)));
	assert_string_equal(text, "main");
	assert_false(symbolizer_data_name(b.s, 0x10, text, sizeof(text)));
	bench_stop(&b);
}

static void an_address_outside_everything_has_a_place_all_the_same(void **state)
{
	struct symbolizer *s = symbolizer_new();
	const struct location *loc = symbolizer_lookup(s, 0x1234);

	assert_non_null(loc);
	assert_null(loc->module);
	assert_int_equal(loc->nframes, 1);
	assert_null(loc->frame[0].function);
	symbolizer_free(s);
}

/* The process may be gone: names come from the files. And a replaced file must not lend its names. */
static void a_replaced_file_is_stale_and_gives_no_names(void **state)
{
	const struct location *loc;
	struct bench b;
	uint64_t outer;

	memset(&b, 0, sizeof(b));
	victim_build("gcc -O2 -Wl,--build-id=sha1 -o @/calls tests/victims/loc_calls.c");
	victim_start(&b.v, "calls");
	outer = shown(&b, "outer");
	read_modules(&b, b.v.pid);
	symbolizer_free(b.s);
	victim_stop(&b.v);
	assert_true(victim_sh("gcc -O0 -Wl,--build-id=sha1 -o @/calls tests/victims/loc_calls.c"));
	b.s = symbolizer_new();
	for (size_t i = 0; i < b.modules.n; i++)
		assert_true(symbolizer_add(b.s, &b.modules.v[i]));
	loc = symbolizer_lookup(b.s, outer);
	assert_true(loc->stale);
	assert_null(loc->frame[0].function);
	assert_non_null(strstr(loc->module, "/calls"));
	assert_true(victim_sh("rm @/calls"));
	symbolizer_free(b.s);
	b.s = symbolizer_new();
	for (size_t i = 0; i < b.modules.n; i++)
		assert_true(symbolizer_add(b.s, &b.modules.v[i]));
	loc = symbolizer_lookup(b.s, outer);
	assert_false(loc->stale);
	assert_null(loc->frame[0].function);
	symbolizer_free(b.s);
	module_list_deinit(&b.modules);
}

/* A deleted program is read through /proc while it lives, and its names stay when it ends. */
static void a_deleted_program_keeps_its_names_after_its_end(void **state)
{
	const struct location *loc;
	struct bench b;
	uint64_t outer;

	memset(&b, 0, sizeof(b));
	victim_build("gcc -O2 -g -o @/calls tests/victims/loc_calls.c");
	victim_start(&b.v, "calls");
	assert_true(victim_sh("rm @/calls"));
	read_modules(&b, b.v.pid);
	outer = shown(&b, "outer");
	victim_stop(&b.v);
	loc = symbolizer_lookup(b.s, outer);
	assert_false(loc->stale);
	assert_string_equal(loc->frame[loc->nframes - 1].function, "outer");
	symbolizer_free(b.s);
	module_list_deinit(&b.modules);
}

static void a_newer_module_takes_the_place_of_older_ones(void **state)
{
	struct module old = {
		.start = 0x1000, .end = 0x5000, .bias = 0x1000, .path = (char *)"/nowhere/old"
	};
	struct module new = {
		.start = 0x4000, .end = 0x6000, .bias = 0x4000, .path = (char *)"/nowhere/new"
	};
	struct symbolizer *s = symbolizer_new();
	const struct location *before, *after;

	assert_true(symbolizer_add(s, &old));
	before = symbolizer_lookup(s, 0x4100);
	assert_string_equal(before->module, "/nowhere/old");
	assert_true(symbolizer_add(s, &new));
	after = symbolizer_lookup(s, 0x4100);
	assert_string_equal(after->module, "/nowhere/new");
	assert_int_equal(after->module_offset, 0x100);
	assert_null(symbolizer_lookup(s, 0x1100)->module);
	/* what was handed out stays readable */
	assert_string_equal(before->module, "/nowhere/old");
	assert_int_equal(before->module_offset, 0x3100);
	symbolizer_remove(s, 0x4000, 0x4001);
	assert_null(symbolizer_lookup(s, 0x4100)->module);
	symbolizer_free(s);
}

static void a_repeated_lookup_is_the_same_object(void **state)
{
	struct bench b;
	const struct location *first;

	bench_start(&b, "gcc -O2 -g -o @/calls tests/victims/loc_calls.c");
	first = symbolizer_lookup(b.s, shown(&b, "outer"));
	assert_ptr_equal(symbolizer_lookup(b.s, shown(&b, "outer")), first);
	/* adding what is known already changes nothing */
	assert_true(symbolizer_add(b.s, module_by_name(&b.modules, "calls")));
	assert_ptr_equal(symbolizer_lookup(b.s, shown(&b, "outer")), first);
	bench_stop(&b);
}

static void the_vdso_has_names(void **state)
{
	struct bench b = { 0 };
	const struct location *loc = NULL;
	uint64_t base = getauxval(AT_SYSINFO_EHDR);
	bool found = false;

	read_modules(&b, getpid());
	for (uint64_t at = base; at < base + 0x1000 && !found; at += 16) {
		loc = symbolizer_lookup(b.s, at);
		assert_string_equal(loc->module, "[vdso]");
		found = loc->frame[0].function && strstr(loc->frame[0].function, "vdso_");
	}
	assert_true(found);
	symbolizer_free(b.s);
	module_list_deinit(&b.modules);
}

/* Compares functions and lines of many addresses of the program with addr2line's. */
static void lines_agree_with_addr2line(void **state)
{
	uint64_t start, end, bias;
	struct bench b;

	bench_start(&b, "gcc -O2 -g -o @/calls tests/victims/loc_calls.c");
	bias = module_by_name(&b.modules, "calls")->bias;
	assert_true(symbolizer_function(b.s, shown(&b, "main"), &start, &end));
	for (uint64_t a = start; a < end; a++) {
		const struct location *loc = symbolizer_lookup(b.s, a);
		char command[160], function[128], place[256];
		FILE *f;

		snprintf(command, sizeof(command), "addr2line -i -f -e %s/calls %#lx", victim_dir, a - bias);
		f = popen(command, "r");
		assert_non_null(f);
		for (size_t i = 0; i < loc->nframes; i++) {
			assert_non_null(fgets(function, sizeof(function), f));
			assert_non_null(fgets(place, sizeof(place), f));
			function[strcspn(function, "\n")] = '\0';
			assert_string_equal(loc->frame[i].function, function);
			if (strrchr(place, ':')[1] != '?')
				assert_int_equal(loc->frame[i].line,
						 strtoul(strrchr(place, ':') + 1, NULL, 10));
		}
		assert_null(fgets(function, sizeof(function), f));
		pclose(f);
	}
	bench_stop(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inlined_calls_are_listed_innermost_first),
		cmocka_unit_test(without_debug_information_symbols_give_names),
		cmocka_unit_test(a_stripped_program_gives_module_and_offset_only),
		cmocka_unit_test(a_part_split_off_has_its_own_name_and_start),
		cmocka_unit_test(assembler_labels_without_size_reach_to_the_next),
		cmocka_unit_test(cxx_names_are_demangled_with_and_without_debug_information),
		cmocka_unit_test(data_symbols_have_offsets),
		cmocka_unit_test(an_address_outside_everything_has_a_place_all_the_same),
		cmocka_unit_test(a_replaced_file_is_stale_and_gives_no_names),
		cmocka_unit_test(a_deleted_program_keeps_its_names_after_its_end),
		cmocka_unit_test(a_newer_module_takes_the_place_of_older_ones),
		cmocka_unit_test(a_repeated_lookup_is_the_same_object),
		cmocka_unit_test(the_vdso_has_names),
		cmocka_unit_test(lines_agree_with_addr2line),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
