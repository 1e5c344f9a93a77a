/* JIT code: named by perf maps, by whom they are believed, and by what a log reports. */
#include "tests/unit/loc_victim.h"

#include <time.h>

#include "tests/unit/wait.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/code/symbols/symbolizer.h"

/* A recorder reports executable memory without a file as a module of its own. */
static void a_module_of_jit_code_has_no_file_and_is_asked_for_its_name_again(void **state)
{
	struct module m = { .start = 0x7000000000, .end = 0x7000001000, .path = (char *)MODULE_JIT };
	const struct frame_name name = { .function = "told" };
	const struct symbol_reported reported = { .module = MODULE_JIT,
						  .address = 0x7000000800,
						  .start = 0x7000000700,
						  .nframes = 1,
						  .frame = &name };
	struct symbolizer *s = symbolizer_new();
	const struct location *l;
	uint64_t start, end;

	assert_true(symbolizer_add(s, &m));
	assert_true(symbolizer_report(s, &reported));
	l = symbolizer_lookup(s, 0x7000000010);
	assert_string_equal(l->module, MODULE_JIT);
	assert_null(l->frame[0].function);
	assert_ptr_equal(symbolizer_lookup(s, 0x7000000010), l);
	assert_int_equal(l->module_offset, 0x7000000010);
	l = symbolizer_lookup(s, 0x7000000800);
	assert_string_equal(l->frame[0].function, "told");
	assert_int_equal(l->offset, 0x100);
	assert_false(symbolizer_function(s, 0x7000000010, &start, &end));
	symbolizer_free(s);
}

static void write_map(pid_t pid, const char *mode, const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	f = fopen(path, mode);
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void perf_maps_name_jit_code_and_later_lines_win(void **state)
{
	struct symbolizer *s = symbolizer_new();
	const struct location *l;
	char path[64];
	struct timespec now;
	uint64_t now_ns;
	pid_t pid = getpid();

	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000u;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	write_map(pid, "w",
		  "7000000000 40 first one\nnonsense\n7000000040 20 LazyCompile:~f app.js:3\n"
		  "7000000000 20 second\n7000000100 10 unfini");
	assert_true(symbolizer_add_process(s, pid, now_ns, 0));
	l = symbolizer_lookup(s, 0x7000000010);
	assert_string_equal(l->module, MODULE_JIT);
	assert_string_equal(l->frame[0].function, "second");
	assert_int_equal(l->offset, 0x10);
	assert_string_equal(symbolizer_lookup(s, 0x7000000030)->frame[0].function, "first one");
	assert_string_equal(symbolizer_lookup(s, 0x7000000041)->frame[0].function, "LazyCompile:~f app.js:3");
	assert_null(symbolizer_lookup(s, 0x7000000060)->module);
	assert_null(symbolizer_lookup(s, 0x7000000100)->module);
	write_map(pid, "a", "shed\n");
	WAIT_UNTIL(symbolizer_lookup(s, 0x7000000100)->module);
	l = symbolizer_lookup(s, 0x7000000100);
	assert_non_null(l->frame[0].function);
	assert_string_equal(l->frame[0].function, "unfinished");
	symbolizer_free(s);
	/* The process that was recorded had this number, but it began later than that. */
	s = symbolizer_new();
	assert_true(symbolizer_add_process(s, pid, now_ns - 3600 * 1000000000ull * 24 * 365, 0));
	assert_null(symbolizer_lookup(s, 0x7000000010)->module);
	symbolizer_free(s);
	unlink(path);
}

static void a_map_of_an_ended_process_is_used_unless_it_is_younger(void **state)
{
	struct symbolizer *s;
	struct timespec now;
	uint64_t now_ns;
	char path[64];
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	write_map(pid, "w", "7000000000 40 left over\n");
	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000u;
	s = symbolizer_new();
	assert_true(symbolizer_add_process(s, pid, now_ns, now_ns + 1000000000u));
	assert_string_equal(symbolizer_lookup(s, 0x7000000010)->frame[0].function, "left over");
	symbolizer_free(s);
	s = symbolizer_new();
	assert_true(symbolizer_add_process(s, pid, now_ns, now_ns - 1000000000u));
	assert_null(symbolizer_lookup(s, 0x7000000010)->module);
	symbolizer_free(s);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", pid);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_module_of_jit_code_has_no_file_and_is_asked_for_its_name_again),
		cmocka_unit_test(perf_maps_name_jit_code_and_later_lines_win),
		cmocka_unit_test(a_map_of_an_ended_process_is_used_unless_it_is_younger),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
