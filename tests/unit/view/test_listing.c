/* What is listed around a place: lines of its source, instructions of its function; and of files that are
 * none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/view/event/listing.h"

#define CAP 4096

static char dir[] = "/tmp/watchctl-listing-XXXXXX";
static char path[PATH_MAX];

static void write_bytes(const char *bytes, size_t n)
{
	FILE *f;

	snprintf(path, sizeof(path), "%s/source.c", dir);
	unlink(path);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

static void write_text(const char *text)
{
	write_bytes(text, strlen(text));
}

static struct listing source(uint32_t line, uint32_t around)
{
	struct listing l;

	assert_true(listing_source(path, NULL, line, around, &l));
	return l;
}

static void lines_around_the_place_come_in_order(void **state)
{
	struct listing l;

	write_text("one\ntwo\nthree\nfour\nfive\n");
	l = source(3, 1);
	assert_int_equal(l.n, 3);
	assert_null(l.why);
	assert_int_equal(l.v[0].line, 2);
	assert_string_equal(l.v[0].text, "two");
	assert_false(l.v[0].here);
	assert_string_equal(l.v[1].text, "three");
	assert_true(l.v[1].here);
	assert_string_equal(l.v[2].text, "four");
	listing_deinit(&l);
	assert_int_equal(l.n, 0);
}

static void both_ends_of_the_file_are_no_trouble(void **state)
{
	struct listing l;

	write_text("one\ntwo");
	l = source(1, UINT32_MAX);
	assert_int_equal(l.n, 2);
	assert_true(l.v[0].here);
	listing_deinit(&l);
	l = source(2, 5);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[1].text, "two");
	assert_true(l.v[1].here);
	listing_deinit(&l);
}

static void a_line_that_the_file_has_not_is_reported(void **state)
{
	struct listing l;

	write_text("one\ntwo\n");
	l = source(3, 5);
	assert_int_equal(l.n, 0);
	assert_string_equal(l.why, "the source file has no such line");
	l = source(UINT32_MAX, 5);
	assert_int_equal(l.n, 0);
	l = source(0, 5);
	assert_non_null(l.why);
	write_text("");
	l = source(1, 5);
	assert_non_null(l.why);
}

static void text_is_clean_and_tabs_are_expanded(void **state)
{
	struct listing l;

	write_text("\tif (a)\t{\r\ncaf\xc3\xa9\tx\nbad \xff\x1b[31m \xc2\x9b end\n");
	l = source(2, 1);
	assert_int_equal(l.n, 3);
	assert_string_equal(l.v[0].text, "        if (a)  {");
	assert_string_equal(l.v[1].text, "caf\xc3\xa9    x");
	assert_string_equal(l.v[2].text, "bad ??[31m ? end");
	listing_deinit(&l);
}

static void an_endless_line_is_cut(void **state)
{
	static char text[1 << 20];
	struct listing l;

	memset(text, 'x', sizeof(text));
	write_bytes(text, sizeof(text));
	l = source(1, 1);
	assert_int_equal(l.n, 1);
	assert_int_equal(strlen(l.v[0].text), 1024);
	listing_deinit(&l);
}

static void only_regular_text_files_are_read(void **state)
{
	struct listing l;

	write_bytes("int a;\n\0\n", 9);
	l = source(1, 1);
	assert_string_equal(l.why, "the source file is not text");

	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	l = source(1, 1);
	assert_string_equal(l.why, "it is not a regular file");
	unlink(path);
	l = source(1, 1);
	assert_string_equal(l.why, "the source file is not here");
	assert_true(listing_source("/dev/zero", NULL, 1, 1, &l));
	assert_string_equal(l.why, "it is not a regular file");
	assert_true(listing_source(dir, NULL, 1, 1, &l));
	assert_string_equal(l.why, "it is not a regular file");
}

static void a_very_large_file_is_not_read(void **state)
{
	struct listing l;

	write_text("one\n");
	assert_int_equal(truncate(path, (16 << 20) + 1), 0);
	l = source(1, 1);
	assert_string_equal(l.why, "the source file is larger than 16 MB");
}

static void a_source_younger_than_its_program_is_reported(void **state)
{
	struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
	struct timespec young[2] = { { .tv_sec = 4000000000 }, { .tv_sec = 4000000000 } };
	struct listing l;

	write_text("one\n");
	assert_int_equal(utimensat(AT_FDCWD, path, young, 0), 0);
	assert_true(listing_source(path, "/proc/self/exe", 1, 1, &l));
	assert_true(l.newer);
	listing_deinit(&l);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_true(listing_source(path, "/proc/self/exe", 1, 1, &l));
	assert_false(l.newer);
	listing_deinit(&l);
	assert_true(listing_source(path, "/no/such/program", 1, 1, &l));
	assert_false(l.newer);
	listing_deinit(&l);
}

static const char *own_path(char *buf)
{
	ssize_t n = readlink("/proc/self/exe", buf, PATH_MAX - 1);

	assert_true(n > 0);
	buf[n] = '\0';
	return buf;
}

/* This file is compiled by a relative name; the debug information knows the folder. */
static void a_relative_name_is_found_where_it_was_compiled(void **state)
{
	const uint32_t line = __LINE__;
	char exe[PATH_MAX];
	struct listing l;

	if (__FILE__[0] == '/')
		skip();
	assert_int_equal(chdir("/"), 0);
	assert_true(listing_source(__FILE__, own_path(exe), line, 0, &l));
	assert_null(l.why);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.v[0].text, "        const uint32_t line = __LINE__;");
	listing_deinit(&l);
}

/* A name relative to a folder that is not known must not be looked for in the folder of whoever reads. */
static void a_relative_name_is_not_looked_for_elsewhere(void **state)
{
	char exe[PATH_MAX];
	struct listing l;

	write_text("one\n");
	assert_int_equal(chdir(dir), 0);
	assert_true(listing_source("source.c", own_path(exe), 1, 1, &l));
	assert_string_equal(l.why, "the directory of its compilation is not known");
	assert_true(listing_source("source.c", NULL, 1, 1, &l));
	assert_string_equal(l.why, "the directory of its compilation is not known");
	assert_int_equal(chdir("/"), 0);
}

/* Code: functions whose bytes are known here. */

int listing_variable;
void listing_known(void), listing_data(void), listing_data_place(void);
__asm__(".text\n"
	".globl listing_known, listing_data, listing_data_place\n"
	".type listing_known, @function\n"
	"listing_known:\n"
	"	.byte 0x55\n"	    /* push rbp */
	"	.byte 0x89, 0xc3\n" /* mov ebx, eax */
	"	mov %eax, listing_variable(%rip)\n"
	"	.byte 0xb8, 0x2a, 0, 0, 0\n" /* mov eax, 42 */
	"	call listing_data\n"
	"	.byte 0x5d\n" /* pop rbp */
	"	.byte 0xc3\n" /* ret */
	".size listing_known, . - listing_known\n"
	"	.byte 0x06, 0x06\n"
	".type listing_data, @function\n"
	"listing_data:\n"
	"	.byte 0xeb, 0x01\n" /* jmp over a byte that begins a longer instruction */
	"	.byte 0xb8\n"
	"listing_data_place:\n"
	"	.byte 0x90\n"
	"	.byte 0xc3\n"
	".size listing_data, . - listing_data\n");

static struct symbolizer *own_symbolizer(void)
{
	struct symbolizer *s = symbolizer_new();
	struct module_list modules = { 0 };
	size_t i;

	assert_non_null(s);
	assert_null(module_list_read(getpid(), &modules));
	for (i = 0; i < modules.n; i++)
		assert_true(symbolizer_add(s, &modules.v[i]));
	module_list_deinit(&modules);
	return s;
}

static void instructions_are_decoded_from_the_functions_start(void **state)
{
	const uint64_t start = (uintptr_t)listing_known;
	struct symbolizer *s = own_symbolizer();
	struct listing l;
	char call[64];

	assert_true(listing_code(s, INSN_INTEL, start + 3, 2, 3, &l));
	assert_null(l.why);
	assert_int_equal(l.n, 5);
	assert_int_equal(l.v[0].ip, start);
	assert_string_equal(l.v[0].text, "push rbp");
	assert_int_equal(l.v[1].ip, start + 1);
	assert_string_equal(l.v[1].text, "mov ebx, eax");
	assert_true(l.v[2].here);
	assert_int_equal(l.v[2].ip, start + 3);
	assert_non_null(strstr(l.v[2].text, "# listing_variable"));
	assert_int_equal(l.v[3].ip, start + 9);
	assert_string_equal(l.v[3].text, "mov eax, 0x2a");
	snprintf(call, sizeof(call), "call 0x%lx <listing_data>", (unsigned long)(uintptr_t)listing_data);
	assert_string_equal(l.v[4].text, call);
	listing_deinit(&l);

	/* One before, all after: nothing beyond the function's end. */
	assert_true(listing_code(s, INSN_INTEL, start + 9, 1, 100, &l));
	assert_int_equal(l.n, 5);
	assert_int_equal(l.v[0].ip, start + 3);
	assert_true(l.v[1].here);
	assert_string_equal(l.v[4].text, "ret");
	listing_deinit(&l);
	symbolizer_free(s);
}

static void where_decoding_does_not_lead_to_the_place_nothing_is_shown_before_it(void **state)
{
	const uint64_t place = (uintptr_t)listing_data_place;
	struct symbolizer *s = own_symbolizer();
	struct listing l;

	assert_true(listing_code(s, INSN_INTEL, place, 5, 5, &l));
	assert_null(l.why);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.v[0].ip, place);
	assert_true(l.v[0].here);
	assert_string_equal(l.v[0].text, "nop");
	listing_deinit(&l);
	symbolizer_free(s);
}

/* The addresses that objdump gives for a large function of a compiler's. */
static size_t objdump(const char *function, uint64_t bias, uint64_t *ret)
{
	char exe[PATH_MAX], command[PATH_MAX + 100], line[512];
	unsigned long addr;
	size_t n = 0;
	FILE *f;

	snprintf(command, sizeof(command), "objdump -d --no-show-raw-insn --disassemble=%s %s 2>/dev/null",
		 function, own_path(exe));
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (line[0] == ' ' && sscanf(line, " %lx:", &addr) == 1 && n < CAP)
			ret[n++] = addr + bias;
	pclose(f);
	return n;
}

static void addresses_are_those_that_objdump_gives(void **state)
{
	static uint64_t oracle[CAP];
	struct symbolizer *s = own_symbolizer();
	const struct location *loc = symbolizer_lookup(s, (uintptr_t)listing_code);
	size_t n = objdump("listing_code", (uintptr_t)listing_code - loc->module_offset, oracle), i, at;
	struct listing l;

	assert_true(n > 30);
	for (at = 0; at < n; at++) {
		size_t first = at > 7 ? at - 7 : 0;

		assert_true(listing_code(s, INSN_INTEL, oracle[at], 7, 4, &l));
		assert_int_equal(l.n, (at + 4 < n ? at + 4 : n) - first);
		for (i = 0; i < l.n; i++) {
			assert_int_equal(l.v[i].ip, oracle[first + i]);
			assert_int_equal(l.v[i].here, first + i == at);
		}
		listing_deinit(&l);
	}
	symbolizer_free(s);
}

static void places_without_a_file_say_why(void **state)
{
	struct module jit = { .start = 0x10000, .end = 0x20000, .path = (char *)"[jit]" },
		      gone = { .start = 0x20000, .end = 0x30000, .path = (char *)"/no/such/program" },
		      other = { .start = 0x30000, .end = 0x40000, .path = (char *)"/bin/true" };
	struct symbolizer *s = symbolizer_new();
	struct listing l;

	other.build_id_len = 4;
	assert_true(symbolizer_add(s, &jit) && symbolizer_add(s, &gone) && symbolizer_add(s, &other));
	assert_true(listing_code(s, INSN_INTEL, 0x12345678, 5, 5, &l));
	assert_string_equal(l.why, "no program or library is known at this address");
	assert_true(listing_code(s, INSN_INTEL, 0x10100, 5, 5, &l));
	assert_string_equal(l.why, "a JIT compiler made this code: it is in no file");
	assert_true(listing_code(s, INSN_INTEL, 0x20100, 5, 5, &l));
	assert_string_equal(l.why, "the program's file is not here, or has been replaced");
	assert_true(listing_code(s, INSN_INTEL, 0x30100, 5, 5, &l));
	assert_string_equal(l.why, "the program's file is not here, or has been replaced");
	symbolizer_free(s);
}

static int setup(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_around_the_place_come_in_order),
		cmocka_unit_test(both_ends_of_the_file_are_no_trouble),
		cmocka_unit_test(a_line_that_the_file_has_not_is_reported),
		cmocka_unit_test(text_is_clean_and_tabs_are_expanded),
		cmocka_unit_test(an_endless_line_is_cut),
		cmocka_unit_test(only_regular_text_files_are_read),
		cmocka_unit_test(a_very_large_file_is_not_read),
		cmocka_unit_test(a_source_younger_than_its_program_is_reported),
		cmocka_unit_test(a_relative_name_is_found_where_it_was_compiled),
		cmocka_unit_test(a_relative_name_is_not_looked_for_elsewhere),
		cmocka_unit_test(instructions_are_decoded_from_the_functions_start),
		cmocka_unit_test(where_decoding_does_not_lead_to_the_place_nothing_is_shown_before_it),
		cmocka_unit_test(addresses_are_those_that_objdump_gives),
		cmocka_unit_test(places_without_a_file_say_why),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
