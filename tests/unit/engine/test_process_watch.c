/* Processes that begin, execute, fork and end, under exec_watch and family_watch. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/other_process.h"
#include "watchctl/engine/intake/exec_watch.h"
#include "watchctl/engine/perf/family_watch.h"

static int order[2]; /* the child goes on with each byte written */

static void wait_for_order(void)
{
	char c;

	if (read(order[0], &c, 1) != 1)
		_exit(9);
}

static void go_on(void)
{
	assert_int_equal(write(order[1], "x", 1), 1);
}

static pid_t start(void (*life)(void))
{
	pid_t pid;

	assert_int_equal(pipe(order), 0);
	pid = fork();
	if (!pid) {
		close(order[1]);
		life();
		_exit(0);
	}
	return pid;
}

static void finish(pid_t pid)
{
	close(order[0]);
	close(order[1]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void open_exec_watch(struct exec_watch *w, pid_t pid)
{
	if (exec_watch_open(w, pid))
		return;
	print_message("skipped: perf events are not permitted here\n");
	skip();
}

static void execute(void)
{
	wait_for_order();
	execl("/bin/sleep", "sleep", "60", (char *)NULL);
}

static void *execute_in_thread(void *arg)
{
	execute();
	return arg;
}

static void execute_by_another_thread(void)
{
	pthread_t t;

	wait_for_order();
	pthread_create(&t, NULL, execute_in_thread, NULL);
	pthread_exit(NULL);
}

static void an_exec_is_noticed_and_wakes_who_waits(void **state)
{
	pid_t pid = start(execute);
	struct exec_watch w;
	struct pollfd p;

	(void)state;
	open_exec_watch(&w, pid);
	assert_false(exec_watch_execed(&w));
	p = (struct pollfd){ .fd = w.fd, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 0);
	go_on();
	assert_int_equal(poll(&p, 1, wait_ms()), 1);
	WAIT_UNTIL(exec_watch_execed(&w));
	exec_watch_close(&w);
	finish(pid);
}

static void the_end_of_the_main_thread_alone_is_no_exec_but_what_follows_may_be(void **state)
{
	pid_t pid = start(execute_by_another_thread);
	struct exec_watch w;
	struct pollfd p;

	(void)state;
	open_exec_watch(&w, pid);
	p = (struct pollfd){ .fd = w.fd, .events = POLLIN };
	go_on();
	assert_int_equal(poll(&p, 1, wait_ms()), 1);
	wait_for_state(pid, 'Z');
	assert_false(exec_watch_execed(&w));
	go_on();
	WAIT_UNTIL(exec_watch_execed(&w));
	exec_watch_close(&w);
	finish(pid);
}

/* It gives our event up before its state says that it ends: how long before is up to the memory it has. */
static void end_at_once(void)
{
	size_t size = 64u << 20;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	wait_for_order();
	_exit(p == MAP_FAILED);
}

static void an_end_is_never_taken_for_an_exec(void **state)
{
	(void)state;
	for (int round = 0; round < 40; round++) {
		pid_t pid = start(end_at_once);
		struct exec_watch w;
		siginfo_t info = { 0 };

		open_exec_watch(&w, pid);
		go_on();
		do {
			if (exec_watch_execed(&w))
				fail_msg("round %d: an end was taken for an exec", round);
		} while (!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid);
		assert_int_equal(info.si_status, 0);
		assert_false(exec_watch_execed(&w));
		exec_watch_close(&w);
		finish(pid);
	}
}

static void leave_a_child(void)
{
	wait_for_order();
	if (fork())
		return;
	wait_for_order();
	if (fork())
		_exit(0);
	wait_for_order();
}

static void a_family_lives_as_long_as_its_last_descendant(void **state)
{
	pid_t pid = start(leave_a_child);
	struct family_watch w;

	(void)state;
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* so that we can wait for its descendants */
	if (!family_watch_open(&w, pid)) {
		print_message("skipped: perf events are not permitted here\n");
		skip();
	}
	assert_false(family_watch_ended(&w));
	go_on();
	assert_int_equal(waitpid(pid, NULL, 0), pid); /* its child lives on */
	if (family_watch_ended(&w)) {
		print_message("skipped: this kernel does not tell (Linux 6.15 does)\n");
		skip();
	}
	go_on();
	assert_true(waitpid(-1, NULL, 0) > 0); /* and the child of that */
	assert_false(family_watch_ended(&w));
	go_on();
	WAIT_UNTIL(family_watch_ended(&w));
	family_watch_close(&w);
	assert_true(waitpid(-1, NULL, 0) > 0);
	close(order[0]);
	close(order[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exec_is_noticed_and_wakes_who_waits),
		cmocka_unit_test(the_end_of_the_main_thread_alone_is_no_exec_but_what_follows_may_be),
		cmocka_unit_test(an_end_is_never_taken_for_an_exec),
		cmocka_unit_test(a_family_lives_as_long_as_its_last_descendant),
	};

	return cmocka_run_group_tests_name("process_watch", tests, NULL, NULL);
}
