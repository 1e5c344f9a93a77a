/*
 * What is armed in a program that is executing another one: its variable is at the same address there, and
 * nobody would take the signal. The target is this program without address randomisation.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/engine/arm/perf_bp.h"
#include "watchctl/engine/arm/ptrace_bp.h"

static volatile int watched;

/* "e": executes itself; "w": writes. It answers with the variable's address, once it has; ends at the end. */
static int be_target(void)
{
	char order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	printf("%p\n", (void *)(uintptr_t)&watched);
	fflush(stdout);
	while (read(STDIN_FILENO, &order, 1) == 1) {
		if (order == 'e')
			execl("/proc/self/exe", "test_armed_process", "target", (char *)NULL);
		watched++;
		printf("%p\n", (void *)(uintptr_t)&watched);
		fflush(stdout);
	}
	return 0;
}

struct target {
	pid_t pid;
	int order;
	FILE *answer;
	uint64_t addr;
	bool means_it;
};

static bool hear(struct target *t)
{
	char line[32];

	return fgets(line, sizeof(line), t->answer) && sscanf(line, "0x%lx", &t->addr) == 1;
}

static bool report(struct target *t, char order)
{
	return write(t->order, &order, 1) == 1 && hear(t);
}

static void start(struct target *t)
{
	int in[2], out[2];

	*t = (struct target){ .means_it = true };
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	t->pid = fork();
	if (!t->pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		close(in[1]);
		close(out[0]);
		personality(ADDR_NO_RANDOMIZE);
		execl("/proc/self/exe", "test_armed_process", "target", (char *)NULL);
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	t->order = in[1];
	t->answer = fdopen(out[0], "r");
	assert_true(hear(t));
}

static int end(struct target *t)
{
	int status;

	close(t->order);
	fclose(t->answer);
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	return status;
}

static bool executes_itself(void *ctx)
{
	struct target *t = ctx;
	uint64_t addr = t->addr;

	return report(t, 'e') && t->addr == addr && t->means_it;
}

static bool is_what_it_was(void *ctx)
{
	return ((const struct target *)ctx)->means_it;
}

static struct wc_error *arm(struct target *t, bool (*is_meant)(void *ctx), struct perf_bp *ret)
{
	const struct perf_bp_spec spec = {
		.addr = t->addr,
		.size = 4,
		.access = ACCESS_WRITE,
		.user_only = true,
		.process = { is_meant, t },
	};
	uint32_t threads, armed;

	return perf_bp_open(t->pid, &spec, ret, &threads, &armed);
}

static void assert_refused(struct wc_error *err)
{
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ETARGET);
	wc_error_free(err);
}

static void assert_dies_of_its_write(struct target *t)
{
	int status;

	assert_false(report(t, 'w'));
	status = end(t);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTRAP);
}

/* The other tests could not fail without this: whoever takes no SIGTRAP dies of a hit. */
static void a_hit_that_nobody_takes_kills(void **state)
{
	struct perf_bp bp = { 0 };
	struct target t;

	(void)state;
	start(&t);
	assert_null(arm(&t, is_what_it_was, &bp));
	assert_dies_of_its_write(&t);
	perf_bp_close(&bp);
}

static void what_was_prepared_before_an_exec_hits_nobody_after_it(void **state)
{
	struct perf_bp bp = { 0 };
	struct target t;

	(void)state;
	start(&t);
	assert_null(arm(&t, executes_itself, &bp));
	assert_true(report(&t, 'w'));
	perf_bp_close(&bp);
	assert_int_equal(end(&t), 0);
}

static void what_is_prepared_after_an_exec_is_not_armed(void **state)
{
	struct perf_bp bp = { 0 };
	struct target t;

	(void)state;
	start(&t);
	t.means_it = false;
	assert_refused(arm(&t, is_what_it_was, &bp));
	assert_true(report(&t, 'w'));
	assert_int_equal(end(&t), 0);
}

static void a_register_that_is_named_is_not_set_after_an_exec_either(void **state)
{
	struct ptrace_bp bp = { 0 }, wanted = { .slot = 1, .size = 4, .access = ACCESS_WRITE };
	struct target t;

	(void)state;
	start(&t);
	t.means_it = false;
	wanted.pid = t.pid;
	wanted.addr = t.addr;
	wanted.process = (struct armed_process){ is_what_it_was, &t };
	assert_refused(ptrace_bp_open(&wanted, NULL, &bp));
	assert_true(report(&t, 'w'));

	t.means_it = true;
	assert_null(ptrace_bp_open(&wanted, NULL, &bp));
	assert_dies_of_its_write(&t);
	ptrace_bp_close(&bp);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hit_that_nobody_takes_kills),
		cmocka_unit_test(what_was_prepared_before_an_exec_hits_nobody_after_it),
		cmocka_unit_test(what_is_prepared_after_an_exec_is_not_armed),
		cmocka_unit_test(a_register_that_is_named_is_not_set_after_an_exec_either),
	};

	if (argc > 1 && !strcmp(argv[1], "target"))
		return be_target();
	if (perf_bp_used(getpid()) < 0) {
		fprintf(stderr, "skipped: this machine offers no debug registers\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
