/* Sums of the records of `watchctl trace`: calls of functions that were switched off. */
#include "watchctl/monitor/calls/call_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ENTRY, END, OTHER_ENTRY, OTHER_END, SITES };
enum { LOOPS, OTHER, FUNCTIONS };

struct scene {
	struct probe_counter counter[SITES];
	struct call_functions functions;
	struct call_records records;
	uint64_t stack[64];	  /* of the thread that is traced: it must be in one of the process's */
	enum call_off off[SITES]; /* as they were switched */
	uint64_t now;
};

static struct wc_error *take_event(void *ctx, const struct trace_event *e)
{
	(void)ctx;
	(void)e;
	return NULL;
}

/* Two functions; the first goes back to its first instruction by a jump of its own. */
static void begin(struct scene *s)
{
	static const enum call_place place[SITES] = { CALL_ENTRY, CALL_RETURN, CALL_ENTRY, CALL_RETURN };

	*s = (struct scene){ 0 };
	s->functions.file = calloc(1, sizeof(*s->functions.file));
	s->functions.function = calloc(FUNCTIONS, sizeof(*s->functions.function));
	s->functions.site = calloc(SITES, sizeof(*s->functions.site));
	assert_true(s->functions.file && s->functions.function && s->functions.site);
	s->functions.nfiles = 1;
	s->functions.n = FUNCTIONS;
	s->functions.nsites = SITES;
	s->functions.file->m.path = strdup("/program");
	for (uint32_t i = 0; i < SITES; i++)
		s->functions.site[i] =
			(struct call_site){ .function = i / 2, .place = place[i], .counter = &s->counter[i] };
	s->functions.function[LOOPS] = (struct call_function){
		.addr = 0x1000, .size = 64, .loops_to_start = true, .at = &s->counter[ENTRY]
	};
	s->functions.function[OTHER] = (struct call_function){
		.addr = 0x2000, .size = 64, .at = &s->counter[OTHER_ENTRY], .entry = OTHER_ENTRY
	};
	assert_null(call_records_init(&s->records, &s->functions, (struct event_sink){ .put = take_event }));
	s->records.pid = getpid();
}

static void end(struct scene *s)
{
	call_records_deinit(&s->records);
	call_functions_deinit(&s->functions);
}

static void switch_site(void *ctx, uint32_t site, enum call_off to)
{
	((struct scene *)ctx)->off[site] = to;
}

static void begin_limited(struct scene *s, uint64_t max_rate)
{
	begin(s);
	s->records.max_rate = max_rate;
	s->records.switch_site = switch_site;
	s->records.switch_ctx = s;
}

/* A site is passed with the stack at @sp words into a frame of ours. */
static void pass(struct scene *s, uint32_t site, uint32_t sp)
{
	const struct call_passed c = { .sp = (uint64_t)&s->stack[sp],
				       .return_address = 0x1111 + site / 2,
				       .site = site };

	s->counter[site].count += s->off[site] == CALL_COUNTED;
	s->now += 10;
	if (s->off[site] == CALL_ON)
		assert_null(call_records_take(&s->records, &c, s->now, getpid()));
}

/* A whole call of the other function, from where the first one was called. */
static void call_other(struct scene *s)
{
	pass(s, OTHER_ENTRY, 17);
	pass(s, OTHER_END, 17);
}

static void what_is_called_too_often_is_switched_off_and_counted(void **state)
{
	struct scene s;

	(void)state;
	begin_limited(&s, 3);
	for (int i = 0; i < 10; i++)
		call_other(&s);
	assert_int_equal(s.off[OTHER_ENTRY], CALL_COUNTED);
	assert_int_equal(s.off[OTHER_END], CALL_IGNORED);
	assert_null(call_records_end(&s.records));
	assert_int_equal(s.records.calls, 3);
	assert_int_equal(s.records.returns, 3);
	assert_int_equal(s.records.called, 10);
	assert_int_equal(s.records.switched_off, 7);
	assert_int_equal(s.records.lost, 0);
	end(&s);
}

static void a_rate_is_that_of_the_time_when_it_was_called(void **state)
{
	struct scene s;

	(void)state;
	begin_limited(&s, 3);
	for (int i = 0; i < 10; i++) {
		call_other(&s);
		s.now += 400000000;
	}
	assert_int_equal(s.off[OTHER_ENTRY], CALL_ON);
	assert_int_equal(s.records.calls, 10);
	end(&s);
}

/* The call that is open when its function is switched off ends as it does. */
static void ends_are_read_while_calls_that_were_recorded_are_open(void **state)
{
	struct scene s;

	(void)state;
	begin_limited(&s, 3);
	pass(&s, OTHER_ENTRY, 20);
	for (int i = 0; i < 5; i++)
		call_other(&s);
	assert_int_equal(s.off[OTHER_ENTRY], CALL_COUNTED);
	assert_int_equal(s.off[OTHER_END], CALL_ON);
	pass(&s, OTHER_END, 20);
	assert_int_equal(s.off[OTHER_END], CALL_IGNORED);
	assert_null(call_records_end(&s.records));
	assert_int_equal(s.records.returns, 3);
	assert_int_equal(s.records.called, 6);
	assert_int_equal(s.functions.function[OTHER].without_end, 0);
	end(&s);
}

/* Passes of its entry are of its own loop, too. */
static void calls_of_a_function_that_loops_to_its_start_are_known_by_their_ends(void **state)
{
	struct scene s;

	(void)state;
	begin_limited(&s, 2);
	for (int i = 0; i < 8; i++) {
		for (int k = 0; k < 4; k++)
			pass(&s, ENTRY, 16);
		pass(&s, END, 16);
	}
	assert_int_equal(s.off[END], CALL_COUNTED);
	assert_null(call_records_end(&s.records));
	assert_int_equal(s.records.calls, 2);
	assert_int_equal(s.records.called, 8);
	assert_int_equal(s.records.switched_off, 6);
	end(&s);
}

static void a_call_that_was_left_by_longjmp_is_counted_besides_the_ends(void **state)
{
	struct scene s;

	(void)state;
	begin_limited(&s, 2);
	pass(&s, ENTRY, 16);
	call_other(&s);
	for (int i = 0; i < 5; i++) {
		pass(&s, ENTRY, 16);
		pass(&s, END, 16);
	}
	assert_int_equal(s.off[END], CALL_COUNTED);
	assert_null(call_records_end(&s.records));
	assert_int_equal(s.records.called, 1 + 5 + 1);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_that_was_left_by_longjmp_is_counted_besides_the_ends),
		cmocka_unit_test(what_is_called_too_often_is_switched_off_and_counted),
		cmocka_unit_test(a_rate_is_that_of_the_time_when_it_was_called),
		cmocka_unit_test(ends_are_read_while_calls_that_were_recorded_are_open),
		cmocka_unit_test(calls_of_a_function_that_loops_to_its_start_are_known_by_their_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
