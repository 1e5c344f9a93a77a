/* What is withheld of a log in which calls are missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/trace/call_values.h"
#include "watchctl/trace/redact.h"

#define CALLS 16u

struct scene {
	struct redact *redact;
	bool shown[CALLS]; /* by call: its value has come through */
};

static struct wc_error *take(void *ctx, const struct trace_event *e)
{
	struct scene *s = ctx;

	if (e->type == EVENT_CALL)
		s->shown[e->call.call] = e->call.values_len && e->call.values[0] == VALUE_OK;
	return NULL;
}

static void put(struct scene *s, const struct trace_event *e)
{
	struct event_sink sink = redact_sink(s->redact);

	assert_null(sink.put(sink.ctx, e));
}

static void put_function(struct scene *s, uint32_t id, const char *name)
{
	static const struct function_param param = { "n", 0 };

	put(s,
	    &(struct trace_event){ .type = EVENT_FUNCTION,
				   .function = { .id = id, .name = name, .nparams = 1, .param = &param } });
}

static void put_call(struct scene *s, uint64_t call, uint64_t parent, uint16_t depth, uint32_t function)
{
	static const uint8_t value[] = { VALUE_OK, 1, 2, 3, 4 };

	put(s, &(struct trace_event){ .type = EVENT_CALL,
				      .call = { .call = call,
						.parent = parent,
						.pid = 1,
						.tid = 1,
						.depth = depth,
						.function = function,
						.values = value,
						.values_len = sizeof(value) } });
}

static void begin(struct scene *s)
{
	static const char *const secret[] = { "secret" };
	const struct redact_rules rules = { .name = secret, .n = 1 };

	*s = (struct scene){ 0 };
	assert_null(redact_new(&rules, (struct event_sink){ take, s }, &s->redact));
	put_function(s, 0, "main");
	put_function(s, 1, "secret");
	put_function(s, 2, "helper");
}

static void of_a_whole_log_only_what_was_asked_for_is_withheld(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	put_call(&s, 1, 0, 0, 0);
	put_call(&s, 2, 1, 1, 2);
	put_call(&s, 3, 1, 1, 1);
	put_call(&s, 4, 3, 2, 2);
	put_call(&s, 5, 1, 1, 2);
	assert_true(s.shown[1] && s.shown[2] && s.shown[5]);
	assert_false(s.shown[3] || s.shown[4]);
	redact_free(s.redact);
}

/* Call 3, whose event is lost, may have been the secret one's. */
static void what_a_lost_call_contained_is_withheld(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	put_call(&s, 1, 0, 0, 0);
	put_call(&s, 2, 1, 1, 2);
	put_call(&s, 4, 3, 2, 2);
	put_call(&s, 5, 4, 3, 2);
	put_call(&s, 6, 1, 1, 2);
	put_call(&s, 7, 6, 2, 2);
	put_call(&s, 8, 0, 0, 2);
	assert_true(s.shown[1] && s.shown[2] && s.shown[6] && s.shown[7] && s.shown[8]);
	assert_false(s.shown[4] || s.shown[5]);
	redact_free(s.redact);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_whole_log_only_what_was_asked_for_is_withheld),
		cmocka_unit_test(what_a_lost_call_contained_is_withheld),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
