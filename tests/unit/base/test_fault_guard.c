/*
 * Faults of libraries that read files do no harm to a session: a fault is left, and the next question is
 * answered. What faults here is what a file that is cut while it is mapped does (SIGBUS), in libelf and
 * libdw, and code of ours.
 */
#include "tests/unit/loc_victim.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "watchctl/base/fault_guard.h"
#include "watchctl/code/elf/module_code.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/code/symbols/symbolizer.h"
#include "watchctl/code/unwind/cfi.h"

#define BIAS 0x10000000u

/* What a fault leaves is lost: that is the price of it. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}

static void do_nothing(void *ctx)
{
	++*(int *)ctx;
}

/* As a mapping does whose file was cut. */
static void read_nothing(void *ctx)
{
	const volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)*page;
}

/* In assembly: a sanitizer would forbid it elsewhere. */
static void divide(void *ctx)
{
	__asm__ volatile("xorl %%edx, %%edx; xorl %%ecx, %%ecx; divl %%ecx" : : "a"(7) : "ecx", "edx", "cc");
}

static unsigned int recurse(unsigned int n)
{
	volatile char room[4096];

	room[n % sizeof(room)] = (char)n;
	return n == UINT32_MAX ? 0 : recurse(n + 1) + (unsigned char)room[n % sizeof(room)];
}

static void fill_stack(void *ctx)
{
	*(volatile unsigned int *)ctx = recurse(0);
}

static void a_fault_is_left_every_time(void **state)
{
	int n = 0;

	fault_guard_install(); /* in each test: cmocka has handlers of its own around them */
	for (int i = 0; i < 3; i++) {
		assert_true(fault_guarded(do_nothing, &n));
		assert_false(fault_guarded(read_nothing, NULL));
		assert_false(fault_guarded(divide, &n));
		assert_false(fault_guarded(fill_stack, &n));
	}
	assert_int_equal(n, 3);
}

/* In a child, which is not to come back to cmocka. */
static void install_alone(void)
{
	signal(SIGSEGV, SIG_DFL);
	fault_guard_install();
}

static void fault_inside(void *ctx)
{
	assert_false(fault_guarded(read_nothing, NULL));
	++*(int *)ctx;
}

static void only_the_inner_guard_is_left(void **state)
{
	int n = 0;

	fault_guard_install();
	assert_true(fault_guarded(fault_inside, &n));
	assert_int_equal(n, 1);
}

/* As without us: the signal that kills it, and what it dumps, are the fault's. */
static void a_fault_elsewhere_is_deadly(void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int n = 0;

		install_alone();
		fault_guarded(do_nothing, &n);
		read_nothing(NULL);
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void send_itself(void *ctx)
{
	raise(SIGSEGV);
}

static void a_signal_that_somebody_sends_is_no_fault(void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		install_alone();
		fault_guarded(send_itself, NULL);
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A program with much debug information, of which little has been read so far. */
static struct module build(char path[512], uint64_t *size)
{
	struct stat st;

	victim_build(
		"(echo 'int first = 1, second = 2; struct s { int a, b; } third;'; for i in $(seq 400); do "
		"echo \"int f$i(int a) { int b = a * $i; return first += b; }\"; done; "
		"echo 'int main(void) { return f1(second); }') >@/big.c && gcc -O1 -g -o @/prog @/big.c && "
		"cp @/prog @/whole");
	snprintf(path, 512, "%s/prog", victim_dir);
	assert_int_equal(stat(path, &st), 0);
	*size = (uint64_t)st.st_size;
	return (struct module){
		.start = BIAS, .end = BIAS + 0x1000000, .bias = BIAS, .path = path, .open_path = path
	};
}

/* And the next one to read it lives on. */
static void cut(const char *path)
{
	fault_guard_install();
	assert_int_equal(truncate(path, 0), 0);
}

static bool nothing_is_there(void *ctx, uint64_t addr, void *buf, size_t len)
{
	return false;
}

static void a_lookup_in_a_file_that_is_cut_is_an_error(void **state)
{
	const struct memory_view mem = { nothing_is_there, NULL };
	struct locator *l = locator_new();
	struct variable v = { 0 };
	struct wc_error *err;
	uint64_t size;
	char path[512];
	struct module m = build(path, &size);
	const struct module_list list = { &m, 1, 1 };

	assert_null(locate(l, "first", &list, &mem, &v, NULL));
	variable_deinit(&v);
	cut(path);
	err = locate(l, "third.b", &list, &mem, &v, NULL);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENAME);
	assert_non_null(strstr(err->text, "damaged"));
	wc_error_free(err);
	/* The file is back: it is read anew. */
	assert_true(victim_sh("cp @/whole @/prog"));
	assert_null(locate(l, "third.b", &list, &mem, &v, NULL));
	assert_int_equal(v.size, 4);
	variable_deinit(&v);
	locator_free(l);
}

static void names_in_a_file_that_is_cut_are_unknown(void **state)
{
	struct symbolizer *s = symbolizer_new();
	const struct location *where;
	uint64_t size;
	char path[512];
	struct module m = build(path, &size);

	assert_true(symbolizer_add(s, &m));
	symbolizer_lookup(s, BIAS + 0x1200);
	cut(path);
	for (uint64_t at = 0; at < 0x2000; at += 0x40) {
		where = symbolizer_lookup(s, BIAS + 0x1000 + at);
		assert_non_null(where);
		assert_true(where->nframes >= 1);
	}
	assert_null(where->frame[0].function);
	symbolizer_free(s);
}

static void code_and_rules_of_a_file_that_is_cut_are_unknown(void **state)
{
	struct cfi *cfi = cfi_new();
	struct unwind_rule rule;
	uint8_t bytes[8];
	uint64_t size;
	char path[512];
	struct module m = build(path, &size);
	struct module_code *code = module_code_new(&m);

	assert_true(cfi_add(cfi, &m));
	cfi_rule(cfi, BIAS + 0x1200, &rule);
	assert_int_equal(rule.kind, UNWIND_CFA_REG);
	assert_true(module_code_read(code, BIAS + 0x1200, bytes, sizeof(bytes)));
	cut(path);
	for (uint64_t at = 0; at < 0x1000; at += 0x40) {
		cfi_rule(cfi, BIAS + 0x1800 + at, &rule);
		assert_int_equal(rule.kind, UNWIND_NO_RULE);
	}
	assert_false(module_code_read(code, BIAS + 0x1800, bytes, sizeof(bytes)));
	module_code_free(code);
	cfi_free(cfi);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_is_left_every_time),
		cmocka_unit_test(only_the_inner_guard_is_left),
		cmocka_unit_test(a_fault_elsewhere_is_deadly),
		cmocka_unit_test(a_signal_that_somebody_sends_is_no_fault),
		cmocka_unit_test(a_lookup_in_a_file_that_is_cut_is_an_error),
		cmocka_unit_test(names_in_a_file_that_is_cut_are_unknown),
		cmocka_unit_test(code_and_rules_of_a_file_that_is_cut_are_unknown),
	};

	return cmocka_run_group_tests(tests, victim_setup, victim_cleanup);
}
