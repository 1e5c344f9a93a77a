/* proc, tracee, remote, gadget: on a child of ours that checks itself. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/other_process.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/proc/proc.h"

#define NR_GETPID 39
#define NR_GETPPID 110

struct child {
	pid_t pid;
	int answer; /* one byte, 0: all is well with it */
};

/* A child that sleeps in @body. */
static struct child spawn(int (*body)(void))
{
	struct child c;
	int p[2];

	assert_int_equal(pipe(p), 0);
	c.pid = fork();
	if (!c.pid) {
		char result = (char)body();

		if (write(p[1], &result, 1) != 1)
			_exit(9);
		_exit(0);
	}
	close(p[1]);
	c.answer = p[0];
	wait_for_state(c.pid, 'S');
	return c;
}

static int result_of(struct child *c)
{
	struct pollfd p = { .fd = c->answer, .events = POLLIN };
	char result = 99;

	if (poll(&p, 1, wait_ms()) != 1 || read(c->answer, &result, 1) != 1)
		result = 98;
	close(c->answer);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	return result;
}

static int sleep_exactly(void)
{
	struct timespec t = { .tv_nsec = 400000000 };

	return nanosleep(&t, NULL) ? errno : 0;
}

static int wait_for_events(void)
{
	struct epoll_event e;
	int n = epoll_wait(epoll_create1(0), &e, 1, 400);

	return n < 0 ? errno : n;
}

static int wait_for_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return sigtimedwait(&set, NULL, &(struct timespec){ .tv_nsec = 400000000 }) < 0 ? errno : 50;
}

static void call_in(pid_t pid, long nr, long expected)
{
	struct remote r = { 0 };
	struct gadgets g;
	long result = 0;

	assert_null(gadgets_find(pid, &g));
	assert_null(remote_open(pid, 0, NULL, &r));
	assert_null(remote_use_gadgets(&r, &g));
	assert_null(remote_syscall(&r, nr, 0, 0, 0, 0, 0, 0, &result));
	remote_close(&r);
	assert_int_equal(result, expected);
}

static void a_sleeping_call_goes_on_as_if_nothing_had_been(void **state)
{
	static const struct {
		int (*body)(void);
		int expected;
	} calls[] = { { sleep_exactly, 0 }, { wait_for_events, 0 }, { wait_for_signals, EAGAIN } };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct child c = spawn(calls[i].body);

		call_in(c.pid, NR_GETPID, c.pid);
		call_in(c.pid, NR_GETPPID, getpid());
		assert_int_equal(result_of(&c), calls[i].expected);
	}
}

static int count_signals_body(void)
{
	struct timespec t = { .tv_nsec = 600000000 };

	signal(SIGUSR1, SIG_IGN);
	while (nanosleep(&t, &t))
		;
	return 0;
}

static void the_programs_own_signals_still_arrive(void **state)
{
	struct child c = spawn(count_signals_body);
	int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		kill(c.pid, SIGUSR1);
		call_in(c.pid, NR_GETPID, c.pid);
	}
	assert_int_equal(result_of(&c), 0);
}

static int pause_body(void)
{
	pause();
	return 1;
}

static void a_stop_signal_during_the_call_still_stops(void **state)
{
	struct child c = spawn(pause_body);

	(void)state;
	kill(c.pid, SIGSTOP);
	wait_for_state(c.pid, 'T');
	call_in(c.pid, NR_GETPID, c.pid);
	wait_for_state(c.pid, 'T');
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	assert_true(is_in_state(c.pid, 'T'));
	kill(c.pid, SIGKILL);
	result_of(&c);
}

static void what_cannot_be_watched_is_named(void **state)
{
	static const struct {
		pid_t pid;
		enum wc_kind kind;
	} bad[] = { { 4194303, WC_ETARGET }, { 2, WC_ETARGET } };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct wc_error *err = proc_check(bad[i].pid);

		assert_non_null(err);
		assert_int_equal(err->kind, bad[i].kind);
		wc_error_free(err);
	}
	assert_null(proc_check(getpid()));
}

static void memory_that_is_not_there_reads_false(void **state)
{
	pid_t self = getpid();
	struct memory_view mem = proc_memory(&self);
	uint64_t here = 77, got = 0;
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	munmap(page + 4096, 4096);
	assert_true(memory_read(&mem, (uint64_t)(uintptr_t)&here, &got, 8));
	assert_int_equal(got, 77);
	assert_false(memory_read(&mem, 0x10, &got, 8));
	assert_false(memory_read(&mem, (uint64_t)(uintptr_t)page + 4092, &got, 8));
	munmap(page, 4096);
}

static void a_process_is_known_by_pid_and_start_time(void **state)
{
	struct child c = spawn(pause_body);
	uint64_t start = proc_start_time(c.pid);

	(void)state;
	assert_true(start > 0);
	assert_int_equal(proc_start_time(c.pid), start);
	kill(c.pid, SIGKILL);
	result_of(&c);
	assert_int_equal(proc_start_time(c.pid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sleeping_call_goes_on_as_if_nothing_had_been),
		cmocka_unit_test(the_programs_own_signals_still_arrive),
		cmocka_unit_test(a_stop_signal_during_the_call_still_stops),
		cmocka_unit_test(what_cannot_be_watched_is_named),
		cmocka_unit_test(memory_that_is_not_there_reads_false),
		cmocka_unit_test(a_process_is_known_by_pid_and_start_time),
	};

	return cmocka_run_group_tests_name("target", tests, NULL, NULL);
}
