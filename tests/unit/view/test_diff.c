#include "tests/unit/step_script.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/view/diff/diff.h"
#include "watchctl/view/diff/diff_words.h"

static char folder[64];

static const char *path_of(const char *name)
{
	static char path[64][96];
	static unsigned int at;

	at = (at + 1) % 64;
	snprintf(path[at], sizeof(path[at]), "%s/%s", folder, name);
	return path[at];
}

static struct run begin_as(const char *name, uint32_t seed, const char *filters, const char *build)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", path_of(name));
	assert_int_equal(system(command), 0);
	return run_begin(path_of(name), seed, filters, build);
}

static struct run begin(const char *name, uint32_t seed)
{
	return begin_as(name, seed, "all", "abcd");
}

/* The logs "good" and "bad" compared; the caller frees. */
static struct diff_result *compare(const struct diff_options *given)
{
	const char *good[] = { path_of("good") };
	struct diff_options o = given ? *given : (struct diff_options){ 0 };
	struct diff_result *r = NULL;
	struct wc_error *err;

	if (!o.good) {
		o.good = good;
		o.ngood = 1;
	}
	o.bad = path_of("bad");
	err = diff_run(&o, &r);
	if (err)
		fail_msg("%s", err->text);
	return r;
}

static void check_refused(const struct diff_options *given, const char *part)
{
	const char *good[] = { path_of("good") };
	struct diff_options o = given ? *given : (struct diff_options){ 0 };
	struct diff_result *r = NULL;
	struct wc_error *err;

	o.good = good;
	o.ngood = 1;
	o.bad = path_of("bad");
	err = diff_run(&o, &r);
	assert_non_null(err);
	assert_non_null(strstr(err->text, part));
	wc_error_free(err);
}

/* It is not compared, and says why. */
static void check_not_told(const char *part)
{
	struct diff_result *r = compare(NULL);

	assert_int_equal(diff_verdict(r), DIFF_CANNOT_TELL);
	assert_true(r->incomparable && r->ndoubts >= 1);
	assert_non_null(strstr(r->doubt[0], part));
	diff_result_free(r);
}

static void check_same(const struct diff_options *o)
{
	struct diff_result *r = compare(o);

	assert_int_equal(r->nvalues + r->ncontrols, 0);
	assert_false(r->differs);
	diff_result_free(r);
}

/* All that the system chooses is another in each run; padding and memory that nobody wrote hold what they
 * may. */
static void runs_of_one_program_are_the_same(void **state)
{
	const char *names[] = { "good", "bad" };
	struct state s = { .a = 7, .b = 9 };
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct run r = begin(names[i], 10 + i);

		enter(&r, FN_MAIN);
		call_work(&r, 1, "text", 2);
		call_malloc(&r, 24, 0x1000 + i * 0x400);
		call_read(&r, 3, 10);
		call_time(&r);
		arg_pointer(&r, r.stack + 0x20ff0 - 8 * i);
		enter(&r, FN_LOCK);
		arg_int(&r, 0);
		leave(&r);
		arg_int(&r, r.pid);
		enter(&r, FN_KILL);
		arg_int(&r, 0);
		leave(&r);
		arg_long(&r, 0x1234567 * (i + 1));
		enter(&r, FN_RAW);
		arg_long(&r, r.time * 7);
		leave(&r);
		s.pad = (int32_t)(77 * i);
		s.p = r.heap + 0x40 * i;
		arg_state(&r, r.stack + 0x20000, &s);
		enter(&r, FN_UPDATE);
		leave(&r);
		arg_int(&r, 0);
		leave(&r);
		run_end(&r);
	}
	check_same(NULL);
}

static void the_failing_malloc_is_the_first_difference(void **state)
{
	const char *names[] = { "good", "bad" };
	struct diff_result *r;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct run run = begin(names[i], 20 + i);

		enter(&run, FN_MAIN);
		call_work(&run, 1, "text", 2);
		call_malloc(&run, 24, 0x1000);
		call_malloc(&run, 24, i ? 0 : 0x1020);
		call_work(&run, i ? -12 : 3, "text", i ? -1 : 0);
		arg_int(&run, (int32_t)i);
		leave(&run);
		run_end(&run);
	}
	r = compare(NULL);
	assert_true(r->has_value && r->differs);
	assert_false(r->has_control);
	assert_int_equal(r->nvalues, 4); /* malloc, work's n, work's and main's results */
	assert_int_equal(r->value.f.kind, FINDING_RESULT);
	assert_string_equal(r->value.b.function->e.name, "malloc");
	assert_int_equal(r->value.b.number, 4);
	assert_int_equal(r->value.b.error, ENOMEM);
	assert_true(r->value.b.result.differs);
	assert_string_equal(r->value.b.result.text, "NULL");
	assert_int_equal(r->value.stack_b.n, 2);
	assert_int_equal(r->value.stack_b.v[0] - r->b->canon.space.v[0].bias, 0x1010 + FN_MALLOC);
	assert_int_equal(r->value.stack_b.v[1] - r->b->canon.space.v[0].bias, 0x1010 + FN_MAIN);
	assert_int_equal(r->value.nbefore, 2);
	assert_string_equal(r->value.before[0].function->e.name, "malloc");
	assert_string_equal(r->value.before[1].function->e.name, "work");
	diff_result_free(r);
}

/* What lies behind a text that its length ends belongs to others. */
static void texts_are_compared_up_to_the_length_that_follows(void **state)
{
	const char *names[] = { "good", "bad" };
	uint32_t i, round;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < 2; i++) {
			struct run run = begin(names[i], 200 + i);

			arg_text(&run, run.heap + 8, i ? "abXX" : "abYY");
			arg_long(&run, round ? 3 : 2);
			enter(&run, FN_MATCH);
			leave(&run);
			run_end(&run);
		}
		if (round) {
			struct diff_result *r = compare(NULL);

			assert_int_equal(r->nvalues, 1);
			diff_result_free(r);
		} else {
			check_same(NULL);
		}
	}
}

static void changed_members_and_texts_are_named(void **state)
{
	const char *names[] = { "good", "bad" };
	struct diff_result *r;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct run run = begin(names[i], 30 + i);
		struct state s = { .a = 7, .b = 9 + (int64_t)i };

		arg_state(&run, run.heap + 0x100, &s);
		enter(&run, FN_UPDATE);
		leave(&run);
		call_work(&run, 5, i ? "other" : "text", 0);
		run_end(&run);
	}
	r = compare(NULL);
	assert_int_equal(r->nvalues, 2);
	assert_string_equal(r->value.b.param[0].member, "b");
	assert_true(r->value.b.param[0].to_differs);
	assert_string_equal(r->group[0].what, "*s");
	assert_string_equal(r->group[1].what, "*text");
	diff_result_free(r);
}

/* update() of a variable in main's frame that lies at @offset of the stack. */
static void update(struct run *run, uint32_t offset, struct state s)
{
	arg_state(run, run->stack + offset, &s);
	enter(run, FN_UPDATE);
	leave(run);
}

/*
 * Runs of main, which has update() called with a variable of its own that holds @before, then @after in the
 * good run ([0]) and the bad one. NULL: one call only.
 */
static void write_updates(const struct state before[2], const struct state after[2])
{
	const char *names[] = { "good", "bad" };
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct run run = begin(names[i], 300 + i);

		enter(&run, FN_MAIN);
		update(&run, 0x1ff00, before[i]);
		if (after)
			update(&run, 0x1ff00, after[i]);
		arg_int(&run, 0);
		leave(&run);
		run_end(&run);
	}
}

static void what_a_callee_is_to_write_is_no_difference(void **state)
{
	const struct state before[] = { { .a = 7, .b = 9 }, { .a = 52, .b = 3 } },
			   half[] = { { .a = 1, .b = 9 }, { .a = 1, .b = 3 } };

	write_updates(before, NULL);
	check_same(NULL);
	/* It has set one member. The other one is as it was, in both runs. */
	write_updates(before, half);
	check_same(NULL);
}

static void what_a_callee_has_written_is_compared(void **state)
{
	const struct state before[] = { { .a = 7, .b = 9 }, { .a = 52, .b = 3 } },
			   after[] = { { .a = 1, .b = 4 }, { .a = 1, .b = 5 } },
			   forgotten[] = { { .a = 1, .b = 4 }, { .a = 1, .b = 3 } },
			   by_chance[] = { { .a = 7, .b = 0 }, { .a = 7, .b = 0 } };
	const struct diff_options weak = { .weak = true };
	struct diff_result *r;

	write_updates(before, after);
	r = compare(NULL);
	assert_int_equal(r->nvalues, 1);
	assert_int_equal(r->value.b.number, 3);
	assert_string_equal(r->value.b.param[0].member, "b");
	diff_result_free(r);
	/* The bad run has left it out: only the good one has written. */
	write_updates(before, forgotten);
	r = compare(NULL);
	assert_int_equal(r->nvalues, 1);
	assert_int_equal(r->value.b.number, 3);
	assert_string_equal(r->value.b.param[0].member, "b");
	diff_result_free(r);
	/* In the good run what was written was there before. */
	write_updates(before, by_chance);
	check_same(NULL);
	/* Who wants all is reported all. */
	r = compare(&weak);
	assert_int_equal(r->value.b.number, 2);
	diff_result_free(r);
}

/* The frame of the first step() is gone when the second one's is where it was. */
static void another_frame_at_the_same_place_is_unset_again(void **state)
{
	const char *names[] = { "good", "bad" };
	uint32_t i, round;

	for (i = 0; i < 2; i++) {
		struct run run = begin(names[i], 310 + i);

		enter(&run, FN_MAIN);
		for (round = 0; round < 2; round++) {
			arg_double(&run, 1);
			enter(&run, FN_STEP);
			update(&run, 0x1fe80, (struct state){ .a = (int32_t)(5 + i * (round + 1)) });
			update(&run, 0x1fe80, (struct state){ .a = 3 });
			leave(&run);
		}
		arg_int(&run, 0);
		leave(&run);
		run_end(&run);
	}
	check_same(NULL);
}

/* A text is compared as far as it has been written. */
static void the_rest_of_an_unfinished_text_is_no_difference(void **state)
{
	static const char *const text[2][2][2] = { { { "leftover", "abcdover" }, { "rest", "abcd" } },
						   { { "leftover", "abcdover" }, { "rest", "abXd" } } };
	const char *names[] = { "good", "bad" };
	struct diff_result *r;
	uint32_t i, k, round;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < 2; i++) {
			struct run run = begin(names[i], 320 + i);

			enter(&run, FN_MAIN);
			for (k = 0; k < 2; k++) {
				arg_text(&run, run.stack + 0x1ff00, text[round][i][k]);
				enter(&run, FN_FILL);
				leave(&run);
			}
			arg_int(&run, 0);
			leave(&run);
			run_end(&run);
		}
		if (!round) {
			check_same(NULL);
			continue;
		}
		r = compare(NULL);
		assert_int_equal(r->nvalues, 1);
		assert_int_equal(r->value.b.number, 3);
		assert_true(r->value.b.param[0].to_differs);
		diff_result_free(r);
	}
}

static void the_nearest_input_that_differed_is_found(void **state)
{
	const char *names[] = { "good", "bad" };
	struct diff_result *r;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct run run = begin(names[i], 40 + i);

		call_read(&run, 3, i ? 12 : 10);
		call_time(&run);
		call_read(&run, 4, 10);
		call_work(&run, i ? 12 : 10, "text", 0);
		run_end(&run);
	}
	r = compare(&(struct diff_options){ .ignore = (const char *const[]){ "read:return" }, .nignore = 1 });
	assert_string_equal(r->value.b.function->e.name, "work");
	assert_true(r->value.has_input);
	/* Time is an input as well, and nearer. */
	assert_string_equal(r->value.input_b.function->e.name, "time");
	diff_result_free(r);
	r = compare(NULL);
	assert_true(r->value.is_input);
	assert_string_equal(r->value.b.function->e.name, "read");
	diff_result_free(r);
}

static void calls_of_one_run_only_are_a_difference_of_control(void **state)
{
	struct run good = begin("good", 50), bad = begin("bad", 51);
	struct diff_result *r;
	int i;

	for (i = 0; i < 100; i++) {
		call_work(&good, i % 3, "text", 0);
		call_work(&bad, i % 3, "text", 0);
		if (i == 40)
			call_time(&bad);
	}
	run_end(&good);
	run_end(&bad);
	r = compare(NULL);
	assert_int_equal(r->ncontrols, 1);
	assert_int_equal(r->nvalues, 0);
	assert_int_equal(r->control.f.kind, FINDING_CALLS);
	assert_int_equal(r->control.f.nb, 1);
	assert_int_equal(r->control.f.na, 0);
	assert_int_equal(r->control.b.number, 42);
	assert_int_equal(r->compare.agreed, 100);
	diff_result_free(r);
}

static void check_none_before(const struct diff_options *o, const char *expected)
{
	struct diff_result *r = compare(o);
	char text[200];

	assert_true(r->has_control);
	diff_no_before_text(r, &r->control, text, sizeof(text));
	assert_string_equal(text, expected);
	diff_result_free(r);
}

/* @before: how many calls had ended, of which the values differ. */
static void write_extra(int before)
{
	for (int i = 0; i < 2; i++) {
		struct run run = begin(i ? "bad" : "good", 54 + (uint32_t)i);

		enter(&run, FN_MAIN);
		for (int k = 0; k < before; k++)
			call_work(&run, 10 * i + k, "text", i);
		if (i)
			call_malloc(&run, 24, 0x1000);
		leave(&run);
		run_end(&run);
	}
}

static void it_is_said_why_no_call_agreed_before(void **state)
{
	const char *mask = "work";

	write_extra(0);
	check_none_before(NULL, "no call of this thread had ended before");
	write_extra(1);
	check_none_before(NULL,
			  "1 call of this thread had ended before, but it does not agree with a call of the "
			  "good run");
	check_none_before(&(struct diff_options){ .ignore = &mask, .nignore = 1 },
			  "no call of this thread, of those that are compared, had ended before");
	write_extra(3);
	check_none_before(
		NULL, "3 calls of this thread had ended before, but none of them agrees with a call of the "
		      "good run");
}

/* Another place of the same function is another call. */
static void a_call_from_another_place_is_reported(void **state)
{
	struct run good = begin("good", 52), bad = begin("bad", 53);
	struct diff_result *r;
	char text[200];

	enter_at(&good, FN_HANDLER, 0x2000, 0);
	leave(&good);
	enter_at(&bad, FN_HANDLER, 0x2020, 0);
	leave(&bad);
	run_end(&good);
	run_end(&bad);
	r = compare(NULL);
	assert_int_equal(r->ncontrols, 1);
	diff_headline(r, &r->control, text, sizeof(text));
	assert_string_equal(text, "handler is called from another place");
	diff_result_free(r);
	check_same(&(struct diff_options){ .by_name = true });
}

/* One thread waits for ever; the calls around it are not the answer, nor is what another thread does later.
 */
static void a_thread_that_hangs_is_the_first_difference(void **state)
{
	const char *names[] = { "good", "bad" };
	struct diff_result *r;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct run run = begin(names[i], 60 + i);
		uint64_t stack[2] = { run.base + 0x5000, run.base + 0x1010 };

		enter(&run, FN_MAIN);
		arg_pointer(&run, run.base + 0x9000);
		enter(&run, FN_LOCK);
		if (!i) {
			arg_int(&run, 0);
			leave(&run);
			call_work(&run, 1, "text", 0);
			arg_int(&run, 0);
			leave(&run);
			put(&run, (struct trace_event){ .type = EVENT_RANGE,
							.range = { 1, RANGE_RETURNED, run.pid, run.tid } });
		} else {
			put(&run, (struct trace_event){ .type = EVENT_RANGE,
							.range = { 1, RANGE_STUCK, run.pid, run.tid } });
			put(&run, (struct trace_event){ .type = EVENT_BLOCKED,
							.blocked = { .pid = run.pid,
								     .tid = run.tid,
								     .call = 2,
								     .syscall = 202,
								     .nframes = 2,
								     .frame = stack } });
			leave_how(&run, RETURN_NEVER, 0);
			leave_how(&run, RETURN_NEVER, 0);
		}
		run_end(&run);
	}
	r = compare(NULL);
	assert_true(r->has_control);
	assert_int_equal(r->control.f.kind, FINDING_ENDED);
	assert_string_equal(r->control.b.function->e.name, "pthread_mutex_lock");
	assert_int_equal(r->control.b.how, RETURN_NEVER);
	assert_int_equal(r->nstand, 1);
	assert_int_equal(r->stand[0].syscall, 202);
	assert_int_equal(r->stand[0].stack.n, 2);
	diff_result_free(r);
}

/* The recorder of the bad run was killed: what it could not write is no difference. */
static void the_missing_rest_of_a_cut_log_is_no_difference(void **state)
{
	struct run good = begin("good", 70), bad = begin("bad", 71);
	struct diff_result *r;
	struct stat st;
	int i;

	enter(&good, FN_MAIN);
	enter(&bad, FN_MAIN);
	for (i = 0; i < 2000; i++) {
		call_work(&good, i, "text", 0);
		call_work(&bad, i, "text", 0);
	}
	arg_int(&good, 0);
	leave(&good);
	run_end(&good);
	run_end(&bad);
	assert_int_equal(stat(path_of("bad/events"), &st), 0);
	assert_true(st.st_size > (128 << 10)); /* several packets, of which the last one is cut */
	assert_int_equal(truncate(path_of("bad/events"), st.st_size - 700), 0);
	r = compare(NULL);
	assert_false(r->differs);
	assert_int_equal(r->nnotes, 2); /* the other: no inputs */
	assert_non_null(strstr(r->note[0], "is not whole"));
	diff_result_free(r);
}

/* Two workers made at one place change their order, and their numbers. */
static void threads_are_paired_by_how_they_were_made(void **state)
{
	const char *names[] = { "good", "bad" };
	struct diff_result *r;
	uint32_t i, k;

	for (i = 0; i < 2; i++) {
		struct run run = begin(names[i], 80 + i);
		uint64_t creating = enter(&run, FN_MAIN);

		run_thread(&run, run.pid + 1 + (int32_t)i, "worker", run.pid, creating);
		run_thread(&run, run.pid + 2 - (int32_t)i, "worker", run.pid, creating);
		leave(&run);
		for (k = 0; k < 2; k++) {
			/* The one that is first here is second there, and does other work. */
			run.tid = run.pid + 1 + (int32_t)k;
			call_work(&run, k == i ? 100 : 200, "text", 0);
		}
		run_end(&run);
	}
	r = compare(NULL);
	assert_false(r->differs);
	assert_int_equal(r->compare.npairs, 6); /* three threads, and the signals of each */
	diff_result_free(r);
}

/* The kernel reports about them when it likes: later than the next one, and after the call has ended. */
static void threads_that_are_seen_late_are_paired_by_the_calls_that_made_them(void **state)
{
	const char *names[] = { "good", "bad" };
	struct diff_result *r;
	uint64_t creating[2];
	uint32_t i, k;

	for (i = 0; i < 2; i++) {
		struct run run = begin(names[i], 180 + i);

		enter(&run, FN_MAIN);
		for (k = 0; k < 2; k++) {
			creating[k] = enter(&run, FN_CREATE);
			if (!i)
				run_thread(&run, run.pid + 1 + (int32_t)k, "worker", run.pid, creating[k]);
			leave(&run);
		}
		for (k = 2; i && k-- > 0;)
			run_thread(&run, run.pid + 1 + (int32_t)k, "worker", run.pid, creating[k]);
		leave(&run);
		for (k = 0; k < 2; k++) {
			run.tid = run.pid + 1 + (int32_t)k;
			call_work(&run, 100 * (int32_t)k, "text", (int32_t)i);
		}
		run_end(&run);
	}
	r = compare(NULL);
	assert_int_equal(r->nvalues, 2); /* work's results, not its parameters */
	assert_int_equal(r->ncontrols, 0);
	assert_int_equal(r->value.f.kind, FINDING_RESULT);
	diff_result_free(r);
}

/* Nobody knows how calls would have ended that were open when the user stopped the recording. */
static void what_was_open_in_a_stopped_recording_is_no_difference(void **state)
{
	struct run good = begin("good", 190), bad = begin("bad", 191);
	struct diff_result *r;

	enter(&good, FN_MAIN);
	call_work(&good, 1, "text", 0);
	call_work(&good, 2, "text", 0);
	leave(&good);
	run_end(&good);
	enter(&bad, FN_MAIN);
	call_work(&bad, 1, "text", 0);
	put(&bad,
	    (struct trace_event){ .type = EVENT_RANGE, .range = { 1, RANGE_STOPPED, bad.pid, bad.tid } });
	leave_how(&bad, RETURN_NEVER, 0);
	run_end(&bad);
	r = compare(NULL);
	assert_false(r->differs);
	assert_int_equal(r->nnotes, 2);
	assert_non_null(strstr(r->note[0], "was stopped, while inside of main"));
	diff_result_free(r);
}

static void a_thread_of_one_run_only_is_reported(void **state)
{
	struct run good = begin("good", 90), bad = begin("bad", 91);
	struct diff_result *r;
	uint64_t creating;

	enter(&good, FN_MAIN);
	creating = enter(&bad, FN_MAIN);
	run_thread(&bad, bad.pid + 1, "extra", bad.pid, creating);
	leave(&good);
	leave(&bad);
	bad.tid++;
	call_work(&bad, 1, "text", 0);
	run_end(&good);
	run_end(&bad);
	r = compare(NULL);
	assert_int_equal(r->ncontrols, 1);
	assert_int_equal(r->control.f.kind, FINDING_THREAD);
	assert_int_equal(r->control.f.nb, 1);
	diff_result_free(r);
	check_same(&(struct diff_options){ .thread = "prog" });
	check_refused(&(struct diff_options){ .thread = "nobody" }, "neither log has a thread");
}

static void put_signal(struct run *r, int number)
{
	put(r,
	    (struct trace_event){
		    .type = EVENT_SIGNAL,
		    .signal = { .pid = r->pid, .tid = r->tid, .signal = number, .ip = r->base + 0x4000 } });
}

/* A timer fires where it likes; its handler calls something each time. */
static void handlers_of_timers_may_come_at_any_time(void **state)
{
	const char *names[] = { "good", "bad" };
	uint32_t i, k;

	for (i = 0; i < 2; i++) {
		struct run run = begin(names[i], 100 + i);

		enter(&run, FN_MAIN);
		for (k = 0; k < 10; k++) {
			call_work(&run, (int32_t)k, "text", 0);
			if (k % (2 + i) == 0) {
				put_signal(&run, SIGALRM);
				enter_at(&run, FN_HANDLER, 0x7777, CALL_SIGNAL);
				call_time(&run);
				leave(&run);
			}
		}
		leave(&run);
		run_end(&run);
	}
	check_same(NULL);
}

static void a_signal_that_kills_is_reported_with_its_stack(void **state)
{
	struct run good = begin("good", 110), bad = begin("bad", 111);
	struct diff_result *r;
	char text[200];

	enter(&good, FN_MAIN);
	enter(&bad, FN_MAIN);
	call_work(&good, 1, "text", 2);
	call_work(&bad, 1, "text", 2);
	call_read(&good, 3, 10);
	call_read(&bad, 3, 9);
	arg_int(&good, 5);
	arg_text(&good, good.heap, "text");
	enter(&good, FN_WORK);
	arg_int(&bad, 5);
	arg_text(&bad, bad.heap, "text");
	enter(&bad, FN_WORK);
	leave(&good);
	leave(&good);
	put_signal(&bad, SIGSEGV);
	leave_how(&bad, RETURN_PROCESS_EXIT, 0);
	leave_how(&bad, RETURN_PROCESS_EXIT, 0);
	run_end(&good);
	run_end(&bad);
	r = compare(NULL);
	assert_true(r->has_control);
	assert_int_equal(r->control.f.kind, FINDING_CALLS);
	assert_true(r->control.b.is_signal);
	assert_string_equal(r->control.b.function->e.name, "signal SIGSEGV");
	assert_int_equal(r->control.b.ip, bad.base + 0x4000);
	assert_int_equal(r->control.stack_b.n, 3);
	assert_int_equal(r->control.stack_b.v[0], r->control.b.ip);
	/* Before it comes what the thread did that it came to. */
	assert_int_equal(r->control.nbefore, 1);
	assert_string_equal(r->control.before[0].function->e.name, "work");
	assert_int_equal(r->control.before[0].number, 2);
	assert_true(r->control.has_input);
	assert_string_equal(r->control.input_b.function->e.name, "read");
	diff_group_text(&r->group[1], text, sizeof(text));
	assert_string_equal(text, "arrives only in the bad run");
	diff_place_text(r, &r->control, text, sizeof(text));
	assert_int_equal(strncmp(text, "in thread 1 (prog) of the bad run", 33), 0);
	diff_result_free(r);
}

static void noisy_run(const char *name, uint32_t seed, int32_t noise, bool fails)
{
	struct run run = begin(name, seed);
	int32_t i;

	call_work(&run, 1, "start", noise);
	for (i = 0; i < noise % 4; i++) {
		enter(&run, FN_HANDLER);
		leave(&run);
	}
	call_malloc(&run, 24, fails ? 0 : 0x1000);
	run_end(&run);
}

/* Results of work, and how often handler is called, are other ones in each run. */
static void what_good_runs_do_differently_is_learned(void **state)
{
	const char *good[] = { path_of("good"), path_of("good2") };
	const char *file = path_of("masks");
	struct diff_options o = { .good = good, .ngood = 2, .save_masks = file };
	struct diff_result *r;

	noisy_run("good", 120, 5, false);
	noisy_run("good2", 121, 7, false);
	noisy_run("bad", 122, 6, true);
	r = compare(&o);
	assert_int_equal(r->learned, 2);
	assert_true(diff_masks_has(&r->masks, "work:return"));
	assert_true(diff_masks_has(&r->masks, "handler:calls"));
	assert_int_equal(r->nvalues, 1);
	assert_int_equal(r->ncontrols, 0);
	assert_string_equal(r->value.b.function->e.name, "malloc");
	diff_result_free(r);
	/* The file says the same without the second run. */
	r = compare(&(struct diff_options){ .masks = file });
	assert_int_equal(r->nvalues + r->ncontrols, 1);
	diff_result_free(r);
}

static void what_is_ignored_is_not_compared(void **state)
{
	struct run good = begin("good", 130), bad = begin("bad", 131);

	call_work(&good, 1, "text", 0);
	call_work(&bad, 2, "text", 0);
	arg_double(&good, 1.0);
	enter(&good, FN_STEP);
	leave(&good);
	arg_double(&bad, 1.0 + 1e-9);
	enter(&bad, FN_STEP);
	leave(&bad);
	run_end(&good);
	run_end(&bad);
	check_same(
		&(struct diff_options){ .ignore = (const char *const[]){ "work:n", "step" }, .nignore = 2 });
	check_same(&(struct diff_options){
		.ignore = (const char *const[]){ "wor*:#1" }, .nignore = 1, .tolerance = 1e-6 });
	check_same(&(struct diff_options){ .from = "step", .tolerance = 1e-6 });
	check_same(&(struct diff_options){ .from = "handler" } /* never entered */);
	check_refused(&(struct diff_options){ .from = "nothing" }, "neither log has a function of that name");
	check_refused(&(struct diff_options){ .ignore = (const char *const[]){ "work:" }, .nignore = 1 },
		      "is not a mask");
}

static void recordings_that_do_not_fit_are_not_compared_unless_asked_for(void **state)
{
	struct run good = begin("good", 140), bad;

	call_work(&good, 1, "text", 0);
	run_end(&good);
	bad = begin_as("bad", 142, "only net_*", "abcd");
	call_work(&bad, 1, "text", 0);
	run_end(&bad);
	check_not_told("different filters");
	check_same(&(struct diff_options){ .anyway = true });
	bad = begin_as("bad", 143, "all", "wxyz");
	call_work(&bad, 1, "text", 0);
	run_end(&bad);
	check_refused(NULL, "the build ids of these differ: prog");
	check_same(&(struct diff_options){ .by_name = true });
}

/* Named and unnamed functions, static data and places of calls are those of the program, whatever it is called. */
static void write_two_names(const char *other_build)
{
	struct state s = { .a = 7 };

	for (uint32_t i = 0; i < 2; i++) {
		struct run r;

		step_script_program = i ? "/tmp/b/prog-bad" : "/tmp/a/prog-good";
		r = begin_as(i ? "bad" : "good", 160 + i, "all", i ? other_build : "abcd");
		enter(&r, FN_MAIN);
		call_work(&r, 1, "text", 2);
		arg_long(&r, 1);
		enter(&r, FN_RAW);
		leave(&r);
		s.p = r.base + 0x2000;
		arg_state(&r, r.base + 0x3000, &s);
		enter(&r, FN_UPDATE);
		leave(&r);
		arg_int(&r, 0);
		leave(&r);
		run_end(&r);
	}
	step_script_program = "/bin/prog";
}

static void check_one_program(bool by_name, const char *note)
{
	struct diff_result *r = compare(&(struct diff_options){ .by_name = by_name });

	assert_false(r->differs);
	assert_int_equal(r->compare.agreed, 4);
	assert_true(r->nnotes >= 1);
	if (!strstr(r->note[0], "/tmp/a/prog-good and /tmp/b/prog-bad") || !strstr(r->note[0], note))
		fail_msg("\"%s\" does not say \"%s\"", r->note[0], note);
	diff_result_free(r);
}

static void a_program_is_the_same_whatever_its_file_is_called(void **state)
{
	write_two_names("abcd");
	check_one_program(false, "their build ids are the same");
	check_one_program(true, "their build ids are the same");
	write_two_names("wxyz");
	check_refused(NULL, "the logs are of two programs");
	check_one_program(true, "by the names of their functions");
}

static void weak_values_count_when_asked_for(void **state)
{
	struct run good = begin("good", 150), bad = begin("bad", 151);
	struct diff_result *r;

	arg_long(&good, 5);
	enter(&good, FN_RAW);
	leave(&good);
	arg_long(&bad, 6);
	enter(&bad, FN_RAW);
	leave(&bad);
	run_end(&good);
	run_end(&bad);
	r = compare(NULL);
	assert_false(r->differs);
	assert_int_equal(r->compare.weak, 1);
	diff_result_free(r);
	r = compare(&(struct diff_options){ .weak = true });
	assert_int_equal(r->nvalues, 1);
	assert_true(r->value.b.param[0].differs);
	diff_result_free(r);
}

static int make_folder(void **state)
{
	strcpy(folder, "/tmp/test_diff.XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

/* A function that returns nothing, and changes a member, the first of which is an address of the run's heap. */
static void run_changing(const char *name, uint32_t seed, int32_t count)
{
	struct run r = begin(name, seed);
	const uint64_t head = r.heap + 0x40;

	enter(&r, FN_MAIN);
	arg_text(&r, r.heap, "x");
	enter(&r, FN_FILL);
	change(&r, RETURN_MEMBER, T_POINTER, "table[2].head", &head, sizeof(head));
	change(&r, RETURN_MEMBER, T_INT, "table[2].count", &count, sizeof(count));
	leave(&r);
	leave(&r);
	run_end(&r);
}

static bool notes_words(const struct diff_result *r)
{
	for (size_t i = 0; i < r->nnotes; i++)
		if (strstr(r->note[i], "by words"))
			return true;
	return false;
}

#define BY_WORDS (RECORDING_CHANGED_POINTEES | RECORDING_CHANGED_DATA)

static void members_that_calls_change_are_compared_by_their_paths(void **state)
{
	struct diff_result *r;

	(void)state;
	step_script_changes = BY_WORDS | RECORDING_CHANGED_MEMBERS;
	run_changing("good", 1, 6);
	run_changing("bad", 2, 6);
	check_same(NULL);
	run_changing("bad", 2, 7);
	r = compare(NULL);
	assert_true(r->differs);
	assert_false(notes_words(r));
	diff_result_free(r);
	step_script_changes = 0;
}

/* Words of the same variable, in a log of an older version, are no other changes: they are not compared. */
static void words_are_not_compared_with_members(void **state)
{
	const int32_t words[2] = { 6, 0 };
	struct diff_result *result;
	struct run r;

	(void)state;
	step_script_changes = BY_WORDS;
	r = begin("good", 1);
	enter(&r, FN_MAIN);
	arg_text(&r, r.heap, "x");
	enter(&r, FN_FILL);
	change(&r, RETURN_DATA, NO_TYPE, "table", words, sizeof(words));
	leave(&r);
	leave(&r);
	run_end(&r);
	step_script_changes |= RECORDING_CHANGED_MEMBERS;
	run_changing("bad", 2, 6);
	step_script_changes = 0;
	check_same(NULL);
	result = compare(NULL);
	assert_true(notes_words(result));
	diff_result_free(result);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_of_one_program_are_the_same),
		cmocka_unit_test(members_that_calls_change_are_compared_by_their_paths),
		cmocka_unit_test(words_are_not_compared_with_members),
		cmocka_unit_test(the_failing_malloc_is_the_first_difference),
		cmocka_unit_test(texts_are_compared_up_to_the_length_that_follows),
		cmocka_unit_test(changed_members_and_texts_are_named),
		cmocka_unit_test(what_a_callee_is_to_write_is_no_difference),
		cmocka_unit_test(what_a_callee_has_written_is_compared),
		cmocka_unit_test(another_frame_at_the_same_place_is_unset_again),
		cmocka_unit_test(the_rest_of_an_unfinished_text_is_no_difference),
		cmocka_unit_test(the_nearest_input_that_differed_is_found),
		cmocka_unit_test(calls_of_one_run_only_are_a_difference_of_control),
		cmocka_unit_test(it_is_said_why_no_call_agreed_before),
		cmocka_unit_test(a_call_from_another_place_is_reported),
		cmocka_unit_test(a_thread_that_hangs_is_the_first_difference),
		cmocka_unit_test(the_missing_rest_of_a_cut_log_is_no_difference),
		cmocka_unit_test(threads_are_paired_by_how_they_were_made),
		cmocka_unit_test(threads_that_are_seen_late_are_paired_by_the_calls_that_made_them),
		cmocka_unit_test(what_was_open_in_a_stopped_recording_is_no_difference),
		cmocka_unit_test(a_thread_of_one_run_only_is_reported),
		cmocka_unit_test(handlers_of_timers_may_come_at_any_time),
		cmocka_unit_test(a_signal_that_kills_is_reported_with_its_stack),
		cmocka_unit_test(what_good_runs_do_differently_is_learned),
		cmocka_unit_test(what_is_ignored_is_not_compared),
		cmocka_unit_test(recordings_that_do_not_fit_are_not_compared_unless_asked_for),
		cmocka_unit_test(a_program_is_the_same_whatever_its_file_is_called),
		cmocka_unit_test(weak_values_count_when_asked_for),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
