/* Reports of a process, and of a child that may be another program by now. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/session/process_event.h"

static struct wc_error *check_own(void *ctx, const struct trace_event *e)
{
	++*(unsigned int *)ctx;
	assert_int_equal(e->type, EVENT_PROCESS);
	assert_int_equal(e->process.pid, getpid());
	assert_int_equal(e->process.parent, 0);
	assert_non_null(strstr(e->process.exe, "test_process_event"));
	assert_non_null(strstr(e->process.cmdline, "test_process_event"));
	assert_string_equal(e->process.comm, "test_process_ev");
	assert_true(e->process.realtime_ns > e->time_ns);
	return NULL;
}

static struct wc_error *check_child(void *ctx, const struct trace_event *e)
{
	struct trace_event *ret = ctx;

	assert_string_equal(e->process.comm, "child");
	assert_null(e->process.exe);
	assert_null(e->process.cmdline);
	*ret = *e;
	return NULL;
}

static void test_a_process_is_told_with_its_program(void **state)
{
	unsigned int n = 0;

	(void)state;
	assert_null(process_event_put(getpid(), (struct event_sink){ check_own, &n }));
	assert_int_equal(n, 1);
}

/* Both clocks are of one moment: that of the event. */
static void test_a_child_is_told_as_of_its_time(void **state)
{
	const uint64_t second = 1000000000, now = monotonic_ns();
	struct trace_event young, old;

	(void)state;
	assert_null(process_event_put_child(7, 6, "child", now, (struct event_sink){ check_child, &young }));
	assert_null(process_event_put_child(7, 6, "child", now - 100 * second,
					    (struct event_sink){ check_child, &old }));
	assert_int_equal(old.process.parent, 6);
	assert_int_equal(old.time_ns, now - 100 * second);
	assert_in_range(young.process.realtime_ns - old.process.realtime_ns, 99 * second, 101 * second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_process_is_told_with_its_program),
		cmocka_unit_test(test_a_child_is_told_as_of_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
