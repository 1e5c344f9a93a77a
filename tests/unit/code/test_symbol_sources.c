/*
 * Where names come from: files made by gcc, objcopy, strip, eu-strip, dwz and xz in the test, each with its
 * debug information somewhere else. The source's own line numbers are the oracle.
 */
#include "tests/unit/loc_victim.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/module_elf.h"
#include "watchctl/code/elf/symbol_search.h"
#include "watchctl/code/symbols/symbolizer.h"

/* A program that ran once: what was mapped where, and an address in it with two inlined callers. */
struct scene {
	struct module_list modules;
	uint64_t innermost, outer, inside; /* inside: outer's second byte */
	struct symbol_search *search;
	struct symbolizer *s;
};

#define GCC "gcc -O2 -Wl,--build-id=sha1 -o @/calls tests/victims/loc_calls.c "

static void scene_build(struct scene *c, const char *command)
{
	struct victim v;

	memset(c, 0, sizeof(*c));
	victim_sh("rm -rf @/*");
	victim_build(command);
	victim_start(&v, "calls");
	c->innermost = victim_shown(&v, "innermost_here")->addr;
	c->outer = victim_shown(&v, "outer")->addr;
	c->inside = c->outer + 1;
	assert_null(module_list_read(v.pid, &c->modules));
	victim_stop(&v);
	c->search = symbol_search_new();
}

static struct module *scene_module(struct scene *c)
{
	return (struct module *)module_find(&c->modules, c->outer);
}

/* The files are as they are to be found: asks for names from here on. */
static void scene_open(struct scene *c)
{
	symbolizer_free(c->s);
	c->s = symbolizer_new();
	symbolizer_set_search(c->s, c->search);
	for (size_t i = 0; i < c->modules.n; i++)
		assert_true(symbolizer_add(c->s, &c->modules.v[i]));
}

static void scene_close(struct scene *c)
{
	symbolizer_free(c->s);
	symbol_search_free(c->search);
	module_list_deinit(&c->modules);
}

static void sh(const char *command)
{
	const char *missing = NULL;
	static const char *const tools[] = { "dwz ", "eu-strip ", "xz ", "objcopy " };

	if (victim_sh(command))
		return;
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
		char ask[64];

		snprintf(ask, sizeof(ask), "command -v %s >/dev/null", tools[i]);
		if (strstr(command, tools[i]) && system(ask) != 0)
			missing = tools[i];
	}
	if (!missing)
		fail_msg("this command fails: %s", command);
	print_message("skipped: %sis not installed\n", missing);
	skip();
}

static char *in_dir(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", victim_dir, name);
	return path;
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

static void expect_everything(struct scene *c)
{
	const struct location *l;

	scene_open(c);
	l = symbolizer_lookup(c->s, c->innermost);
	assert_int_equal(l->nframes, 3);
	assert_string_equal(l->frame[0].function, "innermost");
	assert_non_null(l->frame[0].file);
	assert_non_null(strstr(l->frame[0].file, "loc_calls.c"));
	assert_int_equal(l->frame[0].line, line_of("/* line of innermost */") + 1);
	assert_int_equal(l->frame[1].line, line_of("/* line of middle */"));
	assert_string_equal(l->frame[2].function, "outer");
	assert_int_equal(l->function_start, c->outer);
	assert_false(l->stale);
}

static void expect_no_lines(struct scene *c)
{
	scene_open(c);
	assert_null(symbolizer_lookup(c->s, c->innermost)->frame[0].file);
}

static void compressed_debug_sections(void **state)
{
	static const char *const forms[] = { "-gz=zlib", "-gz=zlib-gnu" };

	for (size_t i = 0; i < 2; i++) {
		struct scene c;
		char command[256];

		snprintf(command, sizeof(command), GCC "-g %s", forms[i]);
		scene_build(&c, command);
		expect_everything(&c);
		scene_close(&c);
	}
}

/* --only-keep-debug, --add-gnu-debuglink: next to the program, in .debug, and not if it is another's. */
static void a_debuglink_is_followed_to_the_file_of_the_same_build_id(void **state)
{
	struct scene c;

	scene_build(&c, GCC "-g");
	sh("cd @ && objcopy --only-keep-debug calls calls.dbg && strip calls && "
	   "objcopy --add-gnu-debuglink=calls.dbg calls");
	expect_everything(&c);
	sh("mkdir @/.debug && mv @/calls.dbg @/.debug/");
	expect_everything(&c);
	sh("gcc -O2 -g -DX -Wl,--build-id=sha1,-z,norelro -o @/other tests/victims/loc_calls.c && "
	   "objcopy --only-keep-debug @/other @/.debug/calls.dbg");
	expect_no_lines(&c);
	scene_close(&c);
}

static void without_build_ids_the_checksum_of_the_debuglink_decides(void **state)
{
	struct scene c;

	scene_build(&c, "gcc -O2 -g -Wl,--build-id=none -o @/calls tests/victims/loc_calls.c");
	sh("cd @ && objcopy --only-keep-debug calls calls.dbg && strip calls && "
	   "objcopy --add-gnu-debuglink=calls.dbg calls");
	expect_everything(&c);
	sh("printf x >>@/calls.dbg");
	expect_no_lines(&c);
	scene_close(&c);
}

static void eu_strip_leaves_a_debug_file_with_the_symbol_table(void **state)
{
	struct scene c;

	scene_build(&c, GCC "-g");
	sh("cd @ && eu-strip -f calls.debug calls");
	expect_everything(&c);
	scene_close(&c);
}

static void debug_files_are_found_in_a_folder_by_build_id(void **state)
{
	struct scene c;
	const uint8_t *id;
	char command[512], hex[2 * BUILD_ID_MAX + 1];

	scene_build(&c, GCC "-g");
	id = scene_module(&c)->build_id;
	for (size_t i = 0; i < scene_module(&c)->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	snprintf(command, sizeof(command),
		 "mkdir -p @/store/.build-id/%.2s && objcopy --only-keep-debug @/calls "
		 "@/store/.build-id/%.2s/%s.debug "
		 "&& strip @/calls",
		 hex, hex, hex + 2);
	sh(command);
	expect_no_lines(&c);
	assert_null(symbol_search_add_dir(c.search, in_dir("store")));
	expect_everything(&c);
	/* The program itself need not be there. */
	sh("rm @/calls");
	expect_everything(&c);
	scene_close(&c);
}

static void any_file_below_a_folder_will_do_if_its_build_id_is_right(void **state)
{
	struct scene c;

	scene_build(&c, GCC "-g");
	sh("mkdir -p @/mine/deep/er && mv @/calls @/mine/deep/er/something && "
	   "gcc -O1 -g -Wl,--build-id=sha1 -o @/mine/calls tests/victims/loc_calls.c && mkfifo @/mine/pipe "
	   "&& "
	   "echo text >@/mine/text && ln -s .. @/mine/round");
	expect_no_lines(&c);
	assert_null(symbol_search_add_dir(c.search, in_dir("mine")));
	expect_everything(&c);
	scene_close(&c);
}

static void dwz_files_are_followed_and_compared_by_build_id(void **state)
{
	struct scene c;

	/* dwz shares what several files have: two programs from one source. */
	scene_build(&c, GCC "-g");
	sh("gcc -O2 -g -DX -Wl,--build-id=sha1 -o @/second tests/victims/loc_calls.c && cd @ && "
	   "objcopy --only-keep-debug calls calls.dbg && objcopy --only-keep-debug second second.dbg && "
	   "strip calls second && objcopy --add-gnu-debuglink=calls.dbg calls && "
	   "dwz -m shared.dwz -M shared.dwz calls.dbg second.dbg && test -s shared.dwz && "
	   "objcopy --remove-section=.gnu_debuglink calls && objcopy --add-gnu-debuglink=calls.dbg calls");
	expect_everything(&c);
	/* Found by build id when it is not where the link says. */
	sh("mkdir @/moved && mv @/shared.dwz @/moved/any-name");
	assert_null(symbol_search_add_dir(c.search, in_dir("moved")));
	expect_everything(&c);
	scene_close(&c);
}

/* Made like rpm does: the symbols that .dynsym lacks, xz-compressed, in a section of the program. */
static void gnu_debugdata_names_functions_of_a_stripped_program(void **state)
{
	const struct location *l;
	struct scene c;

	scene_build(&c, GCC "");
	sh("cd @ && nm -D calls --format=posix --defined-only | awk '{print $1}' | sort >dynsyms && "
	   "nm calls --format=posix --defined-only | awk '{if ($2==\"T\"||$2==\"t\"||$2==\"D\") print $1}' | "
	   "sort >funcsyms && comm -13 dynsyms funcsyms >keep && objcopy --only-keep-debug calls mini && "
	   "objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols=keep mini mini.s "
	   "&& "
	   "strip --strip-all -R .comment calls && xz -f mini.s && objcopy --add-section "
	   ".gnu_debugdata=mini.s.xz calls");
	scene_open(&c);
	l = symbolizer_lookup(c.s, c.inside);
	assert_non_null(l->frame[0].function);
	assert_string_equal(l->frame[0].function, "outer");
	assert_int_equal(l->function_start, c.outer);
	scene_close(&c);
}

static void only_what_it_exports_is_known_of_a_stripped_library(void **state)
{
	struct module m = { .start = 0x10000000, .end = 0x10100000, .bias = 0x10000000 };
	struct symbolizer *s = symbolizer_new();
	char path[512];
	unsigned long at = 0;
	FILE *f;

	sh("gcc -shared -fPIC -O1 -s -Wl,--build-id=none -o @/lib.so -x c - <<'END'\n"
	   "__attribute__((noinline)) int exported(int a) { return a + 1; }\nEND");
	snprintf(path, sizeof(path), "nm -D %s/lib.so | sed -n 's/ T exported$//p'", victim_dir);
	f = popen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lx", &at), 1);
	pclose(f);
	m.path = in_dir("lib.so");
	assert_true(symbolizer_add(s, &m));
	assert_string_equal(symbolizer_lookup(s, m.bias + at)->frame[0].function, "exported");
	symbolizer_free(s);
}

static void a_sysroot_and_a_path_map_say_where_the_files_are(void **state)
{
	struct scene c;
	char command[1024];

	scene_build(&c, GCC "-g");
	snprintf(command, sizeof(command), "mkdir -p @/root%s && mv @/calls @/root%s/calls", victim_dir,
		 victim_dir);
	sh(command);
	expect_no_lines(&c);
	assert_null(symbol_search_set_sysroot(c.search, in_dir("root")));
	expect_everything(&c);
	symbol_search_free(c.search);
	c.search = symbol_search_new();
	sh("mv @/root/tmp/loc* @/there");
	expect_no_lines(&c);
	snprintf(command, sizeof(command), "%s/there", victim_dir);
	assert_null(symbol_search_map_path(c.search, victim_dir, command));
	expect_everything(&c);
	scene_close(&c);
}

static void wrong_folders_are_errors_that_say_so(void **state)
{
	struct symbol_search *search = symbol_search_new();
	struct wc_error *err = symbol_search_add_dir(search, "/nonexistent/folder");

	assert_non_null(err);
	assert_non_null(strstr(err->text, "/nonexistent/folder"));
	wc_error_free(err);
	err = symbol_search_set_sysroot(search, "/etc/passwd");
	assert_non_null(err);
	assert_non_null(strstr(err->text, "not a folder"));
	wc_error_free(err);
	err = symbol_search_map_path(search, "relative", "/x");
	assert_non_null(err);
	wc_error_free(err);
	symbol_search_free(search);
}

/* A server is only asked when that is allowed; what was fetched before is used always. */
static void debuginfod_is_asked_only_when_that_is_allowed(void **state)
{
	struct scene c;
	char command[1024], hex[2 * BUILD_ID_MAX + 1], urls[600];

	scene_build(&c, GCC "-g");
	for (size_t i = 0; i < scene_module(&c)->build_id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", scene_module(&c)->build_id[i]);
	snprintf(command, sizeof(command),
		 "mkdir -p @/server/buildid/%s @/cache && objcopy --only-keep-debug @/calls "
		 "@/server/buildid/%s/debuginfo "
		 "&& strip @/calls",
		 hex, hex);
	sh(command);
	snprintf(urls, sizeof(urls), "file://%s/server", victim_dir);
	setenv("DEBUGINFOD_CACHE_PATH", in_dir("cache"), 1);
	setenv("DEBUGINFOD_URLS", urls, 1);
	expect_no_lines(&c);
	symbol_search_allow_fetch(c.search);
	unsetenv("DEBUGINFOD_URLS");
	expect_no_lines(&c);
	setenv("DEBUGINFOD_URLS", urls, 1);
	scene_open(&c);
	if (!symbolizer_lookup(c.s, c.innermost)->frame[0].file) {
		print_message("skipped: libdebuginfod.so.1 is not installed\n");
		scene_close(&c);
		skip();
	}
	expect_everything(&c);
	/* In the cache now. */
	sh("rm -r @/server");
	symbol_search_free(c.search);
	c.search = symbol_search_new();
	expect_everything(&c);
	unsetenv("DEBUGINFOD_URLS");
	scene_close(&c);
}

/* Two versions of one library, both mapped at once: each has its own names. */
static void two_versions_of_a_library_do_not_mix(void **state)
{
	struct scene c;
	struct module *old, young;
	char *path;

	scene_build(&c, GCC "-g");
	old = scene_module(&c);
	sh("mv @/calls @/calls.1 && gcc -O0 -g -Wl,--build-id=sha1 -o @/calls tests/victims/loc_calls.c");
	path = strdup(in_dir("calls.1"));
	free(old->open_path);
	old->open_path = path;
	young = *old;
	young.start += 0x100000000;
	young.end += 0x100000000;
	young.bias += 0x100000000;
	young.open_path = young.path;
	{
		int fd = open(young.path, O_RDONLY | O_CLOEXEC);

		assert_true(fd >= 0);
		assert_true(module_elf_build_id(fd, young.build_id, &young.build_id_len));
		close(fd);
	}
	expect_everything(&c);
	assert_true(symbolizer_add(c.s, &young));
	assert_true(symbolizer_lookup(c.s, c.innermost + 0x100000000)->nframes < 3);
	assert_int_equal(symbolizer_lookup(c.s, c.innermost)->nframes, 3);
	/* And the file at the old one's path is not taken for it. */
	old->open_path = NULL;
	free(path);
	scene_open(&c);
	assert_true(symbolizer_lookup(c.s, c.innermost)->stale);
	scene_close(&c);
}

/* A held file gives the same names, to a borrower too; without, there are none, and never the newer file's. */
static void a_held_file_is_read_after_another_took_its_place(void **state)
{
	struct symbolizer *reader = symbolizer_new();
	const struct location *l;
	struct scene c;
	struct module m;

	scene_build(&c, GCC "-g");
	m = *scene_module(&c);
	m.open_path = NULL; /* as a log has it */
	c.s = symbolizer_new();
	symbolizer_hold_files(c.s);
	assert_true(symbolizer_add(c.s, scene_module(&c)));
	assert_false(symbolizer_find_lost(c.s));
	assert_false(symbolizer_is_lost(c.s, &m));
	sh("gcc -O0 -g -Wl,--build-id=sha1 -o @/new tests/victims/loc_calls.c && mv @/new @/calls");
	assert_true(symbolizer_find_lost(c.s));
	assert_true(symbolizer_is_lost(c.s, &m));
	symbolizer_borrow_files(reader, c.s);
	assert_true(symbolizer_add(reader, &m));
	symbolizer_defer(reader);
	l = symbolizer_lookup(reader, c.innermost);
	assert_true(symbolizer_resolve(reader, NULL));
	assert_int_equal(l->nframes, 3);
	assert_int_equal(l->frame[0].line, line_of("/* line of innermost */") + 1);
	assert_false(l->stale);
	symbolizer_free(reader);
	l = symbolizer_lookup(c.s, c.innermost);
	assert_int_equal(l->nframes, 3);
	assert_string_equal(l->frame[2].function, "outer");
	scene_open(&c); /* holds nothing */
	l = symbolizer_lookup(c.s, c.innermost);
	assert_true(l->stale);
	assert_null(l->frame[0].function);
	scene_close(&c);
}

static void a_32_bit_file_has_no_names_and_does_no_harm(void **state)
{
	/* The head of an ELF32 file for i386. */
	static const unsigned char head[64] = { 0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0,
						0,    0,   0,	0,   0, 3, 0, 3, 0, 1 };
	struct module m = { .start = 0x1000, .end = 0x2000, .bias = 0x1000 };
	struct symbolizer *s = symbolizer_new();
	FILE *f;

	f = fopen(in_dir("old32"), "w");
	assert_non_null(f);
	assert_int_equal(fwrite(head, 1, sizeof(head), f), sizeof(head));
	fclose(f);
	m.path = in_dir("old32");
	assert_true(symbolizer_add(s, &m));
	assert_null(symbolizer_lookup(s, 0x1010)->frame[0].function);
	assert_non_null(symbolizer_lookup(s, 0x1010)->module);
	symbolizer_free(s);
}

/* Many at once */

struct seen {
	size_t calls, done, total;
};

static void see(void *ctx, size_t done, size_t total)
{
	struct seen *seen = ctx;

	assert_true(done >= seen->done && done <= total);
	*seen = (struct seen){ seen->calls + 1, done, total };
}

static void what_was_put_off_is_filled_in_and_equals_single_lookups(void **state)
{
	struct symbolizer *single;
	const struct location *l[3000];
	struct seen seen = { 0 };
	struct scene c;
	size_t i, n = sizeof(l) / sizeof(l[0]);

	scene_build(&c, GCC "-g");
	scene_open(&c);
	single = c.s;
	c.s = NULL;
	scene_open(&c);
	symbolizer_defer(c.s);
	for (i = 0; i < n; i++) {
		l[i] = symbolizer_lookup(c.s, c.outer - 1500 + i);
		assert_null(l[i]->frame[0].function);
		assert_string_equal(l[i]->module, scene_module(&c)->path);
	}
	assert_true(symbolizer_resolve(c.s, &(struct symbol_progress){ see, &seen }));
	assert_true(seen.calls > 0);
	assert_int_equal(seen.done, n);
	assert_int_equal(seen.total, n);
	for (i = 0; i < n; i++) {
		const struct location *want = symbolizer_lookup(single, c.outer - 1500 + i);

		assert_ptr_equal(symbolizer_lookup(c.s, c.outer - 1500 + i), l[i]);
		assert_int_equal(l[i]->nframes, want->nframes);
		assert_int_equal(l[i]->function_start, want->function_start);
		assert_int_equal(l[i]->offset, want->offset);
		for (size_t k = 0; k < want->nframes; k++) {
			const struct frame_name *a = &l[i]->frame[k], *b = &want->frame[k];

			assert_int_equal(a->line, b->line);
			assert_true(!a->function == !b->function && !a->file == !b->file);
			if (b->function)
				assert_string_equal(a->function, b->function);
			if (b->file)
				assert_string_equal(a->file, b->file);
		}
	}
	symbolizer_free(single);
	scene_close(&c);
}

static void find_source(void *ctx, const struct symbol_source *src)
{
	struct symbol_source *ret = ctx;

	if (strstr(src->module, "/calls"))
		*ret = *src;
}

static void the_sources_say_what_they_could_say(void **state)
{
	static const struct {
		const char *command;
		enum symbol_source_state state;
		enum symbol_detail detail;
	} cases[] = {
		{ ":", SYMBOL_SOURCE_OK, SYMBOL_DETAIL_LINES },
		{ "strip -g @/calls", SYMBOL_SOURCE_OK, SYMBOL_DETAIL_SYMBOLS },
		{ "strip @/calls", SYMBOL_SOURCE_OK, SYMBOL_DETAIL_EXPORTED },
		{ "gcc -O0 -Wl,--build-id=sha1 -o @/calls tests/victims/loc_calls.c", SYMBOL_SOURCE_STALE,
		  SYMBOL_DETAIL_NONE },
		{ "rm @/calls", SYMBOL_SOURCE_MISSING, SYMBOL_DETAIL_NONE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct symbol_source src = { 0 };
		struct scene c;

		scene_build(&c,
			    "gcc -O2 -g -rdynamic -Wl,--build-id=sha1 -o @/calls tests/victims/loc_calls.c");
		sh(cases[i].command);
		scene_open(&c);
		symbolizer_defer(c.s);
		symbolizer_lookup(c.s, c.innermost);
		assert_true(symbolizer_resolve(c.s, NULL));
		symbolizer_sources(c.s, find_source, &src);
		assert_non_null(src.module);
		assert_int_equal(src.state, cases[i].state);
		assert_int_equal(src.detail, cases[i].detail);
		assert_false(src.damaged);
		scene_close(&c);
	}
}

/* Answers from a log */

static void reported_names_stand_in_for_files_that_are_gone_and_never_for_better_ones(void **state)
{
	const struct frame_name frame[] = { { "inner", "told.c", 7 }, { "real", "told.c", 9 } };
	const struct frame_name poor = { .function = "poor" };
	struct symbol_reported reported;
	const struct location *l;
	struct scene c;

	scene_build(&c, GCC "-g");
	reported = (struct symbol_reported){ .module = "/elsewhere",
					     .build_id = scene_module(&c)->build_id,
					     .build_id_len = scene_module(&c)->build_id_len,
					     .address = c.innermost - scene_module(&c)->bias,
					     .start = c.outer - scene_module(&c)->bias,
					     .nframes = 1,
					     .frame = &poor };
	/* The file says more than a bare name. */
	scene_open(&c);
	assert_true(symbolizer_report(c.s, &reported));
	assert_int_equal(symbolizer_lookup(c.s, c.innermost)->nframes, 3);
	/* A file that is gone says nothing. */
	sh("rm @/calls");
	scene_open(&c);
	assert_true(symbolizer_report(c.s, &reported));
	assert_string_equal(symbolizer_lookup(c.s, c.innermost)->frame[0].function, "poor");
	scene_open(&c);
	reported.nframes = 2;
	reported.frame = frame;
	assert_true(symbolizer_report(c.s, &reported));
	assert_true(symbolizer_knows(c.s, c.innermost));
	assert_false(symbolizer_knows(c.s, c.innermost + 1));
	l = symbolizer_lookup(c.s, c.innermost);
	assert_int_equal(l->nframes, 2);
	assert_string_equal(l->frame[0].function, "inner");
	assert_string_equal(l->frame[1].file, "told.c");
	assert_int_equal(l->function_start, c.outer);
	assert_int_equal(l->offset, c.innermost - c.outer);
	assert_false(l->stale);
	/* Another build's names are not this one's. */
	scene_module(&c)->build_id[0] ^= 1;
	scene_open(&c);
	scene_module(&c)->build_id[0] ^= 1;
	reported.build_id = scene_module(&c)->build_id;
	assert_true(symbolizer_report(c.s, &reported));
	assert_null(symbolizer_lookup(c.s, c.innermost)->frame[0].function);
	scene_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compressed_debug_sections),
		cmocka_unit_test(a_debuglink_is_followed_to_the_file_of_the_same_build_id),
		cmocka_unit_test(without_build_ids_the_checksum_of_the_debuglink_decides),
		cmocka_unit_test(eu_strip_leaves_a_debug_file_with_the_symbol_table),
		cmocka_unit_test(debug_files_are_found_in_a_folder_by_build_id),
		cmocka_unit_test(any_file_below_a_folder_will_do_if_its_build_id_is_right),
		cmocka_unit_test(dwz_files_are_followed_and_compared_by_build_id),
		cmocka_unit_test(gnu_debugdata_names_functions_of_a_stripped_program),
		cmocka_unit_test(only_what_it_exports_is_known_of_a_stripped_library),
		cmocka_unit_test(a_sysroot_and_a_path_map_say_where_the_files_are),
		cmocka_unit_test(wrong_folders_are_errors_that_say_so),
		cmocka_unit_test(debuginfod_is_asked_only_when_that_is_allowed),
		cmocka_unit_test(two_versions_of_a_library_do_not_mix),
		cmocka_unit_test(a_held_file_is_read_after_another_took_its_place),
		cmocka_unit_test(a_32_bit_file_has_no_names_and_does_no_harm),
		cmocka_unit_test(what_was_put_off_is_filled_in_and_equals_single_lookups),
		cmocka_unit_test(the_sources_say_what_they_could_say),
		cmocka_unit_test(reported_names_stand_in_for_files_that_are_gone_and_never_for_better_ones),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
