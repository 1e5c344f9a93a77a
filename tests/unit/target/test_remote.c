/* Threads of another program at our disposal: who comes after a controller that was killed. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/other_process.h"
#include "watchctl/base/error.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/proc/proc.h"

#define NR_GETPID 39

static int count_to;

static void *count(void *unused)
{
	unsigned char n;

	for (n = 0; write(count_to, &n, 1) == 1; n++)
		;
	_exit(1);
	return unused;
}

/* A thread of its counts, so that it can be seen to live; the pipe is closed when it ends. */
static __attribute__((noreturn)) void be_counter(void)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!pthread_create(&thread, NULL, count, NULL))
		for (;;)
			pause();
	_exit(1);
}

/* Leads the program's thread away, has it stopped there by job control, and is killed. */
static __attribute__((noreturn)) void lead_away_and_die(pid_t pid)
{
	struct remote r = { 0 };
	struct gadgets g;
	long result;

	if (!gadgets_find(pid, &g) && !remote_open(pid, second_thread(pid), NULL, &r) &&
	    !remote_use_gadgets(&r, &g) && !remote_syscall(&r, NR_GETPID, 0, 0, 0, 0, 0, 0, &result) &&
	    result == pid && !kill(pid, SIGSTOP))
		raise(SIGKILL);
	_exit(1);
}

static void assert_counts_on(int fd)
{
	unsigned char last, now;
	int i;

	assert_int_equal(read(fd, &last, 1), 1);
	for (i = 0; i < 100000; i++) { /* more than a pipe holds */
		assert_int_equal(read(fd, &now, 1), 1);
		assert_int_equal(now, (unsigned char)(last + 1));
		last = now;
	}
}

/* What the thread comes through on its way home is not written over, however long it is not run. */
static void a_thread_that_a_killed_controller_left_away_comes_home(void **state)
{
	pid_t pid, controller;
	struct wc_error *err;
	struct remote r = { 0 };
	struct gadgets g;
	int fds[2], status;
	long result = 0;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	count_to = fds[1];
	pid = fork();
	if (!pid)
		be_counter();
	close(fds[1]);
	controller = fork();
	if (!controller)
		lead_away_and_die(pid);
	assert_int_equal(waitpid(controller, &status, 0), controller);
	assert_true(WIFSIGNALED(status));
	wait_for_state(pid, 'T');

	assert_null(gadgets_find(pid, &g));
	assert_null(remote_open(pid, 0, NULL, &r));
	err = remote_use_gadgets(&r, &g);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ENOTSUP);
	assert_non_null(strstr(err->text, "has not run since"));
	wc_error_free(err);
	remote_close(&r);

	kill(pid, SIGCONT);
	assert_counts_on(fds[0]);
	assert_null(remote_open(pid, 0, NULL, &r));
	assert_null(remote_use_gadgets(&r, &g));
	assert_null(remote_syscall(&r, NR_GETPID, 0, 0, 0, 0, 0, 0, &result));
	assert_int_equal(result, pid);
	remote_close(&r);
	assert_counts_on(fds[0]);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fds[0]);
}

/* Executes cat(1) when it has read a line. */
static __attribute__((noreturn)) void be_cat_after_a_line(const int in[2], const int out[2])
{
	char line[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(in[0], line, sizeof(line)) == sizeof(line) && dup2(in[0], STDIN_FILENO) == STDIN_FILENO &&
	    dup2(out[1], STDOUT_FILENO) == STDOUT_FILENO && !close(in[1]) && !close(out[0]))
		execl("/bin/cat", "cat", (char *)NULL);
	_exit(1);
}

static void assert_echoes(int in, int out)
{
	char answer[2] = "";

	assert_int_equal(write(in, "?\n", 2), 2);
	assert_int_equal(read(out, answer, 2), 2);
	assert_memory_equal(answer, "?\n", 2);
}

/* What was found out about its memory means nothing any more: it would be sent to where nothing is. */
static void a_program_that_became_another_after_a_look_at_it_is_asked_nothing(void **state)
{
	int in[2], out[2], status;
	struct remote r = { 0 };
	struct wc_error *err;
	uint64_t stack_start;
	struct gadgets g;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (!pid)
		be_cat_after_a_line(in, out);
	stack_start = proc_stack_start(pid);
	assert_null(gadgets_find(pid, &g));
	assert_true(gadgets_are_there(pid, &g));
	assert_false(proc_has_execed(pid, stack_start));

	assert_int_equal(write(in[1], "!\n", 2), 2);
	assert_echoes(in[1], out[0]);
	assert_true(proc_has_execed(pid, stack_start));
	assert_false(gadgets_are_there(pid, &g));
	assert_null(remote_open(pid, 0, NULL, &r));
	err = remote_use_gadgets(&r, &g);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ETARGET);
	wc_error_free(err);
	remote_close(&r);

	assert_echoes(in[1], out[0]);
	close(in[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(in[0]);
	close(out[0]);
	close(out[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_that_became_another_after_a_look_at_it_is_asked_nothing),
		cmocka_unit_test(a_thread_that_a_killed_controller_left_away_comes_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
