/* The LLDB stepper leaves a program as it was found, however it ends. */
#include "tests/unit/lldb_scene.h"

#include <sys/mman.h>

#include "tests/unit/wait.h"

/* The account: what the program has written of its calls. */
static off_t account_size(void)
{
	struct stat st;

	return stat(account, &st) ? 0 : st.st_size;
}

/* The program as it is before and after: threads, tracer, signals, code. */
static void snapshot(struct scene *s, uint8_t code[64])
{
	struct proc_status status;
	struct memory_view mem = proc_memory(&s->pid);

	assert_true(proc_status_read(s->pid, s->pid, &status));
	assert_int_equal(status.tracer, 0);
	assert_true(memory_read(&mem, s->bias + by_name("begin")->address, code, 64));
}

static pid_t start_loop(void)
{
	pid_t pid;

	unlink(account); /* of the loop before */
	pid = fork();
	if (!pid) {
		freopen("/dev/null", "w", stdout);
		execl(victim, victim, "loop", account, (char *)NULL);
		_exit(127);
	}
	WAIT_UNTIL(account_size() > 0);
	return pid;
}

/* The program does what it did: its account grows, by more than what it was about to write. */
static void goes_on(pid_t pid)
{
	const off_t before = account_size();

	WAIT_UNTIL(waitpid(pid, NULL, WNOHANG) || account_size() > before + 200);
	assert_true(account_size() > before + 200);
}

/* Until the program has reported so many lines. */
static void pump_lines(struct scene *s, size_t n)
{
	const uint64_t end = wait_end_ns();

	while (s->reported->n < n && monotonic_ns() < end)
		pump(s, 50);
	assert_true(s->reported->n >= n);
}

static void a_running_process_is_left_as_it_was_found(void **state)
{
	struct stepper_options o = defaults();
	uint8_t before[64], after[64];
	struct scene s;

	(void)state;
	scene_open(&s);
	s.pid = start_loop();
	s.bias = bias_of(s.pid);
	snapshot(&s, before);
	o.pid = s.pid;
	o.range = (struct range_options){ .has_from = true, .from_is_function = true, .occurrence = 1 };
	ok(stepper_lldb.open(&o, &s.m));
	give_points(&s, "begin", NULL);
	ok(stepper_lldb.start(s.m));
	pump_lines(&s, 21);
	ok(stepper_lldb.stop(s.m));
	pump(&s, wait_ms());
	assert_string_equal(s.over, "done");
	snapshot(&s, after);
	assert_memory_equal(before, after, 64);
	goes_on(s.pid);
	kill(s.pid, SIGKILL);
	assert_int_equal(wait_for(s.pid), SIGKILL);
	scene_close(&s);
}

static void closing_in_the_middle_leaves_the_program_running(void **state)
{
	struct stepper_options o = defaults();
	uint8_t before[64], after[64];
	struct scene s;

	(void)state;
	scene_open(&s);
	s.pid = start_loop();
	s.bias = bias_of(s.pid);
	snapshot(&s, before);
	o.pid = s.pid;
	ok(stepper_lldb.open(&o, &s.m));
	give_points(&s, NULL, NULL);
	ok(stepper_lldb.start(s.m));
	pump_lines(&s, 10);
	ok(stepper_lldb.close(s.m));
	s.m = NULL;
	snapshot(&s, after);
	assert_memory_equal(before, after, 64);
	goes_on(s.pid);
	kill(s.pid, SIGKILL);
	assert_int_equal(wait_for(s.pid), SIGKILL);
	scene_close(&s);
}

/* Records the loop until somebody kills it; @records: what has come so far, shared with the test. */
static void record_forever(struct scene *s, struct stepper_options *o, volatile size_t *records)
{
	o->pid = s->pid;
	ok(stepper_lldb.open(o, &s->m));
	give_points(s, NULL, NULL);
	ok(stepper_lldb.start(s->m));
	for (;;) {
		s->reported->n = 0;
		pump(s, 100);
		*records += s->reported->n;
	}
}

/* A recorder that is killed at any moment, with breakpoints in the program, leaves it running and whole. */
static void a_recorder_that_is_killed_does_no_harm(void **state)
{
	struct stepper_options o = defaults();
	volatile size_t *records =
		mmap(NULL, sizeof(*records), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint8_t before[64], after[64];
	struct scene s;

	(void)state;
	assert_true(records != MAP_FAILED);
	scene_open(&s);
	s.pid = start_loop();
	s.bias = bias_of(s.pid);
	snapshot(&s, before);
	for (unsigned int i = 0; i < 5; i++) {
		struct proc_status status = { .tracer = 1 };
		pid_t recorder;

		*records = 0;
		recorder = fork();
		if (!recorder)
			record_forever(&s, &o, records);
		WAIT_UNTIL(*records > 20);
		usleep(100000 + i * 31000);
		assert_true(proc_status_read(s.pid, s.pid, &status));
		assert_int_not_equal(status.tracer, 0); /* it is being recorded */
		kill(recorder, SIGKILL);
		assert_int_equal(wait_for(recorder), SIGKILL);
		WAIT_UNTIL(proc_status_read(s.pid, s.pid, &status) && !status.tracer);
		snapshot(&s, after);
		assert_memory_equal(before, after, 64);
		goes_on(s.pid);
	}
	kill(s.pid, SIGKILL);
	assert_int_equal(wait_for(s.pid), SIGKILL);
	scene_close(&s);
	munmap((void *)records, sizeof(*records));
}

static void what_is_not_there_is_refused(void **state)
{
	struct stepper_options o = defaults();
	struct stepper *m = NULL;
	struct wc_error *err;

	(void)state;
	o.pid = 4194303;
	err = stepper_lldb.open(&o, &m);
	assert_non_null(err);
	assert_int_equal(err->kind, WC_ETARGET);
	wc_error_free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_running_process_is_left_as_it_was_found),
		cmocka_unit_test(closing_in_the_middle_leaves_the_program_running),
		cmocka_unit_test(a_recorder_that_is_killed_does_no_harm),
		cmocka_unit_test(what_is_not_there_is_refused),
	};

	return cmocka_run_group_tests_name("mover_lldb_harm", tests, build_victim, remove_victim);
}
