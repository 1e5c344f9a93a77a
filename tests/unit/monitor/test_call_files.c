/* Calls that are put into files, and read again: what they are and how they end, also where they do not end in the order of nesting. */
#include "tests/unit/tracelog_fixture.h"

#include "watchctl/monitor/calls/call_files.h"
#include "watchctl/trace/calls/call_merge.h"

#define PID 4242

struct scene {
	struct fixture f;
	struct call_files *files;
	uint64_t now;
};

static void begin(struct scene *s, void *state)
{
	struct tracelog_writer *events;

	*s = (struct scene){ .f = *(struct fixture *)state, .now = 1000 };
	OK(tracelog_writer_open(s->f.log, &events));
	OK(tracelog_writer_close(events));
	OK(call_files_open(s->f.log, PID, &s->files));
}

static void enter(struct scene *s, pid_t tid, uint64_t call, uint8_t flags)
{
	OK(call_files_enter(
		s->files,
		&(struct call_event){
			.tid = tid, .call = call, .function = (uint32_t)call % 100, .flags = flags },
		++s->now));
}

static void leave(struct scene *s, pid_t tid, uint64_t call, enum return_how how)
{
	OK(call_files_end(s->files,
			  &(struct return_event){
				  .tid = tid, .call = call, .function = (uint32_t)call % 100, .how = how },
			  ++s->now));
}

/* All is written: it is read from now on. */
static struct call_merge *read_again(struct scene *s)
{
	struct call_merge *m;

	OK(call_files_close(s->files));
	OK(call_merge_open(s->f.log, &m));
	assert_non_null(m);
	for (uint32_t i = 0; i < 100; i++)
		assert_true(call_merge_tell(
			m, &(struct trace_event){ .type = EVENT_FUNCTION,
						  .function = { .id = i, .return_type = NO_TYPE } }));
	return m;
}

/* NULL: there is none. */
static const struct trace_event *next_event(struct call_merge *m)
{
	const struct trace_event *e;

	OK(call_merge_next(m, UINT64_MAX, &e));
	assert_true(!e || e->type == EVENT_CALL || e->type == EVENT_RETURN);
	return e;
}

/* Entries as +function, with "t" or "s" for flags; ends as -function and how, if not by returning. */
static void assert_read(struct scene *s, const char *want)
{
	struct call_merge *m = read_again(s);
	const struct trace_event *e;
	char got[1024] = "";
	size_t n = 0;

	while ((e = next_event(m)))
		if (e->type == EVENT_CALL)
			n += (size_t)snprintf(got + n, sizeof(got) - n, "+%u%s%s ", e->call.function,
					      e->call.flags & CALL_TAIL ? "t" : "",
					      e->call.flags & CALL_SIGNAL ? "s" : "");
		else if (e->ret.how == RETURN_RETURNED)
			n += (size_t)snprintf(got + n, sizeof(got) - n, "-%u ", e->ret.function);
		else
			n += (size_t)snprintf(got + n, sizeof(got) - n, "-%u:%d ", e->ret.function,
					      e->ret.how);
	call_merge_close(m);
	assert_string_equal(got, want);
}

static void calls_are_what_they_were(void **state)
{
	struct scene s;

	begin(&s, *state);
	enter(&s, 1, 1, 0);
	enter(&s, 1, 2, CALL_TAIL);
	enter(&s, 1, 3, CALL_SIGNAL);
	leave(&s, 1, 3, RETURN_RETURNED);
	leave(&s, 1, 2, RETURN_RETURNED);
	leave(&s, 1, 1, RETURN_RETURNED);
	assert_read(&s, "+1 +2t +3s -3 -2 -1 ");
}

static void how_they_have_ended_is_told(void **state)
{
	struct scene s;

	begin(&s, *state);
	enter(&s, 1, 1, 0);
	enter(&s, 1, 2, 0);
	leave(&s, 1, 2, RETURN_LONGJMP);
	enter(&s, 1, 3, 0);
	leave(&s, 1, 3, RETURN_EXCEPTION);
	enter(&s, 1, 4, 0);
	leave(&s, 1, 4, RETURN_UNKNOWN);
	leave(&s, 1, 1, RETURN_PROCESS_EXIT);
	assert_read(&s, "+1 +2 -2:3 +3 -3:2 +4 -4:9 -1:6 ");
}

/* Two coroutines: each ends while the other is inside of it. */
static void calls_on_another_stack_stay_open(void **state)
{
	struct scene s;

	begin(&s, *state);
	enter(&s, 1, 1, 0);
	enter(&s, 1, 2, 0);
	enter(&s, 1, 3, 0);
	leave(&s, 1, 1, RETURN_RETURNED);
	leave(&s, 1, 2, RETURN_LONGJMP);
	enter(&s, 1, 4, 0);
	leave(&s, 1, 3, RETURN_RETURNED);
	leave(&s, 1, 4, RETURN_RETURNED);
	assert_read(&s, "+1 +2 +3 -1 -2:3 +4 -3 -4 ");
}

static void what_is_open_at_the_end_and_unknown_ends_harm_nothing(void **state)
{
	struct scene s;

	begin(&s, *state);
	enter(&s, 1, 1, 0);
	leave(&s, 1, 77, RETURN_RETURNED);
	leave(&s, 2, 78, RETURN_RETURNED);
	enter(&s, 2, 5, 0);
	OK(call_files_end_thread(s.files, 2));
	OK(call_files_end_thread(s.files, 3));
	OK(call_files_flush(s.files));
	enter(&s, 1, 2, CALL_TAIL);
	assert_read(&s, "+1 +5 -5:8 +2t -2:8 -1:8 ");
}

/* Entries and ends with marks, across many packets. */
static void marks_are_not_parted_from_what_they_are_of(void **state)
{
	const struct trace_event *e;
	struct call_merge *m;
	uint64_t ncalls = 0;
	struct scene s;

	begin(&s, *state);
	for (uint64_t i = 1; i <= 20000; i++) {
		enter(&s, 1, i, i % 3 ? 0 : CALL_TAIL);
		leave(&s, 1, i, i % 2 ? RETURN_RETURNED : RETURN_LONGJMP);
	}
	m = read_again(&s);
	while ((e = next_event(m))) {
		if (e->type == EVENT_CALL) {
			ncalls++;
			assert_int_equal(e->call.flags & CALL_TAIL, ncalls % 3 ? 0 : CALL_TAIL);
		} else {
			assert_int_equal(e->ret.how, ncalls % 2 ? RETURN_RETURNED : RETURN_LONGJMP);
		}
	}
	assert_int_equal(ncalls, 20000);
	call_merge_close(m);
}

#define VALUES_MOST 9000u /* more than half a packet is never asked for */

static uint32_t length_of(uint64_t call)
{
	return call % 100 ? (uint32_t)(call * 7 % 50) : VALUES_MOST;
}

static void assert_values(const uint8_t *values, uint32_t len, uint64_t call)
{
	assert_int_equal(len, length_of(call));
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(values[i], (uint8_t)(call + i));
}

/* Of any length, also none, with and without marks and errors, across many packets. */
static void values_come_back_with_their_call_and_its_end(void **state)
{
	static uint8_t values[VALUES_MOST];
	const struct trace_event *e;
	struct call_merge *m;
	uint64_t ncalls = 0;
	struct scene s;

	begin(&s, *state);
	for (uint64_t i = 1; i <= 5000; i++) {
		for (uint32_t k = 0; k < sizeof(values); k++)
			values[k] = (uint8_t)(i + k);
		OK(call_files_enter(s.files,
				    &(struct call_event){ .tid = 1,
							  .call = i,
							  .function = i % 100,
							  .flags = i % 3 ? 0 : CALL_TAIL,
							  .values = values,
							  .values_len = length_of(i) },
				    ++s.now));
		OK(call_files_end(s.files,
				  &(struct return_event){ .tid = 1,
							  .call = i,
							  .function = i % 100,
							  .how = i % 7 ? RETURN_RETURNED : RETURN_LONGJMP,
							  .values = values,
							  .values_len = length_of(i),
							  .has_error = i % 5 == 0,
							  .error = (int32_t)i },
				  ++s.now));
	}
	m = read_again(&s);
	while ((e = next_event(m))) {
		if (e->type == EVENT_CALL) {
			ncalls++;
			assert_int_equal(e->call.flags & CALL_TAIL, ncalls % 3 ? 0 : CALL_TAIL);
			assert_values(e->call.values, e->call.values_len, ncalls);
			continue;
		}
		assert_values(e->ret.values, e->ret.values_len, ncalls);
		assert_true(e->ret.has_error == (ncalls % 5 == 0));
		assert_true(!e->ret.has_error || e->ret.error == (int32_t)ncalls);
		assert_int_equal(e->ret.how, ncalls % 7 ? RETURN_RETURNED : RETURN_LONGJMP);
	}
	assert_int_equal(ncalls, 5000);
	call_merge_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(calls_are_what_they_were),
		TEST(how_they_have_ended_is_told),
		TEST(calls_on_another_stack_stay_open),
		TEST(what_is_open_at_the_end_and_unknown_ends_harm_nothing),
		TEST(marks_are_not_parted_from_what_they_are_of),
		TEST(values_come_back_with_their_call_and_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
