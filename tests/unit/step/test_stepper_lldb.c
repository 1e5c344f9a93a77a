/* The LLDB stepper on a real program: what it reports has to be the account that the program writes itself. */
#include "tests/unit/lldb_scene.h"

static void each_call_and_return_is_reported_with_its_values(void **state)
{
	struct scene s;

	(void)state;
	record(&s, "begin", defaults(), NULL, NULL);
	assert_string_equal(s.over, "exit");
	assert_int_equal(s.status, W_EXITCODE(7, 0));
	read_account(s.accounted);
	assert_int_equal(s.accounted->n, 48);
	assert_same_lines(s.reported, s.accounted);
	assert_int_equal(wait_for(s.pid), W_EXITCODE(7, 0));
	scene_close(&s);
}

static void recursion_nests(void **state)
{
	struct scene s;

	(void)state;
	record(&s, "recurse", defaults(), NULL, NULL);
	read_account(s.accounted);
	assert_same_lines(s.reported, s.accounted);
	wait_for(s.pid);
	scene_close(&s);
}

/* begin() is entered three times; the second one alone is recorded, up to finish(). */
static void only_the_occurrence_asked_for_is_reported(void **state)
{
	struct stepper_options o = defaults();
	struct scene s;

	(void)state;
	o.range.occurrence = 2;
	o.range.count = 1;
	record(&s, "begin", o, "begin", "finish");
	assert_string_equal(s.over, "done");
	assert_int_equal(wait_for(s.pid), W_EXITCODE(7, 0)); /* it ran on by itself */
	assert_string_equal(s.reported->v[0], "call begin 2");
	assert_string_equal(s.reported->v[s.reported->n - 1], "return begin 16");
	assert_int_equal(s.reported->n, 14);
	assert_int_equal(s.last_range, RANGE_RETURNED);
	assert_int_equal(s.flags_seen & CALL_FIRST, CALL_FIRST);
	scene_close(&s);
}

static void range_ends_where_its_end_is_reached(void **state)
{
	struct stepper_options o = defaults();
	struct scene s;

	(void)state;
	o.range.count = 1;
	record(&s, "begin", o, "middle", "leaf");
	wait_for(s.pid);
	assert_int_equal(s.last_range, RANGE_REACHED);
	assert_string_equal(s.reported->v[0], "call middle 0");
	assert_string_equal(s.reported->v[1], "left middle 8"); /* RETURN_NEVER: it was open */
	assert_int_equal(s.reported->n, 2);
	scene_close(&s);
}

static void longjmp_ends_what_it_leaves(void **state)
{
	struct scene s;
	size_t left = 0;

	(void)state;
	record(&s, "longjmp", defaults(), NULL, NULL);
	wait_for(s.pid);
	for (size_t i = 0; i < s.reported->n; i++)
		left += !strncmp(s.reported->v[i], "left inner", 10) ||
			!strncmp(s.reported->v[i], "left jumps", 10);
	assert_int_equal(left, 2);
	assert_string_equal(s.reported->v[s.reported->n - 1], "return begin 5");
	scene_close(&s);
}

static void signals_are_reported_and_reach_the_program(void **state)
{
	struct scene s;

	(void)state;
	record(&s, "signal", defaults(), NULL, NULL);
	wait_for(s.pid);
	read_account(s.accounted);
	assert_int_equal(s.signals, 1);
	assert_int_equal(s.signal_code, SI_TKILL);
	assert_int_equal(s.reported->n, s.accounted->n);
	scene_close(&s);
}

static void threads_are_reported_with_who_made_them(void **state)
{
	struct scene s;

	(void)state;
	record(&s, "threads", defaults(), NULL, NULL);
	assert_int_equal(wait_for(s.pid), W_EXITCODE(7, 0));
	read_account(s.accounted);
	assert_int_equal(s.threads_reported, 5);
	assert_true(s.creators);
	sort_lines(s.reported);
	sort_lines(s.accounted);
	assert_same_lines(s.reported, s.accounted);
	scene_close(&s);
}

static void one_thread_alone_is_recorded_if_asked(void **state)
{
	struct stepper_options o = defaults();
	struct scene s;

	(void)state;
	o.threads = STEPPER_THREADS_ONE;
	record(&s, "threads", o, "threads", NULL);
	wait_for(s.pid);
	assert_int_equal(s.reported->n, 2);
	assert_string_equal(s.reported->v[1], "return threads 4");
	scene_close(&s);
}

static void a_hang_ends_the_occurrence_and_says_where_it_stands(void **state)
{
	struct stepper_options o = defaults();
	struct scene s;

	(void)state;
	o.stuck_ns = 1000000000;
	record(&s, "sleep", o, NULL, NULL);
	assert_string_equal(s.over, "done");
	assert_int_equal(s.blocked, 1);
	assert_int_equal(s.blocked_syscall, 34); /* pause */
	assert_int_equal(waitpid(s.pid, NULL, WNOHANG), 0);
	kill(s.pid, SIGKILL);
	wait_for(s.pid);
	scene_close(&s);
}

static void a_fork_is_reported_and_its_child_runs_on(void **state)
{
	struct scene s;

	(void)state;
	record(&s, "fork", defaults(), NULL, NULL);
	assert_int_equal(wait_for(s.pid), W_EXITCODE(7, 0));
	read_account(s.accounted);
	assert_same_lines(s.reported, s.accounted);
	assert_int_equal(s.forks, 1);
	scene_close(&s);
}

static void exec_ends_the_recording(void **state)
{
	struct scene s;

	(void)state;
	record(&s, "exec", defaults(), NULL, NULL);
	assert_string_equal(s.over, "exec");
	assert_int_equal(s.last_range, RANGE_EXECED);
	assert_int_equal(wait_for(s.pid), 0);
	scene_close(&s);
}

static void a_killing_signal_is_the_wait_status(void **state)
{
	struct scene s;

	(void)state;
	record(&s, "killed", defaults(), NULL, NULL);
	assert_string_equal(s.over, "exit");
	assert_int_equal(s.status, SIGKILL);
	wait_for(s.pid);
	scene_close(&s);
}

static void depth_and_events_are_limited(void **state)
{
	struct stepper_options o = defaults();
	struct scene s;

	(void)state;
	o.depth = 2;
	record(&s, "recurse", o, NULL, NULL);
	wait_for(s.pid);
	assert_int_equal(s.reported->n, 4);
	scene_close(&s);
	o = defaults();
	o.events = 5;
	record(&s, "begin", o, NULL, NULL);
	wait_for(s.pid);
	assert_int_equal(s.last_range, RANGE_LIMIT);
	scene_close(&s);
}

/* Calls and returns are the same as by breakpoints. */
static void instructions_are_reported_between_calls(void **state)
{
	struct stepper_options o = defaults();
	struct scene s;

	(void)state;
	o.instructions = true;
	record(&s, "recurse", o, "recurse", NULL);
	wait_for(s.pid);
	read_account(s.accounted);
	assert_same_lines(s.reported, s.accounted);
	assert_true(s.insns > 12 * 5);
	scene_close(&s);
}

static void callbacks_from_libc_are_reported(void **state)
{
	struct scene s;

	(void)state;
	record(&s, "qsort", defaults(), NULL, NULL);
	wait_for(s.pid);
	read_account(s.accounted);
	assert_same_lines(s.reported, s.accounted);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_and_return_is_reported_with_its_values),
		cmocka_unit_test(recursion_nests),
		cmocka_unit_test(only_the_occurrence_asked_for_is_reported),
		cmocka_unit_test(range_ends_where_its_end_is_reached),
		cmocka_unit_test(longjmp_ends_what_it_leaves),
		cmocka_unit_test(signals_are_reported_and_reach_the_program),
		cmocka_unit_test(callbacks_from_libc_are_reported),
		cmocka_unit_test(threads_are_reported_with_who_made_them),
		cmocka_unit_test(one_thread_alone_is_recorded_if_asked),
		cmocka_unit_test(a_hang_ends_the_occurrence_and_says_where_it_stands),
		cmocka_unit_test(a_fork_is_reported_and_its_child_runs_on),
		cmocka_unit_test(exec_ends_the_recording),
		cmocka_unit_test(a_killing_signal_is_the_wait_status),
		cmocka_unit_test(depth_and_events_are_limited),
		cmocka_unit_test(instructions_are_reported_between_calls),
	};

	return cmocka_run_group_tests_name("mover_lldb", tests, build_victim, remove_victim);
}
