/* Fetched bytes become values, and functions and types are reported before their first call, once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/step/model/step_recorder.h"
#include "watchctl/step/model/step_values.h"
#include "watchctl/trace/call_values.h"

#define OK(call) assert_null(call)
#define SEEN 64

enum { T_INT, T_CHAR, T_STRING, T_PAIR, T_PAIR_POINTER, T_COUNT };

static const struct type_member pair_members[] = { { .name = "n", .type = T_INT },
						   { .name = "next", .type = T_PAIR_POINTER, .offset = 8 } };

static const struct type_event types[T_COUNT] = {
	[T_INT] = { .kind = TYPE_SIGNED, .size = 4, .name = "int" },
	[T_CHAR] = { .kind = TYPE_CHAR, .size = 1, .name = "char" },
	[T_STRING] = { .kind = TYPE_STRING, .size = 8, .name = "char *", .target = T_CHAR },
	[T_PAIR] = { .kind = TYPE_STRUCT,
		     .size = 16,
		     .name = "struct pair",
		     .nmembers = 2,
		     .member = pair_members },
	[T_PAIR_POINTER] = { .kind = TYPE_POINTER, .size = 8, .name = "struct pair *", .target = T_PAIR },
};

static const struct type_event *type(struct planner *p, uint32_t id)
{
	return id < T_COUNT ? &types[id] : NULL;
}

static enum result_use result_use(struct planner *p, uint64_t return_address, bool vector)
{
	return RESULT_READ;
}

static const struct planner_ops ops = { .name = "script", .type = type, .result_use = result_use };

struct seen {
	enum event_type type;
	uint32_t id;
	uint8_t values[256];
	uint32_t values_len;
	bool has_error;
	int32_t error;
	uint64_t frame[8];
	uint32_t nframes;
};

struct scene {
	struct seen v[SEEN];
	size_t n;
	struct step_recorder *r;
};

static void keep_values(struct seen *s, const uint8_t *values, uint32_t len)
{
	assert_true(len <= sizeof(s->values));
	memcpy(s->values, values, len);
	s->values_len = len;
}

static struct wc_error *put(void *ctx, const struct trace_event *e)
{
	struct scene *c = ctx;
	struct seen *s = &c->v[c->n++];

	assert_true(c->n < SEEN);
	*s = (struct seen){ .type = e->type };
	if (e->type == EVENT_TYPE)
		s->id = e->type_info.id;
	if (e->type == EVENT_FUNCTION)
		s->id = e->function.id;
	if (e->type == EVENT_CALL) {
		keep_values(s, e->call.values, e->call.values_len);
		s->id = e->call.function;
		s->nframes = e->call.nframes;
		memcpy(s->frame, e->call.frame, e->call.nframes * sizeof(s->frame[0]));
	}
	if (e->type == EVENT_RETURN) {
		keep_values(s, e->ret.values, e->ret.values_len);
		s->has_error = e->ret.has_error;
		s->error = e->ret.error;
	}
	return NULL;
}

static const struct step_globals no_globals;

static struct scene *scene(void)
{
	struct scene *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->r = step_recorder_new(&ops, NULL, &no_globals, (struct event_sink){ put, c });
	assert_non_null(c->r);
	return c;
}

static void scene_free(struct scene *c)
{
	step_recorder_free(c->r);
	free(c);
}

/* int open(char *path, struct pair *p) */
static const struct function_param open_params[] = { { "path", T_STRING }, { "p", T_PAIR_POINTER } };

static const struct function_plan open_plan = {
	.function = { .name = "open", .return_type = T_INT, .nparams = 2, .param = open_params },
	.plan = { .entry = { .n = 4,
			     .v = { { .op = FETCH_GPR, .reg = WREG_RDI, .len = 8 },
				    { .op = FETCH_STRING, .base = 0, .len = 32 },
				    { .op = FETCH_GPR, .reg = WREG_RSI, .len = 8 },
				    { .op = FETCH_MEMORY, .base = 2, .len = 16 } } },
		  .leave = { .n = 2,
			     .v = { { .op = FETCH_GPR, .reg = WREG_RAX, .len = 4 },
				    { .op = FETCH_ERRNO } } } },
	.recipe = { { .state = VALUE_OK, .first = 0, .count = 1, .to = 1 },
		    { .state = VALUE_OK, .first = 2, .count = 1, .to = 3 } },
	.result = { .state = VALUE_OK, .first = 0, .count = 1, .to = PLAN_FETCHES },
	.fails = FAILS_MINUS_ONE,
};

static void give(struct fetched *f, enum value_state state, const void *bytes, uint32_t len)
{
	uint32_t i = f->n++;

	f->state[i] = (uint8_t)state;
	f->at[i] = (uint16_t)f->nbytes;
	f->len[i] = (uint16_t)len;
	memcpy(f->bytes + f->nbytes, bytes, len);
	f->nbytes += len;
}

static void enter(struct scene *c, struct track_call *call, const char *path, enum value_state to)
{
	static struct fetched f;
	uint64_t p = 0x1000, null = 0;
	struct step_record rec = { .kind = STEP_ENTRY, .pid = 7, .tid = 7, .call = call, .fetched = &f };

	f.n = f.nbytes = 0;
	give(&f, VALUE_OK, &p, 8);
	give(&f, to, path, to == VALUE_OK ? (uint32_t)strlen(path) : 0);
	give(&f, VALUE_OK, &null, 8);
	give(&f, VALUE_NULL, "", 0);
	OK(step_recorder_put(c->r, &rec));
}

static void leave(struct scene *c, struct track_call *call, enum return_how how, int32_t result,
		  int32_t error)
{
	static struct fetched f;
	struct step_record rec = {
		.kind = STEP_RETURN, .pid = 7, .tid = 7, .call = call, .fetched = &f, .how = how
	};

	f.n = f.nbytes = 0;
	give(&f, VALUE_OK, &result, 4);
	give(&f, VALUE_OK, &error, 4);
	OK(step_recorder_put(c->r, &rec));
}

static size_t position(const struct scene *c, enum event_type type_wanted, uint32_t id)
{
	size_t i, found = SEEN;

	for (i = 0; i < c->n; i++) {
		if (c->v[i].type != type_wanted || c->v[i].id != id)
			continue;
		assert_int_equal(found, SEEN); /* told once */
		found = i;
	}
	return found;
}

static void test_types_and_functions_are_reported_once_and_before_they_are_used(void **state)
{
	struct track_call first = { .call = 1, .return_address = 0x500 },
			  second = { .call = 2, .return_address = 0x600 };
	struct scene *c = scene();
	size_t pair, pointer, function;

	OK(step_recorder_plan(c->r, 0, &open_plan));
	enter(c, &first, "/etc/passwd", VALUE_OK);
	enter(c, &second, "/", VALUE_OK);
	pair = position(c, EVENT_TYPE, T_PAIR);
	pointer = position(c, EVENT_TYPE, T_PAIR_POINTER);
	function = position(c, EVENT_FUNCTION, 0);
	assert_true(position(c, EVENT_TYPE, T_INT) < pair);
	assert_true(pair < function && pointer < function && position(c, EVENT_TYPE, T_CHAR) < function);
	assert_int_equal(c->v[function + 1].type, EVENT_CALL);
	assert_int_equal(c->n, function + 3);
	assert_int_equal(c->v[function + 1].nframes, 1);
	assert_int_equal(c->v[function + 1].frame[0], 0x500);
	scene_free(c);
}

static void test_two_points_of_one_plan_are_one_function(void **state)
{
	struct track_call a = { .call = 1, .point = 0 }, b = { .call = 2, .point = 1 };
	struct scene *c = scene();

	OK(step_recorder_plan(c->r, 0, &open_plan));
	OK(step_recorder_plan(c->r, 1, &open_plan));
	enter(c, &a, "x", VALUE_OK);
	enter(c, &b, "x", VALUE_OK);
	assert_int_not_equal(position(c, EVENT_FUNCTION, 0), SEEN);
	assert_int_equal(c->v[c->n - 1].id, 0);
	scene_free(c);
}

static void test_values_are_what_was_fetched(void **state)
{
	struct track_call call = { .call = 1 };
	struct scene *c = scene();
	struct call_values_reader r;
	struct call_value v;
	const struct seen *s;
	uint64_t p;

	OK(step_recorder_plan(c->r, 0, &open_plan));
	enter(c, &call, "/etc/hosts", VALUE_OK);
	s = &c->v[c->n - 1];
	r = (struct call_values_reader){ s->values, s->values + s->values_len };
	assert_true(call_values_next(&r, &types[T_STRING], &v));
	assert_int_equal(v.state, VALUE_OK);
	memcpy(&p, v.bytes, 8);
	assert_int_equal(p, 0x1000);
	assert_int_equal(v.to_state, VALUE_OK);
	assert_int_equal(v.to_len, 10);
	assert_memory_equal(v.to, "/etc/hosts", 10);
	assert_true(call_values_next(&r, &types[T_PAIR_POINTER], &v));
	assert_int_equal(v.to_state, VALUE_NULL);
	assert_false(call_values_next(&r, &types[T_INT], &v));
	scene_free(c);
}

static void test_an_unreadable_string_is_said_to_be_unreadable(void **state)
{
	struct track_call call = { .call = 1 };
	struct scene *c = scene();
	struct call_values_reader r;
	struct call_value v;
	const struct seen *s;

	OK(step_recorder_plan(c->r, 0, &open_plan));
	enter(c, &call, "", VALUE_UNREADABLE);
	s = &c->v[c->n - 1];
	r = (struct call_values_reader){ s->values, s->values + s->values_len };
	assert_true(call_values_next(&r, &types[T_STRING], &v));
	assert_int_equal(v.state, VALUE_OK);
	assert_int_equal(v.to_state, VALUE_UNREADABLE);
	scene_free(c);
}

static void test_errno_belongs_to_failures_only(void **state)
{
	struct track_call call = { .call = 1 };
	struct scene *c = scene();

	OK(step_recorder_plan(c->r, 0, &open_plan));
	enter(c, &call, "/", VALUE_OK);
	leave(c, &call, RETURN_RETURNED, 3, 2);
	assert_false(c->v[c->n - 1].has_error);
	leave(c, &call, RETURN_RETURNED, -1, 2);
	assert_true(c->v[c->n - 1].has_error);
	assert_int_equal(c->v[c->n - 1].error, 2);
	leave(c, &call, RETURN_LONGJMP, -1, 2);
	assert_false(c->v[c->n - 1].has_error);
	assert_int_equal(c->v[c->n - 1].values_len, 0);
	scene_free(c);
}

static void test_a_constant_parameter_needs_no_fetch(void **state)
{
	const struct param_recipe constant = {
		.state = VALUE_OK, .is_constant = true, .constant = 42, .to = PLAN_FETCHES
	};
	struct call_values_reader r;
	struct call_value v;
	uint8_t buf[64];
	size_t len = 0;
	int32_t n;

	step_value_put(&constant, NULL, &types[T_INT], buf, sizeof(buf), &len);
	r = (struct call_values_reader){ buf, buf + len };
	assert_true(call_values_next(&r, &types[T_INT], &v));
	memcpy(&n, v.bytes, 4);
	assert_int_equal(n, 42);
}

static void test_a_struct_in_two_registers_is_put_together(void **state)
{
	const struct param_recipe both = { .state = VALUE_OK, .first = 0, .count = 2, .to = PLAN_FETCHES };
	static struct fetched f;
	struct call_values_reader r;
	struct call_value v;
	uint64_t words[2] = { 0x1111, 0x2222 };
	uint8_t buf[64];
	size_t len = 0;

	f.n = f.nbytes = 0;
	give(&f, VALUE_OK, &words[0], 8);
	give(&f, VALUE_OK, &words[1], 8);
	step_value_put(&both, &f, &types[T_PAIR], buf, sizeof(buf), &len);
	r = (struct call_values_reader){ buf, buf + len };
	assert_true(call_values_next(&r, &types[T_PAIR], &v));
	assert_int_equal(v.size, 16);
	assert_memory_equal(v.bytes, words, 16);
}

static void test_a_call_without_a_plan_is_refused(void **state)
{
	struct track_call call = { .call = 1 };
	struct step_record rec = { .kind = STEP_ENTRY, .call = &call, .point = 9 };
	struct scene *c = scene();
	struct wc_error *err = step_recorder_put(c->r, &rec);

	assert_non_null(err);
	wc_error_free(err);
	scene_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types_and_functions_are_reported_once_and_before_they_are_used),
		cmocka_unit_test(test_two_points_of_one_plan_are_one_function),
		cmocka_unit_test(test_values_are_what_was_fetched),
		cmocka_unit_test(test_an_unreadable_string_is_said_to_be_unreadable),
		cmocka_unit_test(test_errno_belongs_to_failures_only),
		cmocka_unit_test(test_a_constant_parameter_needs_no_fetch),
		cmocka_unit_test(test_a_struct_in_two_registers_is_put_together),
		cmocka_unit_test(test_a_call_without_a_plan_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
