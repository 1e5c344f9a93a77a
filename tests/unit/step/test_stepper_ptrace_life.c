/* The ptrace stepper: threads, processes, libraries, how programs begin and end. */
#include <dlfcn.h>
#include <pthread.h>

#include "tests/unit/stepper_scene.h"
#include "watchctl/target/stop/launch.h"

/* Threads */

#define THREADS 4
#define ROUNDS 300

VICTIM static int work(int n)
{
	__atomic_fetch_add(&reported->count[0], 1, __ATOMIC_RELAXED);
	return n * 3;
}

static void *worker(void *arg)
{
	int i, sum = 0;

	for (i = 0; i < ROUNDS; i++)
		sum += work(i);
	__atomic_fetch_add(&reported->count[1], sum == 3 * ROUNDS * (ROUNDS - 1) / 2, __ATOMIC_RELAXED);
	return arg;
}

VICTIM static void crowd(void)
{
	pthread_t t[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, worker, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	__asm__ volatile("" ::: "memory");
}

static void live_crowd(void)
{
	crowd();
}

static void record_crowd(enum stepper_threads which, size_t calls)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(work), function_at(crowd), from_at(crowd) };

	set_up(&s, live_crowd);
	o = from_options(&s);
	o.threads = which;
	plan_registers(&s.plan[0]);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(s.reported->count[0], THREADS * ROUNDS);
	assert_int_equal(s.reported->count[1], THREADS);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), calls);
	assert_int_equal(count_how(&s, RETURN_RETURNED), calls + 1);
	check_pairs(&s);
	if (calls) {
		assert_int_equal(count_of(&s, STEP_THREAD, UINT32_MAX), THREADS + 1);
		assert_int_equal(seen_of(&s, STEP_THREAD, UINT32_MAX, 1)->creator, s.pid);
		assert_int_equal(seen_of(&s, STEP_ENTRY, 0, 0)->call.flags & CALL_FIRST, CALL_FIRST);
	} else {
		assert_int_equal(count_of(&s, STEP_THREAD, UINT32_MAX), 1);
	}
	tear_down(&s);
}

static void every_call_of_every_thread_is_reported(void **state)
{
	(void)state;
	record_crowd(STEPPER_THREADS_ALL, (size_t)THREADS * ROUNDS);
	record_crowd(STEPPER_THREADS_RANGE, (size_t)THREADS * ROUNDS);
}

static void only_the_thread_that_began_the_range_is_reported(void **state)
{
	(void)state;
	record_crowd(STEPPER_THREADS_ONE, 0);
}
/* Processes */

VICTIM static void forker(void)
{
	int status = -1, sum = 0, i;
	pid_t pid = fork();

	for (i = 0; i < 10; i++)
		sum = leaf(sum);
	if (!pid)
		_exit(sum);
	waitpid(pid, &status, 0);
	reported->count[1] = WIFEXITED(status) ? WEXITSTATUS(status) : -status;
	__asm__ volatile("" ::: "memory");
}

static void live_fork(void)
{
	forker();
}

static void a_forked_child_runs_on_without_breakpoints(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(forker), from_at(forker) };

	(void)state;
	set_up(&s, live_fork);
	o = from_options(&s);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(s.reported->count[1], 10);
	assert_int_equal(s.reported->count[0], 20);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 10);
	assert_int_equal(count_of(&s, STEP_FORK, UINT32_MAX), 1);
	check_pairs(&s);
	tear_down(&s);
}

VICTIM static void vforker(void)
{
	int status = -1;
	pid_t pid = vfork();

	if (!pid) {
		leaf(1);
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
		_exit(99);
	}
	leaf(2);
	waitpid(pid, &status, 0);
	reported->count[1] = WIFEXITED(status) ? WEXITSTATUS(status) : -status;
	__asm__ volatile("" ::: "memory");
}

static void live_vfork(void)
{
	vforker();
}

static void a_child_that_shares_memory_passes_breakpoints_unreported(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(vforker), from_at(vforker) };

	(void)state;
	set_up(&s, live_vfork);
	o = from_options(&s);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(s.reported->count[1], 7);
	assert_int_equal(s.reported->count[0], 2);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 1);
	check_pairs(&s);
	tear_down(&s);
}

VICTIM static void executer(void)
{
	leaf(1);
	execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
}

static void live_exec(void)
{
	executer();
}

static void exec_ends_the_recording_and_not_the_program(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(executer), from_at(executer) };
	int status;

	(void)state;
	set_up(&s, live_exec);
	o = from_options(&s);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_EXEC);
	assert_int_equal(count_how(&s, RETURN_EXEC), 1);
	assert_int_equal(seen_of(&s, STEP_RANGE, UINT32_MAX, 1)->what, RANGE_EXECED);
	check_pairs(&s);
	assert_int_equal(waitpid(s.pid, &status, 0), s.pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	tear_down(&s);
}

VICTIM static void leaver(int n)
{
	if (leaf(n) == 3)
		exit(5);
	if (n < 10)
		leaver(n + 1);
	__asm__ volatile("" ::: "memory");
}

static void live_exit(void)
{
	leaver(0);
}

static void what_is_open_when_the_program_exits_is_reported_so(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(leaver), from_at(leaver) };
	const struct seen *e;

	(void)state;
	set_up(&s, live_exit);
	o = from_options(&s);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_EXIT);
	e = seen_of(&s, STEP_EXIT, UINT32_MAX, 0);
	assert_true(WIFEXITED(e->status) && WEXITSTATUS(e->status) == 5);
	assert_int_equal(count_of(&s, STEP_ENTRY, 1), 3);
	assert_int_equal(count_how(&s, RETURN_PROCESS_EXIT), 3);
	assert_int_equal(seen_of(&s, STEP_RANGE, UINT32_MAX, 1)->what, RANGE_EXITED);
	check_pairs(&s);
	tear_down(&s);
}

static void a_killed_program_is_reported_with_its_status(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf) };

	(void)state;
	set_up(&s, live_exit);
	o = options(&s);
	open_stepper(&s, &o, p, 1);
	kill(s.pid, SIGKILL);
	pump_to(&s, STEP_EXIT);
	assert_int_equal(seen_of(&s, STEP_EXIT, UINT32_MAX, 0)->status, SIGKILL);
	tear_down(&s);
}
/* Libraries */

VICTIM static void opener(void)
{
	void *lib = dlopen("libz.so.1", RTLD_NOW);
	const char *(*version)(void) = lib ? (const char *(*)(void))dlsym(lib, "zlibVersion") : NULL;

	reported->count[1] = version && version();
	leaf(1);
	__asm__ volatile("" ::: "memory");
}

static void live_open(void)
{
	opener();
}

/* Whoever records hears of the library before its code runs: here it only looks. */
static void a_library_that_is_loaded_is_reported(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(opener), from_at(opener) };

	(void)state;
	set_up(&s, live_open);
	o = from_options(&s);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(s.reported->count[1], 1);
	assert_true(count_of(&s, STEP_MODULES, UINT32_MAX) >= 1);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 1);
	check_pairs(&s);
	tear_down(&s);
}

static void a_launched_program_is_held_until_the_recording_starts(void **state)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)"exit 3", NULL };
	struct scene s = { 0 };
	struct tracee held;
	struct stepper_options o;
	int status;

	(void)state;
	check(launch_start(argv, LAUNCH_RANDOM, &held));
	s.pid = held.pid;
	s.seen = calloc(SEEN_MAX, sizeof(*s.seen));
	o = options(&s);
	o.held = &held;
	check(stepper_ptrace.open(&o, &s.m));
	usleep(50000);
	assert_int_equal(waitpid(s.pid, NULL, WNOHANG), 0);
	check(stepper_ptrace.start(s.m));
	pump_to(&s, STEP_EXIT);
	assert_true(count_of(&s, STEP_MODULES, UINT32_MAX) >= 1);
	assert_int_equal(count_of(&s, STEP_SIGNAL, UINT32_MAX), 0);
	status = seen_of(&s, STEP_EXIT, UINT32_MAX, 0)->status;
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	check(stepper_ptrace.close(s.m));
	assert_int_equal(waitpid(s.pid, &status, 0), s.pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	free(s.seen);
}

static void a_launched_program_that_is_not_recorded_after_all_runs(void **state)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)"exit 3", NULL };
	struct scene s = { 0 };
	struct tracee held;
	struct stepper_options o;
	int status;

	(void)state;
	check(launch_start(argv, LAUNCH_RANDOM, &held));
	s.pid = held.pid;
	o = options(&s);
	o.held = &held;
	check(stepper_ptrace.open(&o, &s.m));
	check(stepper_ptrace.close(s.m));
	assert_int_equal(waitpid(s.pid, &status, 0), s.pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

/* Job control: what stops the program stops it, and what lets it go on does. */
static void a_stopped_program_stays_stopped_until_it_is_continued(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(sum_to) };
	const struct step_record *r;
	int i, before, status;

	(void)state;
	set_up(&s, live_slowly);
	o = options(&s);
	open_stepper(&s, &o, p, 1);
	go(&s);
	pump_to(&s, STEP_RETURN);
	kill(s.pid, SIGSTOP);
	assert_int_equal(waitpid(s.pid, &status, WUNTRACED), s.pid);
	assert_true(WIFSTOPPED(status));
	before = s.reported->count[0];
	for (i = 0; i < 50; i++) {
		check(stepper_ptrace.next(s.m, 0, &r));
		usleep(1000);
	}
	assert_int_equal(s.reported->count[0], before);
	kill(s.pid, SIGCONT);
	WAIT_UNTIL((check(stepper_ptrace.next(s.m, 0, &r)), s.reported->count[0] > before));
	/* And it can be let go of while it is stopped. */
	kill(s.pid, SIGSTOP);
	assert_int_equal(waitpid(s.pid, &status, WUNTRACED), s.pid);
	close_stepper(&s);
	before = s.reported->count[0];
	usleep(50000);
	assert_int_equal(s.reported->count[0], before);
	kill(s.pid, SIGCONT);
	s.reported->count[7] = 1;
	wait_for_life(&s);
	tear_down(&s);
}

static void attaching_says_who_traces_already(void **state)
{
	struct scene s, again;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf) };
	struct wc_error *err;

	(void)state;
	set_up(&s, live_fib);
	o = options(&s);
	open_stepper(&s, &o, p, 1);
	again = s;
	err = stepper_ptrace.open(&o, &again.m);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_EPERM);
	assert_non_null(strstr(err->text, "is already traced by another watchctl step"));
	wc_error_free(err);
	tear_down(&s);
}
int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_of_every_thread_is_reported),
		cmocka_unit_test(only_the_thread_that_began_the_range_is_reported),
		cmocka_unit_test(a_forked_child_runs_on_without_breakpoints),
		cmocka_unit_test(a_child_that_shares_memory_passes_breakpoints_unreported),
		cmocka_unit_test(exec_ends_the_recording_and_not_the_program),
		cmocka_unit_test(what_is_open_when_the_program_exits_is_reported_so),
		cmocka_unit_test(a_killed_program_is_reported_with_its_status),
		cmocka_unit_test(a_library_that_is_loaded_is_reported),
		cmocka_unit_test(a_launched_program_is_held_until_the_recording_starts),
		cmocka_unit_test(a_launched_program_that_is_not_recorded_after_all_runs),
		cmocka_unit_test(a_stopped_program_stays_stopped_until_it_is_continued),
		cmocka_unit_test(attaching_says_who_traces_already),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
