/* A session ends by each limit, and by each source; a made-up source says what it was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/own_clock.h"
#include "watchctl/session/session.h"

#define MS 1000000ull
#define OK(call) assert_null(call)

/* Each pump takes @pump_ms and delivers one event. */
struct made_up {
	uint64_t pump_ms;
	unsigned int ends_at, fails_at; /* the pump; 0: none */
	enum session_end end;
	unsigned int holds;	 /* so many pumps from the first on */
	unsigned int stop_takes; /* pumps after stop() */

	unsigned int pumps, waits, stops;
};

static struct wc_error *pump(void *self, bool may_wait, enum source_state *state, enum session_end *end)
{
	struct made_up *m = self;

	own_clock_stands_ns += m->pump_ms * MS;
	m->waits += may_wait;
	m->pumps++;
	if (m->pumps == m->fails_at)
		return wc_error_new(WC_EFAIL, "made up");
	*state = m->pumps <= m->holds ? SOURCE_HOLDS : SOURCE_GOES_ON;
	if (m->pumps == m->ends_at || (m->stops && !m->stop_takes--)) {
		*state = SOURCE_ENDED;
		*end = m->pumps == m->ends_at ? m->end : SESSION_STOPPED;
	}
	return NULL;
}

static uint64_t count(const void *self)
{
	return ((const struct made_up *)self)->pumps;
}

static struct wc_error *stop(void *self)
{
	((struct made_up *)self)->stops++;
	return NULL;
}

static const struct source_ops plain = { .pump = pump, .count = count };
static const struct source_ops asked = { .pump = pump, .stop = stop };

static struct wc_error *count_ticks(void *ctx)
{
	++*(unsigned int *)ctx;
	return NULL;
}

static enum session_end run_one(const struct source_ops *ops, struct made_up *m,
				const struct session_limits *l)
{
	const struct source s = { ops, m };
	enum session_end end = SESSION_GAVE_UP;

	OK(session_run(&s, 1, l, &end));
	return end;
}

static int setup(void **state)
{
	(void)state;
	own_clock_stop();
	return 0;
}

static void test_count_ends_it(void **state)
{
	const struct session_limits l = { .count = 3 };
	struct made_up m = { .pump_ms = 1 };

	(void)state;
	assert_int_equal(run_one(&plain, &m, &l), SESSION_COUNT);
	assert_int_equal(m.pumps, 3);
}

static void test_time_ends_it(void **state)
{
	const struct session_limits l = { .time_ns = 50 * MS };
	struct made_up m = { .pump_ms = 20 };

	(void)state;
	assert_int_equal(run_one(&plain, &m, &l), SESSION_TIME);
	assert_int_equal(m.pumps, 3);
}

static void test_stopped_before_it_begins_it_pumps_nothing(void **state)
{
	volatile sig_atomic_t flag = 1;
	const struct session_limits l = { .stop = &flag };
	struct made_up m = { .pump_ms = 1 };

	(void)state;
	assert_int_equal(run_one(&plain, &m, &l), SESSION_STOPPED);
	assert_int_equal(m.pumps, 0);
}

static void test_the_end_of_a_source_goes_before_a_limit(void **state)
{
	const struct session_limits l = { .count = 3 };
	struct made_up m = { .pump_ms = 1, .ends_at = 3, .end = SESSION_EXITED };

	(void)state;
	assert_int_equal(run_one(&plain, &m, &l), SESSION_EXITED);
}

static void test_ticks_while_nothing_comes(void **state)
{
	unsigned int ticks = 0;
	const struct session_limits l = {
		.time_ns = 1050 * MS, .tick = count_ticks, .tick_ctx = &ticks, .tick_ns = 100 * MS
	};
	struct made_up m = { .pump_ms = 10 };

	(void)state;
	assert_int_equal(run_one(&plain, &m, &l), SESSION_TIME);
	assert_int_equal(ticks, 10);
}

/* A thread that waits for the next pump waits for no tick; but not for ever. */
static void test_a_held_thread_delays_ticks_for_a_second(void **state)
{
	unsigned int ticks = 0;
	const struct session_limits l = { .time_ns = 1300 * MS, .tick = count_ticks, .tick_ctx = &ticks };
	struct made_up m = { .pump_ms = 100, .holds = 100 };

	(void)state;
	run_one(&plain, &m, &l);
	assert_int_equal(ticks, 1);
	own_clock_stop();
	m = (struct made_up){ .pump_ms = 100, .holds = 5 };
	ticks = 0;
	run_one(&plain, &m, &l);
	assert_int_equal(ticks, 4); /* at 600, 800, 1000, 1200 ms */
}

static void test_what_has_to_be_asked_is_pumped_until_it_has_ended(void **state)
{
	const struct session_limits l = { .time_ns = 50 * MS };
	struct made_up m = { .pump_ms = 10, .stop_takes = 4 };

	(void)state;
	assert_int_equal(run_one(&asked, &m, &l), SESSION_TIME);
	assert_int_equal(m.stops, 1);
	assert_int_equal(m.pumps, 10);
}

static void test_while_it_stops_it_may_give_a_better_reason(void **state)
{
	const struct session_limits l = { .time_ns = 50 * MS };
	struct made_up m = { .pump_ms = 10, .stop_takes = 4, .ends_at = 7, .end = SESSION_STUCK };

	(void)state;
	assert_int_equal(run_one(&asked, &m, &l), SESSION_STUCK);
	assert_int_equal(m.pumps, 7);
}

static void test_when_one_ends_another_goes_on_until_it_has_stopped(void **state)
{
	struct made_up first = { .pump_ms = 1, .ends_at = 2, .end = SESSION_EXITED };
	struct made_up second = { .pump_ms = 1, .stop_takes = 2 };
	const struct source both[] = { { &plain, &first }, { &asked, &second } };
	enum session_end end = SESSION_GAVE_UP;

	(void)state;
	OK(session_run(both, 2, &(struct session_limits){ 0 }, &end));
	assert_int_equal(end, SESSION_EXITED);
	assert_int_equal(first.pumps, 2);
	assert_int_equal(second.stops, 1);
	assert_int_equal(second.pumps, 5);
	assert_int_equal(first.waits, 2);
	assert_int_equal(second.waits, 3); /* since it is alone */
}

static void test_what_may_be_left_is_left_when_another_ends(void **state)
{
	struct made_up first = { .pump_ms = 1 },
		       second = { .pump_ms = 1, .ends_at = 2, .end = SESSION_EXECED };
	const struct source both[] = { { &plain, &first }, { &plain, &second } };
	enum session_end end = SESSION_GAVE_UP;

	(void)state;
	OK(session_run(both, 2, &(struct session_limits){ 0 }, &end));
	assert_int_equal(end, SESSION_EXECED);
	assert_int_equal(first.pumps, 2);
}

static void test_an_error_ends_all_and_stops_the_others(void **state)
{
	struct made_up first = { .pump_ms = 1, .fails_at = 2 }, second = { .pump_ms = 1, .stop_takes = 9 };
	const struct source both[] = { { &plain, &first }, { &asked, &second } };
	enum session_end end = SESSION_GAVE_UP;
	struct wc_error *err;

	(void)state;
	err = session_run(both, 2, &(struct session_limits){ 0 }, &end);
	assert_non_null(err);
	assert_string_equal(err->text, "made up");
	wc_error_free(err);
	assert_int_equal(second.pumps, 2);
	assert_int_equal(second.stops, 1);
	assert_int_equal(end, SESSION_GAVE_UP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_count_ends_it, setup),
		cmocka_unit_test_setup(test_time_ends_it, setup),
		cmocka_unit_test_setup(test_stopped_before_it_begins_it_pumps_nothing, setup),
		cmocka_unit_test_setup(test_the_end_of_a_source_goes_before_a_limit, setup),
		cmocka_unit_test_setup(test_ticks_while_nothing_comes, setup),
		cmocka_unit_test_setup(test_a_held_thread_delays_ticks_for_a_second, setup),
		cmocka_unit_test_setup(test_what_has_to_be_asked_is_pumped_until_it_has_ended, setup),
		cmocka_unit_test_setup(test_while_it_stops_it_may_give_a_better_reason, setup),
		cmocka_unit_test_setup(test_when_one_ends_another_goes_on_until_it_has_stopped, setup),
		cmocka_unit_test_setup(test_what_may_be_left_is_left_when_another_ends, setup),
		cmocka_unit_test_setup(test_an_error_ends_all_and_stops_the_others, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
