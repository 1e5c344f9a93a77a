/* One order of time out of two streams; and what must not be overtaken is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "watchctl/monitor/timeline.h"
#include "watchctl/monitor/reported_modules.h"

#define OK(call) assert_null(call)
#define SEEN 4096

struct scene {
	struct timeline *t;
	struct event_sink in;
	struct {
		enum event_type type;
		uint64_t time_ns, frame;
	} seen[SEEN];
	size_t n;
};

static struct wc_error *put(void *ctx, const struct trace_event *e)
{
	struct scene *s = ctx;

	assert_true(s->n < SEEN);
	s->seen[s->n].type = e->type;
	s->seen[s->n].time_ns = e->time_ns;
	if (e->type == EVENT_ACCESS)
		s->seen[s->n].frame = e->access.frame[e->access.nframes - 1];
	if (e->type == EVENT_CAPTURE)
		s->seen[s->n].frame = e->capture.frame[e->capture.nframes - 1];
	s->n++;
	return NULL;
}

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));

	s->t = timeline_new((struct event_sink){ put, s });
	s->in = timeline_sink(s->t);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;

	timeline_free(s->t);
	free(s);
	return 0;
}

static void report(struct scene *s, enum event_type type, uint64_t time_ns)
{
	struct trace_event e = { .type = type, .time_ns = time_ns };
	uint64_t frames[STACK_MAX];
	uint32_t n = 1 + time_ns % STACK_MAX;

	memset(frames, 0, sizeof(frames));
	frames[n - 1] = 0x1000 + time_ns; /* gone when the call returns */
	if (type == EVENT_ACCESS) {
		e.access.nframes = n;
		e.access.frame = frames;
	} else if (type == EVENT_CAPTURE) {
		e.capture.nframes = n;
		e.capture.frame = frames;
	} else if (type == EVENT_NOTE) {
		e.note.text = "";
	}
	OK(s->in.put(s->in.ctx, &e));
	memset(frames, 0xff, sizeof(frames));
}

static void two_streams_become_one_in_order_of_time(void **state)
{
	struct scene *s = *state;
	uint64_t i;

	for (i = 0; i < 100; i++)
		report(s, EVENT_ACCESS, 10 * i);
	for (i = 0; i < 200; i++)
		report(s, EVENT_CAPTURE, 5 * i + 3);
	assert_int_equal(s->n, 0);
	OK(timeline_release(s->t, 499));
	assert_int_equal(s->n, 150);
	OK(timeline_release(s->t, UINT64_MAX));
	assert_int_equal(s->n, 300);
	for (i = 1; i < s->n; i++) {
		assert_true(s->seen[i - 1].time_ns < s->seen[i].time_ns);
		assert_int_equal(s->seen[i].frame, 0x1000 + s->seen[i].time_ns);
	}
}

static void what_reports_of_something_goes_ahead_and_what_ends_something_waits(void **state)
{
	struct scene *s = *state;

	report(s, EVENT_CAPTURE, 10);
	report(s, EVENT_NOTE, 20);
	assert_int_equal(s->n, 1);
	report(s, EVENT_MODULE_GONE, 30);
	assert_int_equal(s->n, 3);
	assert_int_equal(s->seen[0].type, EVENT_NOTE);
	assert_int_equal(s->seen[1].type, EVENT_CAPTURE);
	assert_int_equal(s->seen[2].type, EVENT_MODULE_GONE);
}

/* A capture from before must not be named by what took a library's place. */
static void a_module_in_the_place_of_another_waits(void **state)
{
	struct scene *s = *state;
	struct event_sink sink = s->in;
	struct trace_event e = { .type = EVENT_MODULE_GONE,
				 .time_ns = 5,
				 .module = { .start = 0x4000, .end = 0x6000, .path = (char *)"/lib/a.so" } };

	assert_null(sink.put(sink.ctx, &e));
	report(s, EVENT_CAPTURE, 10);
	e.type = EVENT_MODULE;
	e.module.start = 0x6000;
	e.module.end = 0x8000;
	assert_null(sink.put(sink.ctx, &e));
	assert_int_equal(s->n, 2);
	e.module.start = 0x5000;
	assert_null(sink.put(sink.ctx, &e));
	assert_int_equal(s->n, 4);
	assert_int_equal(s->seen[1].type, EVENT_MODULE);
	assert_int_equal(s->seen[2].type, EVENT_CAPTURE);
	assert_int_equal(s->seen[3].type, EVENT_MODULE);
}

static void it_does_not_hold_more_than_it_may(void **state)
{
	struct scene *s = *state;
	uint64_t i;

	for (i = 0; !s->n && i < 200000; i++)
		report(s, EVENT_CAPTURE, STACK_MAX * (i + 1) - 1); /* the longest stacks */
	assert_in_range(i, 5000, 20000);
	assert_int_equal(s->seen[0].time_ns, STACK_MAX - 1);
}

static void each_module_is_reported_once_by_whoever_sees_it_first(void **state)
{
	struct trace_event libc = {
		.type = EVENT_MODULE,
		.module = { .start = 0x1000, .end = 0x2000, .bias = 0x1000, .path = (char *)"/lib/libc.so.6" }
	};
	struct trace_event other = libc, gone = libc;
	struct reported_modules t = { 0 };
	bool ok;

	other.module.build_id_len = 4; /* replaced on disk, loaded again */
	gone.type = EVENT_MODULE_GONE;
	assert_false(reported_modules_is_news(&t, &gone, &ok));
	assert_true(reported_modules_is_news(&t, &libc, &ok) && ok);
	assert_false(reported_modules_is_news(&t, &libc, &ok));
	assert_true(reported_modules_is_news(&t, &other, &ok));
	assert_true(reported_modules_is_news(&t, &gone, &ok));
	assert_false(reported_modules_is_news(&t, &gone, &ok));
	assert_true(reported_modules_is_news(&t, &libc, &ok));
	reported_modules_deinit(&t);
	assert_true(reported_modules_is_news(&t, &libc, &ok));
	reported_modules_deinit(&t);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(two_streams_become_one_in_order_of_time),
		TEST(what_reports_of_something_goes_ahead_and_what_ends_something_waits),
		TEST(a_module_in_the_place_of_another_waits),
		TEST(it_does_not_hold_more_than_it_may),
		cmocka_unit_test(each_module_is_reported_once_by_whoever_sees_it_first),
	};

	return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
