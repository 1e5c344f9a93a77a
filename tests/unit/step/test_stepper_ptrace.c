/* The ptrace stepper: calls, returns, occurrences, limits. */
#include <pthread.h>
#include <time.h>

#include "tests/unit/stepper_scene.h"

/* Recursion */

static void every_call_of_a_recursion_is_reported_with_its_values(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(fib), function_at(whole), from_at(whole) };
	struct seen *e;

	(void)state;
	set_up(&s, live_fib);
	o = options(&s);
	o.range = (struct range_options){
		.has_from = true, .from_is_function = true, .occurrence = 1, .count = 1
	};
	plan_registers(&s.plan[0]);
	plan_registers(&s.plan[1]);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(s.reported->count[0], 67); /* 2 * fib(9) - 1 */
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 67);
	assert_int_equal(count_of(&s, STEP_ENTRY, 1), 1);
	assert_int_equal(count_how(&s, RETURN_RETURNED), 68);
	check_pairs(&s);
	e = seen_of(&s, STEP_ENTRY, 0, 0);
	assert_int_equal(e->value, 8);
	assert_int_equal(e->call.parent, seen_of(&s, STEP_ENTRY, 1, 0)->call.call);
	assert_int_equal(seen_of(&s, STEP_RETURN, 1, 0)->value, 21);
	assert_int_equal(seen_of(&s, STEP_RANGE, UINT32_MAX, 0)->what, RANGE_BEGIN);
	assert_int_equal(seen_of(&s, STEP_RANGE, UINT32_MAX, 1)->what, RANGE_RETURNED);
	tear_down(&s);
}

static void calls_below_the_depth_are_not_reported(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(fib), function_at(whole), from_at(whole) };
	size_t i;

	(void)state;
	set_up(&s, live_fib);
	o = from_options(&s);
	o.depth = 3;
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(count_of(&s, STEP_ENTRY, 1), 1);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 3); /* fib(8), fib(7), fib(6) */
	for (i = 0; i < s.n; i++)
		assert_true(s.seen[i].call.depth < 3);
	check_pairs(&s);
	wait_for_life(&s);
	assert_int_equal(s.reported->count[1], 21);
	tear_down(&s);
}

static void an_occurrence_is_cut_short_at_the_limit_of_events(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(fib), function_at(whole), from_at(whole) };

	(void)state;
	set_up(&s, live_fib);
	o = from_options(&s);
	o.events = 10;
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(count_of(&s, STEP_ENTRY, UINT32_MAX), 10);
	assert_int_equal(seen_of(&s, STEP_RANGE, UINT32_MAX, 1)->what, RANGE_LIMIT);
	assert_true(count_how(&s, RETURN_NEVER) > 0);
	check_pairs(&s);
	wait_for_life(&s);
	assert_int_equal(s.reported->count[1], 21);
	tear_down(&s);
}

static void live_fib_often(void)
{
	int i;

	for (i = 0; i < 6; i++)
		whole(i);
}

static void only_the_occurrences_asked_for_are_recorded(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(fib), function_at(whole), from_at(whole) };
	struct stepper_counts c;

	(void)state;
	set_up(&s, live_fib_often);
	o = from_options(&s);
	o.range.occurrence = 3;
	o.range.count = 2;
	plan_registers(&s.plan[1]);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(count_of(&s, STEP_ENTRY, 1), 2);
	assert_int_equal(seen_of(&s, STEP_ENTRY, 1, 0)->value, 2);
	assert_int_equal(seen_of(&s, STEP_ENTRY, 1, 1)->value, 3);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 3 + 5);
	stepper_ptrace.counts(s.m, &c);
	assert_int_equal(c.occurrences, 2);
	assert_int_equal(c.from_seen, 4);
	check_pairs(&s);
	wait_for_life(&s);
	tear_down(&s);
}
/* Tail calls */

VICTIM static int tail_end(int n)
{
	reported->count[0]++;
	__asm__ volatile("" ::: "memory");
	return n + 1;
}

VICTIM __attribute__((optimize("O2"))) static int tail_begin(int n)
{
	reported->count[1]++;
	return tail_end(n * 2);
}

VICTIM static int tail_caller(int n)
{
	int r = tail_begin(n);

	__asm__ volatile("" ::: "memory");
	return r + 1;
}

static void live_tail(void)
{
	tail_caller(3);
}

static void a_tail_call_ends_with_its_caller(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(tail_begin), function_at(tail_end), function_at(tail_caller),
				  from_at(tail_caller) };
	const struct seen *begin, *end;

	(void)state;
	set_up(&s, live_tail);
	o = from_options(&s);
	plan_registers(&s.plan[0]);
	open_stepper(&s, &o, p, 4);
	go(&s);
	pump_to(&s, STEP_DONE);
	begin = seen_of(&s, STEP_ENTRY, 0, 0);
	end = seen_of(&s, STEP_ENTRY, 1, 0);
	assert_non_null(begin);
	assert_non_null(end);
	assert_int_equal(end->call.flags & CALL_TAIL, CALL_TAIL);
	assert_int_equal(end->call.parent, begin->call.call);
	assert_int_equal(seen_of(&s, STEP_RETURN, 0, 0)->value, 7);
	assert_int_equal(count_how(&s, RETURN_RETURNED), 3);
	check_pairs(&s);
	tear_down(&s);
}
/* longjmp */

static jmp_buf landing;

VICTIM static void jumper(int n)
{
	reported->count[0]++;
	if (n > 0)
		jumper(n - 1);
	if (n == 0)
		longjmp(landing, 1);
	__asm__ volatile("" ::: "memory");
}

VICTIM static void lander(void)
{
	if (!_setjmp(landing))
		jumper(3);
	else
		reported->count[1]++;
	__asm__ volatile("" ::: "memory");
}

static void live_jump(void)
{
	lander();
}

static void calls_that_longjmp_left_are_reported_so(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(jumper), function_at(lander), from_at(lander), over_at(longjmp),
				  over_at(_setjmp) };

	(void)state;
	p[3].leaves = TRACK_JUMPS;
	p[4].leaves = TRACK_SETS_JUMP;
	set_up(&s, live_jump);
	o = from_options(&s);
	open_stepper(&s, &o, p, 5);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(s.reported->count[0], 4);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 4);
	assert_int_equal(seen_of(&s, STEP_RETURN, 0, 0)->how, RETURN_LONGJMP);
	assert_int_equal(seen_of(&s, STEP_RETURN, 0, 3)->how, RETURN_LONGJMP);
	assert_int_equal(seen_of(&s, STEP_RETURN, 1, 0)->how, RETURN_RETURNED);
	check_pairs(&s);
	wait_for_life(&s);
	assert_int_equal(s.reported->count[1], 1);
	tear_down(&s);
}
/* Signals */

VICTIM static void handler(int sig)
{
	reported->count[0]++;
	__asm__ volatile("" ::: "memory");
}

VICTIM static void raiser(void)
{
	int i;

	for (i = 0; i < 5; i++)
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
	__asm__ volatile("" ::: "memory");
}

static void live_signals(void)
{
	struct sigaction sa = { .sa_handler = handler };

	sigaction(SIGUSR1, &sa, NULL);
	raiser();
}

static void a_signal_and_its_handler_are_reported(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(raiser), function_at(handler), from_at(raiser) };

	(void)state;
	set_up(&s, live_signals);
	o = from_options(&s);
	plan_registers(&s.plan[1]);
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(s.reported->count[0], 5);
	assert_int_equal(count_of(&s, STEP_SIGNAL, UINT32_MAX), 5);
	assert_int_equal(seen_of(&s, STEP_SIGNAL, UINT32_MAX, 0)->signal, SIGUSR1);
	assert_int_equal(count_of(&s, STEP_ENTRY, 1), 5);
	assert_int_equal(seen_of(&s, STEP_ENTRY, 1, 0)->call.flags & CALL_SIGNAL, CALL_SIGNAL);
	assert_int_equal(seen_of(&s, STEP_ENTRY, 1, 0)->value, SIGUSR1);
	assert_true(seen_of(&s, STEP_ENTRY, 1, 0)->stack_len > 0);
	assert_int_equal(count_how(&s, RETURN_RETURNED), 6);
	check_pairs(&s);
	tear_down(&s);
}

/* Signals by the thousand while steps are on their way: nothing is reported twice, and nothing is lost. */
static void live_storm(void)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };
	timer_t timer;
	struct itimerspec often = { { 0, 1000000 }, { 0, 1000000 } };
	int i;

	sigaction(SIGALRM, &sa, NULL);
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &often, NULL);
	for (i = 0; i < 40; i++)
		whole(8);
	timer_delete(timer);
}

static void a_storm_of_signals_changes_no_count(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(fib), function_at(whole) };
	size_t fibs;

	(void)state;
	set_up(&s, live_storm);
	o = options(&s);
	open_stepper(&s, &o, p, 2);
	go(&s);
	while (!s.reported->done) {
		const struct step_record *r;

		check(stepper_ptrace.next(s.m, 5, &r));
		if (!r)
			continue;
		note(&s, r);
		if (r->kind == STEP_NEED_PLAN)
			check(stepper_ptrace.set_plan(s.m, r->point, &s.plan[r->point]));
	}
	check(stepper_ptrace.stop(s.m));
	pump_to(&s, STEP_DONE);
	fibs = (size_t)s.reported->count[1]; /* the last result, to be sure that it ran to its end */
	assert_int_equal(fibs, 21);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), s.reported->count[2] ? 0 : 40 * 67);
	assert_int_equal(count_of(&s, STEP_ENTRY, 1), 40);
	check_pairs(&s);
	tear_down(&s);
}
/* Standing still */

VICTIM static void sleeper(void)
{
	char c;

	leaf(1);
	while (read(reported->count[5], &c, 1) < 0)
		;
	__asm__ volatile("" ::: "memory");
}

static void live_sleep(void)
{
	int p[2];

	if (pipe(p))
		_exit(1);
	reported->count[5] = p[0];
	reported->count[6] = p[1];
	sleeper();
}

static void a_program_that_hangs_is_reported_where_it_stands_and_goes_on(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(sleeper), from_at(sleeper) };
	char path[64];
	const struct seen *e;
	FILE *f;

	(void)state;
	set_up(&s, live_sleep);
	o = from_options(&s);
	o.stuck_ns = 200000000;
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	assert_int_equal(seen_of(&s, STEP_RANGE, UINT32_MAX, 1)->what, RANGE_STUCK);
	e = seen_of(&s, STEP_BLOCKED, UINT32_MAX, 0);
	assert_non_null(e);
	assert_int_equal(e->syscall, SYS_read);
	assert_true(e->stack_len > 0);
	assert_int_equal(count_how(&s, RETURN_NEVER), 1);
	check_pairs(&s);
	assert_int_equal(s.reported->done, 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", s.pid, s.reported->count[6]);
	f = fopen(path, "w");
	assert_non_null(f);
	fputc('x', f);
	fclose(f);
	wait_for_life(&s);
	tear_down(&s);
}

static void a_recording_that_is_stopped_ends_what_is_open(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(sleeper), from_at(sleeper) };

	(void)state;
	set_up(&s, live_sleep);
	o = from_options(&s);
	open_stepper(&s, &o, p, 3);
	go(&s);
	while (!seen_of(&s, STEP_RETURN, 0, 0))
		pump_to(&s, s.n && s.seen[s.n - 1].kind == STEP_NEED_PLAN ? STEP_ENTRY
			    : seen_of(&s, STEP_ENTRY, 0, 0)		  ? STEP_RETURN
									  : STEP_NEED_PLAN);
	check(stepper_ptrace.stop(s.m));
	pump_to(&s, STEP_DONE);
	assert_int_equal(seen_of(&s, STEP_RANGE, UINT32_MAX, 1)->what, RANGE_STOPPED);
	assert_int_equal(count_how(&s, RETURN_NEVER), 1);
	check_pairs(&s);
	tear_down(&s);
}
/* What is not recorded */

static void calls_from_code_that_is_not_recorded_are_wasted(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { over_at(fib), from_at(whole) };
	struct stepper_code nowhere = { 1, 2 };
	struct stepper_counts c;

	(void)state;
	set_up(&s, live_fib);
	o = from_options(&s);
	check(stepper_ptrace.open(&o, &s.m));
	check(stepper_ptrace.set_code(s.m, &nowhere, 1));
	check(stepper_ptrace.add_points(s.m, p, 2));
	check(stepper_ptrace.start(s.m));
	go(&s);
	pump_to(&s, STEP_DONE);
	stepper_ptrace.counts(s.m, &c);
	assert_int_equal(c.entries, 0);
	assert_int_equal(c.wasted, 67);
	tear_down(&s);
}
/* Calls below the depth */

static jmp_buf deep_jump;

VICTIM static void limit(int n, int jumps)
{
	for (int i = 0; i < n; i++)
		leaf(i);
	if (jumps)
		longjmp(deep_jump, 1);
	__asm__ volatile("" ::: "memory");
}

static void *call_leaves(void *unused)
{
	for (int i = 0; i < 10; i++)
		leaf(i);
	return unused;
}

VICTIM static void limit_threads(int n)
{
	pthread_t other;

	limit(n, 0);
	if (!pthread_create(&other, NULL, call_leaves, NULL))
		pthread_join(other, NULL);
	limit(n, 0);
	__asm__ volatile("" ::: "memory");
}

#define DEEP 1000

VICTIM static void upper(void)
{
	limit(DEEP, 0);
	leaf(1);
	if (!_setjmp(deep_jump))
		limit(DEEP, 1);
	leaf(2);
	limit(DEEP, 0);
	leaf(3);
	reported->count[1] = reported->count[0];
	__asm__ volatile("" ::: "memory");
}

static __attribute__((unused)) void live_deep(void)
{
	upper();
}

static __attribute__((unused)) void live_deep_threads(void)
{
	limit_threads(DEEP);
}

/* Of a program in which leaf() is called three times at depth 1, and 3 * DEEP times below. *@stops: how often it stopped. */
static void record_deep(enum track_leaves other, uint64_t *stops)
{
	struct scene s;
	struct stepper_options o;
	struct stepper_counts counts;
	struct step_point p[] = { function_at(leaf), function_at(limit), function_at(upper), from_at(upper),
				  over_at(longjmp),  over_at(_setjmp),	 over_at(abort) };

	set_up(&s, live_deep);
	p[4].leaves = TRACK_JUMPS;
	p[5].leaves = TRACK_SETS_JUMP;
	p[6].leaves = (uint8_t)other;
	o = from_options(&s);
	o.depth = 2;
	open_stepper(&s, &o, p, 7);
	go(&s);
	pump_to(&s, STEP_DONE);
	wait_for_life(&s);
	assert_int_equal(s.reported->count[1], 3 * DEEP + 3);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 3);
	assert_int_equal(count_of(&s, STEP_ENTRY, 1), 3);
	assert_int_equal(count_of(&s, STEP_ENTRY, 2), 1);
	check_pairs(&s);
	stepper_ptrace.counts(s.m, &counts);
	*stops = counts.stops;
	tear_down(&s);
}

static void a_function_that_is_called_often_below_the_depth_does_not_stop_the_thread(void **state)
{
	uint64_t stops;

	(void)state;
	record_deep(TRACK_NORMAL, &stops);
	assert_true(stops < DEEP);
}

static void where_frames_may_be_unwound_every_call_below_the_depth_is_looked_at(void **state)
{
	uint64_t stops;

	(void)state;
	record_deep(TRACK_CATCHES, &stops);
	assert_true(stops >= 3 * DEEP);
}

static void a_thread_that_is_born_below_the_depth_has_its_calls_reported(void **state)
{
	struct scene s;
	struct stepper_options o;
	struct step_point p[] = { function_at(leaf), function_at(limit_threads), from_at(limit_threads) };

	(void)state;
	set_up(&s, live_deep_threads);
	o = from_options(&s);
	o.depth = 1;
	open_stepper(&s, &o, p, 3);
	go(&s);
	pump_to(&s, STEP_DONE);
	wait_for_life(&s);
	assert_int_equal(s.reported->count[0], 2 * DEEP + 10);
	assert_int_equal(count_of(&s, STEP_ENTRY, 0), 10);
	assert_int_equal(count_of(&s, STEP_ENTRY, 1), 1);
	tear_down(&s);
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_of_a_recursion_is_reported_with_its_values),
		cmocka_unit_test(calls_below_the_depth_are_not_reported),
		cmocka_unit_test(a_function_that_is_called_often_below_the_depth_does_not_stop_the_thread),
		cmocka_unit_test(where_frames_may_be_unwound_every_call_below_the_depth_is_looked_at),
		cmocka_unit_test(a_thread_that_is_born_below_the_depth_has_its_calls_reported),
		cmocka_unit_test(an_occurrence_is_cut_short_at_the_limit_of_events),
		cmocka_unit_test(only_the_occurrences_asked_for_are_recorded),
		cmocka_unit_test(a_tail_call_ends_with_its_caller),
		cmocka_unit_test(calls_that_longjmp_left_are_reported_so),
		cmocka_unit_test(a_signal_and_its_handler_are_reported),
		cmocka_unit_test(a_storm_of_signals_changes_no_count),
		cmocka_unit_test(a_program_that_hangs_is_reported_where_it_stands_and_goes_on),
		cmocka_unit_test(a_recording_that_is_stopped_ends_what_is_open),
		cmocka_unit_test(calls_from_code_that_is_not_recorded_are_wasted),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
