/* Stopping one thread: of a program that gets signals all the time, and of one that cannot be stopped. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/other_process.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/tracee.h"

#define STOPS 2000
#define STOP_MS ((unsigned int)wait_ms())

static volatile sig_atomic_t signals;

static void count_signal(int sig)
{
	(void)sig;
	signals = signals + 1;
}

static __attribute__((noreturn)) void be_under_signals(void)
{
	const struct itimerval often = { { 0, 50 }, { 0, 50 } };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, count_signal);
	setitimer(ITIMER_REAL, &often, NULL);
	for (;;)
		;
}

/* Each stop makes the kernel forget that another one was asked for: that for a signal, too. */
static void a_signal_on_the_way_keeps_no_thread_from_being_stopped(void **state)
{
	pid_t pid = fork();

	(void)state;
	if (!pid)
		be_under_signals();
	for (int i = 0; i < STOPS; i++) {
		struct tracee t;

		assert_int_equal(tracee_stop(pid, pid, STOP_MS, &t), TRACEE_STOPPED);
		tracee_release(&t);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Exits with the first result that is not a stop. */
static __attribute__((noreturn)) void stop_again_and_again(pid_t pid)
{
	struct tracee t;

	for (int i = 0; i < STOPS; i++) {
		enum tracee_stop_result r = tracee_stop(pid, pid, STOP_MS, &t);

		if (r != TRACEE_STOPPED)
			_exit((int)r);
		tracee_release(&t);
	}
	_exit(TRACEE_STOPPED);
}

/* Whoever held it may have let go of it by the time that one looks who that was. */
static void several_of_us_stop_one_thread_one_after_the_other(void **state)
{
	pid_t target = fork(), of_us[4];
	size_t i;
	int status;

	(void)state;
	if (!target)
		be_under_signals();
	for (i = 0; i < sizeof(of_us) / sizeof(of_us[0]); i++) {
		of_us[i] = fork();
		if (!of_us[i])
			stop_again_and_again(target);
	}
	for (i = 0; i < sizeof(of_us) / sizeof(of_us[0]); i++) {
		assert_int_equal(waitpid(of_us[i], &status, 0), of_us[i]);
		assert_int_equal(status, TRACEE_STOPPED << 8);
	}
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
}

/* Exits with what its epoll_wait() answers: 0, when that was a byte of @from. */
static __attribute__((noreturn)) void wait_for_byte(int from)
{
	struct epoll_event event = { .events = EPOLLIN };
	int n, all = epoll_create1(0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (epoll_ctl(all, EPOLL_CTL_ADD, from, &event))
		_exit(99);
	n = epoll_wait(all, &event, 1, -1);
	_exit(n == 1 ? 0 : errno);
}

/* Such a call answers EINTR to a stop, which is undone; also when nothing can be opened to look at. */
static void a_call_that_is_not_to_be_interrupted_is_started_again_without_a_file(void **state)
{
	struct rlimit was, none;
	int status, byte[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(byte), 0);
	pid = fork();
	if (!pid)
		wait_for_byte(byte[0]);
	wait_for_state(pid, 'S');
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 3; i++) {
		struct tracee t;
		bool stopped = tracee_stop(pid, pid, STOP_MS, &t) == TRACEE_STOPPED;

		if (stopped)
			tracee_release(&t);
		assert_true(stopped);
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(write(byte[1], "g", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(byte[0]);
	close(byte[1]);
}

/* Whoever stops it dies at once, and can undo nothing any more. */
static void a_call_is_started_again_although_its_tracer_is_killed_at_the_stop(void **state)
{
	int status, byte[2];
	pid_t pid, killed;
	struct tracee t;

	(void)state;
	assert_int_equal(pipe(byte), 0);
	pid = fork();
	if (!pid)
		wait_for_byte(byte[0]);
	wait_for_state(pid, 'S');
	killed = fork();
	if (!killed) {
		if (tracee_stop(pid, pid, STOP_MS, &t) == TRACEE_STOPPED)
			raise(SIGKILL);
		_exit(1);
	}
	assert_int_equal(waitpid(killed, &status, 0), killed);
	assert_int_equal(status, SIGKILL);
	assert_int_equal(write(byte[1], "g", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(byte[0]);
	close(byte[1]);
}

/* In vfork(2) until its child, which shares its memory, has read a byte. */
static __attribute__((noreturn)) void be_unstoppable(const int fds[2])
{
	char c;

	close(fds[1]); /* so that it ends with the test, too */
	if (!vfork())
		_exit(read(fds[0], &c, 1) != 1);
	_exit(7);
}

/* Else it would stop at the end of that call, and wait for whoever had asked for it. */
static void a_thread_that_cannot_stop_is_left_alone(void **state)
{
	struct proc_status s;
	int fds[2], status;
	struct tracee t;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid)
		be_unstoppable(fds);
	wait_for_state(pid, 'D');
	assert_int_equal(tracee_stop(pid, pid, 50, &t), TRACEE_BUSY);
	assert_true(proc_status_read(pid, pid, &s));
	assert_int_equal(s.tracer, 0);
	assert_int_equal(write(fds[1], "g", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	close(fds[0]);
	close(fds[1]);
}

static void *execute_cat(void *go)
{
	char c;

	if (read(*(int *)go, &c, 1) == 1)
		execl("/bin/cat", "cat", (char *)NULL);
	_exit(1);
}

/* Its other thread executes cat(1), which reads the rest of @go, when it has read a byte of it. */
static __attribute__((noreturn)) void be_replaced_by_a_thread(int go[2])
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(go[1]);
	if (dup2(go[0], STDIN_FILENO) != STDIN_FILENO || pthread_create(&thread, NULL, execute_cat, go))
		_exit(1);
	for (;;)
		pause();
}

static bool is_in_call(pid_t pid, pid_t tid, const char *call)
{
	char path[64], text[16];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	f = fopen(path, "r");
	assert_non_null(f);
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	return !strncmp(text, call, strlen(call));
}

/* Whoever wants to trace a thread waits for its exec; then it has another number. */
static void stop_a_thread_that_executes_a_program(unsigned int after_us)
{
	struct proc_status s;
	int go[2], status;
	struct tracee t;
	pid_t pid, tid;

	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (!pid)
		be_replaced_by_a_thread(go);
	tid = second_thread(pid);
	WAIT_UNTIL(is_in_call(pid, tid, "0 "));
	assert_int_equal(write(go[1], "g", 1), 1);
	nanosleep(&(struct timespec){ .tv_nsec = after_us * 1000L }, NULL);
	if (tracee_stop(pid, tid, STOP_MS, &t) == TRACEE_STOPPED)
		tracee_release(&t);
	assert_true(proc_status_read(pid, pid, &s));
	assert_int_equal(s.tracer, 0);

	close(go[1]); /* the end of what cat reads */
	close(go[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_thread_that_executes_a_program_while_it_is_to_be_stopped_is_not_kept(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 200; i++)
		stop_a_thread_that_executes_a_program(i * 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_on_the_way_keeps_no_thread_from_being_stopped),
		cmocka_unit_test(several_of_us_stop_one_thread_one_after_the_other),
		cmocka_unit_test(a_call_that_is_not_to_be_interrupted_is_started_again_without_a_file),
		cmocka_unit_test(a_call_is_started_again_although_its_tracer_is_killed_at_the_stop),
		cmocka_unit_test(a_thread_that_cannot_stop_is_left_alone),
		cmocka_unit_test(a_thread_that_executes_a_program_while_it_is_to_be_stopped_is_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
