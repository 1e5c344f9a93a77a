/* Logs whose calls are in files of their own, compared: which calls, threads and functions are held to each other. */
#include "tests/unit/tracelog_fixture.h"

#include "watchctl/trace/calls/call_writer.h"
#include "watchctl/view/diff/diff.h"

#define PID 100

enum { F_MAIN = 1, F_WORK, F_LEAF, F_OTHER, F_LAST };

static const char *const names[] = { NULL, "main", "work", "leaf", "other" };

/* The file of the runs that begin next. */
static const char *program = "/bin/prog";

struct run {
	struct tracelog_writer *events;
	struct call_writer *calls;
	const char *path;
};

static void write_event(struct run *r, const struct trace_event *e)
{
	struct event_sink sink = tracelog_writer_sink(r->events);

	OK(sink.put(sink.ctx, e));
}

/* @nfunctions: the first so many are recorded, and told. */
static struct run run_begin(const char *path, uint32_t nfunctions)
{
	struct run r = { .path = path };

	OK(tracelog_writer_open(path, &r.events));
	write_event(&r,
		    &(struct trace_event){ .type = EVENT_PROCESS,
					   .process = { .pid = PID, .exe = program, .cmdline = "prog" } });
	for (uint32_t i = F_MAIN; i < F_MAIN + nfunctions; i++)
		write_event(&r, &(struct trace_event){ .type = EVENT_FUNCTION,
						       .function = { .id = i,
								     .name = names[i],
								     .module = program,
								     .address = 0x1000 + i * 16,
								     .file = "prog.c",
								     .line = i,
								     .return_type = NO_TYPE } });
	OK(call_writer_open(path, &r.calls));
	return r;
}

static void lose(struct call_stream *c)
{
	OK(call_stream_flush(c));
	call_stream_lost(c, 1);
}

/* "2(3 4)" is work, which calls leaf and other; "!" loses a call; each entry or exit a ns later. */
static void run_calls(struct run *r, pid_t tid, uint64_t time_ns, const char *script)
{
	uint32_t open[16], nopen = 0, last = 0;
	struct call_stream c;

	OK(call_stream_open(r->calls, PID, tid, &c));
	for (; *script; script++) {
		if (last && *script != '(')
			call_stream_put(&c, CALL_EXIT, time_ns++, last);
		if (*script == '(')
			open[nopen++] = last;
		else if (*script == ')')
			call_stream_put(&c, CALL_EXIT, time_ns++, open[--nopen]);
		else if (*script == '!')
			lose(&c);
		last = *script >= '1' && *script <= '9' ? (uint32_t)(*script - '0') : 0;
		if (last)
			call_stream_put(&c, CALL_ENTRY, time_ns++, last);
	}
	if (last)
		call_stream_put(&c, CALL_EXIT, time_ns++, last);
	OK(call_stream_close(&c));
}

/* The threads are told at the end, in this order. */
static void run_end(struct run *r, const pid_t *tid, size_t n)
{
	for (size_t i = 0; i < n; i++)
		write_event(r,
			    &(struct trace_event){ .type = EVENT_THREAD,
						   .time_ns = 1000,
						   .thread = { .pid = PID, .tid = tid[i], .comm = "prog" } });
	call_writer_close(r->calls);
	OK(tracelog_writer_close(r->events));
}

static void write_one(const char *path, uint32_t nfunctions, const char *script)
{
	struct run r = run_begin(path, nfunctions);

	run_calls(&r, PID, 10, script);
	run_end(&r, &(pid_t){ PID }, 1);
}

static struct diff_result *compare(const struct fixture *f, const struct diff_options *given)
{
	const char *good[] = { f->log };
	struct diff_options o = given ? *given : (struct diff_options){ 0 };
	struct diff_result *r = NULL;

	o.good = good;
	o.ngood = 1;
	o.bad = f->copy;
	OK(diff_run(&o, &r));
	return r;
}

static void check_verdict(const struct fixture *f, enum diff_verdict verdict, const char *doubt)
{
	struct diff_result *r = compare(f, NULL);

	assert_int_equal(diff_verdict(r), verdict);
	assert_int_equal(r->ndoubts != 0, doubt != NULL);
	if (doubt && !strstr(r->doubt[0], doubt))
		fail_msg("\"%s\" does not say \"%s\"", r->doubt[0], doubt);
	diff_result_free(r);
}

static void check_stack(const struct diff_side *s, const struct diff_stack *k, const char *expected)
{
	char text[256] = "";

	assert_int_equal(k->n, 0);
	for (size_t i = 0; i < k->nfunctions; i++) {
		strcat(text, i ? " " : "");
		strcat(text, s->function[k->function[i]].e.name);
	}
	assert_string_equal(text, expected);
}

static void the_first_call_that_differs_has_the_functions_around_it(void **state)
{
	const struct fixture *f = *state;
	struct diff_result *r;

	write_one(f->log, 4, "1(2(3 3) 2(3))");
	write_one(f->copy, 4, "1(2(3 3) 2(3 4))");
	r = compare(f, NULL);
	assert_int_equal(diff_verdict(r), DIFF_DIFFERENT);
	assert_true(r->has_control && !r->has_value && r->control.has_b && !r->control.has_a);
	assert_string_equal(r->control.b.function->e.name, "other");
	assert_int_equal(r->control.b.number, 7);
	assert_int_equal(r->control.b.time_ns, 10 + 10);
	assert_int_equal(r->control.b.how, RETURN_RETURNED);
	check_stack(r->b, &r->control.stack_b, "work main");
	diff_result_free(r);
}

static void what_is_outside_of_the_scope_is_on_the_stack(void **state)
{
	const struct fixture *f = *state;
	struct diff_result *r;

	write_one(f->log, 4, "1(2(3))");
	write_one(f->copy, 4, "1(2(3(4)))");
	r = compare(f, &(struct diff_options){ .from = "leaf" });
	assert_true(r->has_control && r->control.has_b);
	check_stack(r->b, &r->control.stack_b, "leaf work main");
	diff_result_free(r);
}

/* The second thread ends first in one run, and begins later in the other. */
static void threads_are_told_apart_by_what_they_begin_with(void **state)
{
	const struct fixture *f = *state;
	struct diff_result *d;
	struct run r = run_begin(f->log, 4);

	run_calls(&r, PID, 10, "1");
	run_calls(&r, PID + 1, 20, "2(3)");
	run_calls(&r, PID + 2, 21, "3(2)");
	run_end(&r, (pid_t[]){ PID + 2, PID + 1, PID }, 3);
	r = run_begin(f->copy, 4);
	run_calls(&r, PID, 10, "1");
	run_calls(&r, PID + 1, 20, "3(2)");
	run_calls(&r, PID + 2, 21, "2(3 4)");
	run_end(&r, (pid_t[]){ PID + 1, PID + 2, PID }, 3);
	d = compare(f, NULL);
	assert_int_equal(d->ncontrols, 1);
	assert_int_equal(d->control.b.thread->tid, PID + 2);
	assert_string_equal(d->control.b.thread->comm, "prog");
	check_stack(d->b, &d->control.stack_b, "work");
	diff_result_free(d);
}

/* Differences are in the order of time, whichever file they are in. */
static void the_first_difference_is_the_earliest_of_all_threads(void **state)
{
	const struct fixture *f = *state;
	struct diff_result *d;
	struct run r = run_begin(f->log, 4);

	run_calls(&r, PID, 100, "1(2)");
	run_calls(&r, PID + 1, 20, "2(3)");
	run_end(&r, (pid_t[]){ PID, PID + 1 }, 2);
	r = run_begin(f->copy, 4);
	run_calls(&r, PID, 100, "1(2 4)");
	run_calls(&r, PID + 1, 20, "2(3 4)");
	run_end(&r, (pid_t[]){ PID, PID + 1 }, 2);
	d = compare(f, NULL);
	assert_int_equal(d->ncontrols, 2);
	assert_int_equal(d->control.b.thread->tid, PID + 1);
	diff_result_free(d);
}

static void behind_lost_calls_nothing_is_compared(void **state)
{
	const struct fixture *f = *state;

	write_one(f->log, 4, "1(2(3) 2)");
	write_one(f->copy, 4, "1(2(3) ! 4)");
	check_verdict(f, DIFF_CANNOT_TELL, "discarded");
}

static void what_differs_before_calls_were_lost_is_a_difference(void **state)
{
	const struct fixture *f = *state;

	write_one(f->log, 4, "1(2(3) 2)");
	write_one(f->copy, 4, "1(4 2(3) ! 2)");
	check_verdict(f, DIFF_DIFFERENT, "discarded");
}

static void calls_that_began_before_the_recording_are_not_compared(void **state)
{
	const struct fixture *f = *state;
	struct diff_result *r;
	struct call_stream c;
	struct run run;

	write_one(f->log, 4, "1(2)");
	run = run_begin(f->copy, 4);
	OK(call_stream_open(run.calls, PID, PID, &c));
	call_stream_put(&c, CALL_ENTRY, 10, F_LEAF);
	call_stream_put(&c, CALL_EXIT, 11, F_LEAF);
	call_stream_put(&c, CALL_EXIT, 12, F_MAIN);
	OK(call_stream_close(&c));
	run_end(&run, &(pid_t){ PID }, 1);
	check_verdict(f, DIFF_CANNOT_TELL, "begin in the middle");
	r = compare(f, &(struct diff_options){ .anyway = true });
	assert_int_equal(diff_verdict(r), DIFF_DIFFERENT);
	assert_int_equal(r->ndoubts, 1);
	diff_result_free(r);
}

static void calls_of_functions_that_one_log_does_not_record_are_left_out(void **state)
{
	const struct fixture *f = *state;

	write_one(f->log, 4, "1(2(3 4(3)))");
	write_one(f->copy, 3, "1(2(3 3))");
	check_verdict(f, DIFF_CANNOT_TELL, "different functions");
}

static void what_a_function_of_one_log_calls_is_compared(void **state)
{
	const struct fixture *f = *state;

	write_one(f->log, 4, "1(2(3 4(3 2)))");
	write_one(f->copy, 3, "1(2(3 3))");
	check_verdict(f, DIFF_DIFFERENT, "different functions");
}

static void a_call_that_does_not_end_differs_from_one_that_does(void **state)
{
	const struct fixture *f = *state;
	struct diff_result *r;
	struct call_stream c;
	struct run run;

	write_one(f->log, 4, "1(2)");
	run = run_begin(f->copy, 4);
	OK(call_stream_open(run.calls, PID, PID, &c));
	call_stream_put(&c, CALL_ENTRY, 10, F_MAIN);
	call_stream_put(&c, CALL_ENTRY, 11, F_WORK);
	OK(call_stream_close(&c));
	run_end(&run, &(pid_t){ PID }, 1);
	r = compare(f, NULL);
	assert_int_equal(diff_verdict(r), DIFF_DIFFERENT);
	assert_int_equal(r->control.f.kind, FINDING_ENDED);
	assert_string_equal(r->control.b.function->e.name, "work");
	assert_int_equal(r->control.b.how, RETURN_NEVER);
	diff_result_free(r);
}

static void steps_and_calls_in_files_of_their_own_are_not_held_to_each_other(void **state)
{
	const struct fixture *f = *state;
	const char *good[] = { f->log };
	struct diff_result *r;
	struct run run;

	write_one(f->log, 4, "1(2)");
	run = run_begin(f->copy, 4);
	write_event(&run, &(struct trace_event){
				  .type = EVENT_CALL,
				  .call = { .call = 1, .pid = PID, .tid = PID, .function = F_MAIN } });
	call_writer_close(run.calls);
	OK(tracelog_writer_close(run.events));
	FAILS_AS(WC_EFAIL, diff_run(&(struct diff_options){ .good = good, .ngood = 1, .bad = f->copy }, &r),
		 "there is nothing to compare");
}

/* Of functions that one log does not record, too: the module is known to have others. */
static void a_program_is_the_same_whatever_its_file_is_called(void **state)
{
	const struct fixture *f = *state;
	struct diff_result *r;

	program = "/tmp/a/prog-good";
	write_one(f->log, 4, "1(2(3 4) 3)");
	program = "/tmp/b/prog-bad";
	write_one(f->copy, 3, "1(2(3) 3)");
	program = "/bin/prog";
	r = compare(f, &(struct diff_options){ .by_name = true });
	assert_false(r->differs);
	assert_int_equal(r->compare.agreed, 4);
	assert_int_equal(diff_side_alone(r->a), 1);
	assert_non_null(strstr(r->note[0], "/tmp/a/prog-good and /tmp/b/prog-bad"));
	diff_result_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_call_that_differs_has_the_functions_around_it),
		TEST(what_is_outside_of_the_scope_is_on_the_stack),
		TEST(threads_are_told_apart_by_what_they_begin_with),
		TEST(the_first_difference_is_the_earliest_of_all_threads),
		TEST(behind_lost_calls_nothing_is_compared),
		TEST(what_differs_before_calls_were_lost_is_a_difference),
		TEST(calls_that_began_before_the_recording_are_not_compared),
		TEST(calls_of_functions_that_one_log_does_not_record_are_left_out),
		TEST(what_a_function_of_one_log_calls_is_compared),
		TEST(a_call_that_does_not_end_differs_from_one_that_does),
		TEST(a_program_is_the_same_whatever_its_file_is_called),
		TEST(steps_and_calls_in_files_of_their_own_are_not_held_to_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
