/* What is compiled, what is refused and in which words, and that no file, however damaged, does harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>

#include "tests/unit/effort.h"
#include "tests/unit/patch/probe_scene.h"
#include "tests/unit/wait.h"
#include "watchctl/patch/probe/probe_cc.h"
#include "watchctl/patch/probe/probe_image_impl.h"

static const char *const compilers[] = { "gcc", "clang" };

static bool has_compiler(const char *cc)
{
	char command[64];

	sprintf(command, "%s --version >/dev/null 2>&1", cc);
	return system(command) == 0;
}

/* Names in a folder, but for those that a test has put there. */
static unsigned int count_folders(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *e;
	unsigned int n = 0;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.' && e->d_type == DT_DIR;
	closedir(d);
	return n;
}

/* With each compiler; @said is in the sentence, and nothing is left behind. */
static void check_refused(const char *name, const char *text, const char *said)
{
	for (size_t i = 0; i < 2; i++) {
		struct probe_image image;
		struct work w;

		if (!has_compiler(compilers[i]))
			continue;
		work_open(&w);
		struct wc_error *err = work_build(&w, name, text, compilers[i], &image);
		if (!err)
			fail_msg("%s: accepted, and not: %s", compilers[i], said);
		assert_int_equal(err->kind, WC_EUSAGE);
		if (!strstr(err->text, said) || !strstr(err->text, name))
			fail_msg("%s: %s, and not: %s", compilers[i], err->text, said);
		wc_error_free(err);
		assert_int_equal(count_folders(w.dir), 0);
		work_close(&w);
	}
}

/* What is compiled */

#define SAMPLE                                                                                                \
	HEADER "static unsigned long hits[1000]; static const char *names[] = { \"a\", \"b\" };\n"            \
	       "static int helper(int x) { return x * 3; }\n"                                                 \
	       "PROBE(second) { hits[p->regs->rax % 1000]++; probe_log(\"%s\", names[p->regs->rcx & 1]); }\n" \
	       "PROBE(first) { probe_value(helper((int)p->regs->rdi)); probe_stack(\"tag\", 1); }\n"

static void the_image_has_what_the_source_has(void **state)
{
	for (size_t i = 0; i < 2; i++) {
		struct probe_image image;
		struct work w;

		if (!has_compiler(compilers[i]))
			continue;
		work_open(&w);
		assert_null(work_build(&w, "p.c", SAMPLE, compilers[i], &image));
		assert_string_equal(work_words(&w), "");
		assert_int_equal(count_folders(w.dir), 0);
		assert_int_equal(image.nfunctions, 2);
		assert_string_equal(image.function[0].name, "first");
		assert_string_equal(image.function[1].name, "second");
		assert_ptr_equal(probe_image_function(&image, "second"), &image.function[1]);
		assert_null(probe_image_function(&image, "helper"));
		assert_null(probe_image_function(&image, "probe_log"));
		assert_int_equal(image.code_size % PROBE_PAGE, 0);
		assert_int_equal(image.data_size % PROBE_PAGE, 0);
		assert_in_range(image.data_size, 8000, 20000);
		assert_in_range(image.entry_at, 1, image.code_size - 1);
		assert_in_range(image.shared_at, image.code_size, image.code_size + image.data_size - 8);
		/* The texts of two formats, and the two names, but for a compiler that knows better. */
		assert_in_range(image.nrelocations, 2, 4);
		probe_image_deinit(&image);
		work_close(&w);
	}
}

static void relocated_pointers_lead_to_their_texts(void **state)
{
	const uint64_t base = 0x7f0000000000;
	struct probe_image_format f;
	struct probe_image image;
	unsigned int found = 0;
	struct work w;

	work_open(&w);
	assert_null(work_build(&w, "p.c", SAMPLE, NULL, &image));
	uint8_t *to = malloc(image.code_size + image.data_size);
	assert_non_null(to);
	probe_image_relocate(&image, base, to);
	for (size_t i = 0; i < image.nrelocations; i++) {
		uint64_t value;

		memcpy(&value, to + image.relocation[i].at, sizeof(value));
		assert_int_equal(value, base + image.relocation[i].addend);
	}
	for (uint64_t at = 0; at < image.code_size + image.data_size + 64; at++)
		if (probe_image_format(&image, at, &f)) {
			assert_true(!strcmp(f.text, "%s") || !strcmp(f.text, "tag") || f.text[1] == '\0');
			found += !strcmp(f.text, "%s") && f.nargs == 1 && f.strings == 1;
		}
	assert_int_equal(found, 1);
	assert_false(probe_image_format(&image, UINT64_MAX, &f));
	assert_false(probe_image_format(&image, UINT64_MAX - 7, &f));
	free(to);
	probe_image_deinit(&image);
	work_close(&w);
}

static void several_files_with_odd_names_are_compiled_together(void **state)
{
	const char *source[] = { "-odd.c", "@odd name.c" };
	char path[128], before[256];
	struct probe_image image;
	struct work w;

	work_open(&w);
	assert_non_null(getcwd(before, sizeof(before)));
	work_write(&w, source[0], HEADER "int shared_one(int); PROBE(a) { probe_value(shared_one(1)); }\n",
		   path);
	work_write(&w, source[1],
		   HEADER "int shared_one(int); int shared_one(int x) { return x; } PROBE(b) {}\n", path);
	assert_return_code(chdir(w.dir), 0);
	const struct probe_build_request q = { source, 2, "gcc -DX=1", -1 };
	struct wc_error *err = probe_build(&q, &image);
	assert_return_code(chdir(before), 0);
	assert_null(err);
	assert_int_equal(image.nfunctions, 2);
	probe_image_deinit(&image);
	work_close(&w);
}

static void the_library_that_there_is_can_be_used(void **state)
{
	struct probe_image image;
	struct work w;

	work_open(&w);
	assert_null(work_build(
		&w, "p.c",
		HEADER
		"#include <string.h>\n"
		"struct big { char x[500]; };\n"
		"PROBE(a) { struct big b = { { 1 } }, c; c = b; memmove(&b, &c, p->regs->rax);\n"
		"	probe_value(memcmp(&b, &c, 9) + (int)strlen(b.x)); memcpy(&c, &b, p->regs->rcx);\n"
		"	probe_log(\"%s\", c.x); }\n",
		NULL, &image));
	probe_image_deinit(&image);
	work_close(&w);
}

static void the_example_is_compiled(void **state)
{
	const char *source = "examples/probes.c";
	const struct probe_build_request q = { &source, 1, "cc -Wextra -Werror", -1 };
	struct probe_image image;

	if (access(source, R_OK))
		skip();
	assert_null(probe_build(&q, &image));
	assert_int_equal(image.nfunctions, 3);
	probe_image_deinit(&image);
}

static void what_does_not_fit_a_format_is_warned_of(void **state)
{
	static const char *const text[] = {
		HEADER "PROBE(a) { probe_log(\"%s\", 3); }\n",
		HEADER "PROBE(a) { probe_log(\"%d\", 3ul); }\n",
		HEADER "PROBE(a) { probe_log(\"%d\", p); }\n",
	};

	for (size_t i = 0; i < 2 * sizeof(text) / sizeof(text[0]); i++) {
		struct probe_image image;
		struct work w;

		if (!has_compiler(compilers[i % 2]))
			continue;
		work_open(&w);
		assert_null(work_build(&w, "p.c", text[i / 2], compilers[i % 2], &image));
		assert_non_null(strstr(work_words(&w), "warning"));
		probe_image_deinit(&image);
		work_close(&w);
	}
}

/* Each pair of standard and level of optimisation, with more warnings than we ask for. */
static void the_header_is_clean(void **state)
{
	static const char *const standards[] = { "gnu11", "gnu17" };
	char cc[128];

	for (unsigned int i = 0; i < 12; i++) {
		struct probe_image image;
		struct work w;

		if (!has_compiler(compilers[i % 2]))
			continue;
		sprintf(cc, "%s -Wextra -Wshadow -Werror -std=%s -O%u", compilers[i % 2],
			standards[i / 2 % 2], i / 4);
		work_open(&w);
		struct wc_error *err = work_build(
			&w, "p.c",
			HEADER
			"enum color { RED, BLUE };\n"
			"PROBE(none) {}\n"
			"PROBE(a) {\n"
			"	enum color c = BLUE; bool b = true; char ch = 'x'; char text[9] = \"text\"; long l = 1;\n"
			"	probe_log(\"x\");\n"
			"	if (l) probe_log(\"%d\", 1); else probe_log(\"%d%d\", 1, 2);\n"
			"	probe_log(\"%d%d%c\", (int)c, b, ch); probe_log(\"%s%p%ld%s\", text, (void *)p, l, \"x\");\n"
			"	probe_log(\"%p%d%d%d%d\", (void *)p, 2, 3, 4, 5); probe_log(\"%d%d%d%d%d%d\", 1, 2, 3, 4, 5, 6);\n"
			"	probe_log(\"%d%d%d%d%d%d%d\", 1, 2, 3, 4, 5, 6, 7);\n"
			"	probe_log(\"%d%d%d%d%d%d%d%s\", 1, 2, 3, 4, 5, 6, 7, text);\n"
			"	probe_stack(\"tag\", p); probe_value(p); probe_value(b); probe_value(probe_ticks());\n"
			"}\n",
			cc, &image);
		if (err)
			fail_msg("%s: %s\n%s", cc, err->text, work_words(&w));
		assert_string_equal(work_words(&w), "");
		probe_image_deinit(&image);
		work_close(&w);
	}
}

/* Where no argument stands for "...", strict C keeps a comma that GNU C drops. */
static void the_header_is_clean_in_strict_c(void **state)
{
	static const char *const standards[] = { "c11", "c17", "gnu17" };
	static const char text[] = HEADER
		"PROBE(a) {}\n"
		"PROBE(b) { probe_log(\"none\"); probe_log(\"%d %s\", 1, \"x\"); probe_stack(\"tag\", 1); }\n";
	char command[1024], source[128], object[128];
	const char *objects[] = { object };
	const struct probe_build_request q = { objects, 1, NULL, -1 };
	struct probe_image_format f;
	unsigned int args;

	for (unsigned int i = 0; i < 6; i++) {
		struct probe_image image;
		struct work w;

		if (!has_compiler(compilers[i % 2]))
			continue;
		work_open(&w);
		work_write(&w, "p.c", text, source);
		sprintf(object, "%s/p.o", w.dir);
		sprintf(command,
			"mkdir %s/watchctl && cp probe/probe.h %s/watchctl && %s -std=%s -O1 -Wall -Wextra -Wpedantic "
			"-Wshadow -Wmissing-prototypes -Werror -fPIC -fvisibility=hidden -mgeneral-regs-only -I%s -c -o "
			"%s %s",
			w.dir, w.dir, compilers[i % 2], standards[i / 2], w.dir, object, source);
		assert_int_equal(system(command), 0);
		assert_null(probe_build(&q, &image));
		args = 0;
		for (size_t k = 0; k < image.nrelocations; k++)
			if (probe_image_format(&image, image.relocation[k].at, &f)) {
				assert_int_equal(f.nargs, strstr(f.text, "%") ? 2 : 0);
				assert_int_equal(f.strings, strstr(f.text, "%") ? 2 : 0);
				args += f.nargs;
			}
		assert_int_equal(args, 2);
		probe_image_deinit(&image);
		work_close(&w);
	}
}

static void the_header_is_there_for_cpp(void **state)
{
	char command[512];
	struct work w;

	if (!has_compiler("g++"))
		skip();
	work_open(&w);
	sprintf(command,
		"echo '#include \"probe/probe.h\"' | g++ -Wall -Wextra -Werror -I. -x c++ -c -o %s/x.o -",
		w.dir);
	assert_int_equal(system(command), 0);
	work_close(&w);
}

/* What is refused */

static void what_does_not_compile_is_said_by_the_compiler(void **state)
{
	struct probe_image image;
	struct work w;

	check_refused("p.c", HEADER "PROBE(a) { nonsense }\n", "could not be compiled");
	check_refused("p.c", HEADER "PROBE(a) { probe_log(\"%d\", 3.0); }\n",
		      "\"%d\": its argument is a double");
	check_refused("p.c", HEADER "PROBE(a) { probe_log(\"%d %g\", 3, 4); }\n",
		      "\"%g\": its argument is no double");
	check_refused("p.c", HEADER "PROBE(a) { probe_log(\"%g\", 3.0L); }\n", "could not be compiled");
	check_refused("p.c", HEADER "PROBE(a) { probe_log(\"\", 1, 2, 3, 4, 5, 6, 7, 8, 9); }\n",
		      "could not be compiled");
	check_refused("p.c", HEADER "PROBE(a) { probe_log((char *)1); }\n", "could not be compiled");
	check_refused("p.c", HEADER "PROBE(a) { probe_log(\"%d %d\", 3); }\n", "for 2 conversions");
	check_refused("p.c", HEADER "PROBE(a) { probe_log(\"%d\", 3, 4); }\n", "given 2 arguments");
	check_refused("p.c", HEADER "PROBE(a) { probe_log(\"%.*s\", 3, \"\"); }\n", "must be numbers");
	check_refused("p.c", HEADER "PROBE(a) { probe_log(\"%hld\", 3); }\n", "it has d, i, u");
	work_open(&w);
	wc_error_free(work_build(&w, "p.c", HEADER "PROBE(a) { nonsense }\n", NULL, &image));
	assert_non_null(strstr(work_words(&w), "nonsense"));
	work_close(&w);
}

static void a_compiler_that_is_not_there_is_named(void **state)
{
	struct probe_image image;
	struct work w;

	work_open(&w);
	struct wc_error *err = work_build(&w, "p.c", SAMPLE, "no-such-cc -m64", &image);
	assert_int_equal(err->kind, WC_EUSAGE);
	assert_non_null(strstr(err->text, "\"no-such-cc\""));
	assert_non_null(strstr(err->text, "install gcc"));
	wc_error_free(err);
	setenv("CC", "no-cc-of-make", 1);
	err = work_build(&w, "p.c", SAMPLE, NULL, &image);
	assert_non_null(strstr(err->text, "\"no-cc-of-make\""));
	wc_error_free(err);
	setenv("CC", "  ", 1);
	assert_null(work_build(&w, "p.c", SAMPLE, NULL, &image));
	probe_image_deinit(&image);
	unsetenv("CC");
	assert_int_equal(count_folders(w.dir), 0);
	work_close(&w);
}

static void all_that_is_not_there_is_named(void **state)
{
	check_refused(
		"p.c",
		HEADER
		"#include <stdio.h>\n#include <stdlib.h>\n"
		"extern int other; extern int weak __attribute__((weak));\n"
		"PROBE(a) { void *x = malloc(3); other = &weak != 0; printf(\"%p\", x); probe_adress(p); }\n",
		"p.c uses malloc, other, printf, probe_adress, weak, which are not there inside a program");
	check_refused("p.c", HEADER "void free(void *); PROBE(a) { free(0); }\n",
		      "p.c uses free, which is not there inside a program");
	check_refused("p.c", HEADER "int puts(const char *); PROBE(a) { puts(\"\"); }\n",
		      "probe_log() prints");
}

static void what_only_a_loader_could_do_is_refused(void **state)
{
	check_refused("p.c", HEADER "static __thread int v; PROBE(a) { probe_value(v++); }\n",
		      "thread-local");
	check_refused(
		"p.c",
		HEADER
		"static volatile int v; static __attribute__((constructor)) void f(void) { v++; } PROBE(a) {}\n",
		"constructors");
	check_refused(
		"p.c",
		HEADER
		"static volatile int v; static __attribute__((destructor)) void f(void) { v++; } PROBE(a) {}\n",
		"constructors");
	check_refused("p.c",
		      HEADER
		      "static void g(void) {} static __attribute__((used)) void *f(void) { return g; }\n"
		      "void h(void) __attribute__((ifunc(\"f\"))); PROBE(a) { h(); }\n",
		      "ifunc");
	check_refused(
		"p.c",
		HEADER
		"__asm__(\".text\\n.quad somewhere\\n.data\\nsomewhere: .quad 1\\n.text\"); PROBE(a) {}\n",
		"its code depends on its address");
	check_refused("p.c",
		      HEADER "static volatile char big[17 << 20]; PROBE(a) { big[p->regs->rax] = 1; }\n",
		      "too large");
	check_refused(
		"p.c",
		HEADER
		"static const char big[2 << 20] = { 1 }; PROBE(a) { probe_value(big[p->regs->rax]); }\n",
		"too large");
	check_refused("p.c", "int x;\n", "it has no probe");
}

static void vector_registers_are_refused(void **state)
{
	static const char *const others[] = { "fninit", "fld1", "emms", "pxor %mm1, %mm1", "vzeroupper" };
	char text[256];

	check_refused("p.c", HEADER "PROBE(a) { probe_value(p->regs->rax * 1.5); }\n", "p.c");
	check_refused("p.c", HEADER "PROBE(a) { __asm__ volatile(\"pxor %xmm3, %xmm3\"); }\n",
		      "a() uses vector or x87 registers");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		sprintf(text, HEADER "PROBE(a) { __asm__ volatile(\"%s\"); }\n", others[i]);
		check_refused("p.c", text, "a() uses vector or x87 registers");
	}
}

static void vector_registers_are_refused_outside_of_vector_probes(void **state)
{
	check_refused(
		"p.c",
		HEADER
		"PROBE_USES_VECTOR static __attribute__((noinline)) void half(void) { __asm__ volatile(\"pxor %%xmm3, %%xmm3\" : ); }\n"
		"PROBE_VECTOR(a) { half(); }\n"
		"PROBE(b) { half(); }\n",
		"b() calls what uses vector registers");
	check_refused(
		"p.c",
		HEADER
		"static __attribute__((noinline)) void half(void) { __asm__ volatile(\"pxor %%xmm3, %%xmm3\" : ); }\n"
		"PROBE_VECTOR(a) { half(); }\n",
		"half() uses vector or x87 registers");
	check_refused(
		"p.c",
		HEADER
		"PROBE_VECTOR(a) { (void)p; }\n"
		"__attribute__((section(\"probe_vector\"), used, visibility(\"default\"), no_caller_saved_registers)) void b(struct probe *p) "
		"__asm__(\"probe_fn.b\"); void b(struct probe *p) { (void)p; }\n",
		"a PROBE() stands where only PROBE_VECTOR() may");
}

static void other_files_are_refused(void **state)
{
	const char *source[2] = { "/nonexistent/p.c", "/nonexistent/p.so" };
	const struct probe_build_request one = { source, 1, NULL, -1 }, two = { source, 2, NULL, -1 };
	struct probe_image image;
	struct wc_error *err;

	check_refused("p.cc", SAMPLE, "is C++");
	check_refused("p.cpp", SAMPLE, "is C++");
	check_refused("p.txt", SAMPLE, "no file of probes");
	check_refused("p.so", "not ELF", "no ELF file");
	err = probe_build(&one, &image);
	assert_non_null(strstr(err->text, "/nonexistent/p.c"));
	wc_error_free(err);
	source[0] = "/tmp/";
	err = probe_build(&one, &image);
	assert_non_null(strstr(err->text, "no file of probes"));
	wc_error_free(err);
	source[0] = "/nonexistent/q.so";
	err = probe_build(&two, &image);
	assert_non_null(strstr(err->text, "given alone"));
	wc_error_free(err);
	err = probe_image_open("/dev/null", &image);
	assert_non_null(strstr(err->text, "no regular file"));
	wc_error_free(err);
}

/* A shared object that a user has linked as if for a program. */
static void an_ordinary_library_is_refused(void **state)
{
	static const struct {
		const char *options, *text, *said;
	} v[] = {
		{ "-shared -fPIC", "int f(void) { return 1; }", "cannot be put into a program" },
		{ "-shared -fPIC -nostdlib", "int f(void) { return 1; }", "runtime" },
		{ "-shared -fPIC -nostdlib -s", "int f(void) { return 1; }", "stripped" },
		{ "-c", "int f(void) { return 1; }", "no shared object" },
		{ "-fPIC -shared -nostdlib -fno-builtin", "int g(void); int f(void) { return g(); }",
		  "uses g" },
		{ "-fPIE -pie", "int main(void) { return 1; }", "it is a program" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		char path[128], object[128], command[512];
		struct probe_image image;
		struct work w;

		work_open(&w);
		work_write(&w, "x.c", v[i].text, path);
		sprintf(object, "%s/x.so", w.dir);
		sprintf(command, "gcc %s -o %s %s", v[i].options, object, path);
		assert_int_equal(system(command), 0);
		struct wc_error *err = probe_image_open(object, &image);
		assert_non_null(err);
		if (!strstr(err->text, v[i].said))
			fail_msg("%s: %s", v[i].options, err->text);
		wc_error_free(err);
		work_close(&w);
	}
}

/* Damaged files */

/* All that a user of an image does with one. */
static void use(const struct probe_image *i)
{
	const size_t size = i->code_size + i->data_size;
	uint8_t *to = malloc(size);
	struct probe_image_format f;

	assert_non_null(to);
	assert_true(i->entry_at < i->code_size && i->shared_at >= i->code_size && i->shared_at + 8 <= size);
	for (size_t k = 0; k < i->nfunctions; k++) {
		assert_true(i->function[k].at < i->code_size);
		assert_non_null(probe_image_function(i, i->function[k].name));
	}
	probe_image_relocate(i, 0x10000, to);
	for (size_t k = 0; k < i->nrelocations; k++)
		if (probe_image_format(i, i->relocation[k].at, &f))
			assert_true(strlen(f.text) < size && f.nargs <= 8);
	free(to);
}

static bool read_damaged(const uint8_t *bytes, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1); /* exactly, for AddressSanitizer */
	struct probe_image image;
	bool ok;

	assert_non_null(copy);
	memcpy(copy, bytes, size);
	struct wc_error *err = probe_image_read(copy, size, "x.so", &image);
	ok = !err;
	if (err) {
		assert_true(err->text && *err->text);
		wc_error_free(err);
	} else {
		use(&image);
		probe_image_deinit(&image);
	}
	free(copy);
	return ok;
}

static uint8_t *sample_object(size_t *size)
{
	char command[128], path[128];
	struct work w;

	work_open(&w);
	/* A compiler that is a script keeps what it has made. */
	sprintf(path, "%s/cc", w.dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f,
		"#!/bin/sh\nfor a; do case $a in -o/*) out=${a#-o};; esac; done\ngcc \"$@\" && cp \"$out\" %s/kept.so\n",
		w.dir);
	fclose(f);
	assert_return_code(chmod(path, 0700), 0);
	strcpy(command, path);
	struct probe_image image;
	struct wc_error *err = work_build(&w, "p.c", SAMPLE, command, &image);
	if (err)
		fail_msg("%s: %s", err->text, work_words(&w));
	probe_image_deinit(&image);
	sprintf(path, "%s/kept.so", w.dir);
	assert_null(probe_image_open(path, &image));
	probe_image_deinit(&image);
	f = fopen(path, "r");
	assert_non_null(f);
	uint8_t *bytes = malloc(1 << 20);
	assert_non_null(bytes);
	*size = fread(bytes, 1, 1 << 20, f);
	fclose(f);
	work_close(&w);
	return bytes;
}

static void a_file_that_is_cut_off_does_no_harm(void **state)
{
	size_t size;
	uint8_t *bytes = sample_object(&size);

	assert_true(read_damaged(bytes, size));
	for (size_t n = 0; n < size; n += n < 1024 ? 1 : 37)
		assert_false(read_damaged(bytes, n));
	free(bytes);
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void wrong_bits_do_no_harm(void **state)
{
	const unsigned int n = effort(6000);
	uint32_t random = 1;
	size_t size;
	uint8_t *bytes = sample_object(&size);
	uint8_t *copy = malloc(size);

	assert_non_null(copy);
	for (unsigned int i = 0; i < n; i++) {
		memcpy(copy, bytes, size);
		/* Half of them in the headers at either end, where most depends on them. */
		for (unsigned int k = next_random(&random) % 8; k < 8; k++) {
			size_t at = next_random(&random) % size;

			if (i & 1)
				at = k & 1 ? at % 1024 : size - 1 - at % 2048;
			copy[at] =
				i & 2 ? (uint8_t)next_random(&random) : (uint8_t)(copy[at] ^ 1u << (at & 7));
		}
		read_damaged(copy, size);
	}
	free(copy);
	free(bytes);
}

/* The compiler's process */

static void a_compiler_that_hangs_is_ended(void **state)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"sleep 1000 & wait", NULL };
	const struct probe_cc_run run = { argv, -1, 50000000 };
	const uint64_t before = monotonic_ns();
	bool ok;

	struct wc_error *err = probe_cc_run(&run, &ok);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_EFAIL);
	wc_error_free(err);
	assert_true(monotonic_ns() - before < wait_ns());
}

static volatile sig_atomic_t interrupted;

static void note_interrupt(int number)
{
	interrupted = 1;
}

static void a_signal_waits_until_all_is_removed(void **state)
{
	char *const argv[] = { (char *)"sleep", (char *)"100", NULL };
	const struct probe_cc_run run = { argv, -1, 100000000000u };
	bool ok;

	signal(SIGINT, note_interrupt);
	struct probe_cc_signals *s = probe_cc_hold();
	assert_non_null(s);
	raise(SIGINT);
	struct wc_error *err = probe_cc_run(&run, &ok);
	assert_non_null(err);
	assert_non_null(strstr(err->text, "interrupted"));
	wc_error_free(err);
	assert_false(interrupted);
	probe_cc_release(s);
	assert_true(interrupted);
	signal(SIGINT, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_image_has_what_the_source_has),
		cmocka_unit_test(relocated_pointers_lead_to_their_texts),
		cmocka_unit_test(several_files_with_odd_names_are_compiled_together),
		cmocka_unit_test(the_library_that_there_is_can_be_used),
		cmocka_unit_test(the_example_is_compiled),
		cmocka_unit_test(what_does_not_fit_a_format_is_warned_of),
		cmocka_unit_test(the_header_is_clean),
		cmocka_unit_test(the_header_is_clean_in_strict_c),
		cmocka_unit_test(the_header_is_there_for_cpp),
		cmocka_unit_test(what_does_not_compile_is_said_by_the_compiler),
		cmocka_unit_test(a_compiler_that_is_not_there_is_named),
		cmocka_unit_test(all_that_is_not_there_is_named),
		cmocka_unit_test(what_only_a_loader_could_do_is_refused),
		cmocka_unit_test(vector_registers_are_refused),
		cmocka_unit_test(vector_registers_are_refused_outside_of_vector_probes),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(an_ordinary_library_is_refused),
		cmocka_unit_test(a_file_that_is_cut_off_does_no_harm),
		cmocka_unit_test(wrong_bits_do_no_harm),
		cmocka_unit_test(a_compiler_that_hangs_is_ended),
		cmocka_unit_test(a_signal_waits_until_all_is_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
