/* Whether anybody wants a result: by what a script says of the code behind each call, and the calls around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/step/model/step_open.h"

/* Return addresses of which the script knows what follows; functions are at 0x1000, 0x2000 ..., of 0x100 bytes. */
#define READS 0x10u
#define LEAVES 0x20u
#define PASSES 0x30u

enum { T_INT, T_VOID, T_DOUBLE };

static unsigned int asked;

static const struct type_event *type(struct planner *p, uint32_t id)
{
	static const struct type_event types[] = { [T_INT] = { .kind = TYPE_SIGNED, .size = 4 },
						   [T_VOID] = { .kind = TYPE_VOID },
						   [T_DOUBLE] = { .kind = TYPE_FLOAT, .size = 8 } };

	(void)p;
	return id <= T_DOUBLE ? &types[id] : NULL;
}

static enum result_use result_use(struct planner *p, uint64_t at, bool vector)
{
	(void)p;
	(void)vector;
	asked++;
	return (at & 0xff) == LEAVES ? RESULT_UNUSED : (at & 0xff) == PASSES ? RESULT_PASSED : RESULT_READ;
}

static const struct planner_ops ops = { .name = "script", .type = type, .result_use = result_use };

#define PLAN(id, fetch, how)                                                           \
	{                                                                              \
		.function = { .size = 0x100, .return_type = (id) },                    \
		.plan = { .leave = { .n = 1, .v = { { .op = (fetch), .len = 8 } } } }, \
		.result = { .state = (how), .count = 1, .to = PLAN_FETCHES },          \
	}

static const struct function_plan returns_int = PLAN(T_INT, FETCH_GPR, VALUE_OK);
static const struct function_plan returns_double = PLAN(T_DOUBLE, FETCH_XMM, VALUE_OK);
static const struct function_plan returns_nothing = PLAN(T_VOID, FETCH_GPR, VALUE_NONE);
static const struct function_plan not_known = PLAN(NO_TYPE, FETCH_GPR, VALUE_NONE);

/* Call 1, of @plan at 0x1000, goes back to @to; it has made call 2, which goes back to @at. */
static bool unused_inside(const struct function_plan *plan, uint64_t to, uint64_t at)
{
	const struct track_call outer = { .call = 1, .return_address = to };
	const struct track_call inner = { .call = 2, .parent = 1, .return_address = at };
	struct step_open o = { .ops = &ops };
	bool ret;

	assert_true(step_open_enter(&o, 7, &outer, plan, 0x1000));
	assert_true(step_open_enter(&o, 7, &inner, &returns_int, 0x2000));
	ret = step_open_is_unused(&o, 7, &inner, &returns_int);
	step_open_deinit(&o);
	return ret;
}

static void the_code_behind_the_call_decides(void **state)
{
	(void)state;
	assert_false(unused_inside(&returns_int, LEAVES, 0x1000 + READS));
	assert_true(unused_inside(&returns_int, READS, 0x1000 + LEAVES));
}

static void what_is_passed_on_is_decided_by_the_call_around(void **state)
{
	(void)state;
	assert_true(unused_inside(&returns_int, LEAVES, 0x1000 + PASSES));
	assert_false(unused_inside(&returns_int, READS, 0x1000 + PASSES));
	assert_true(unused_inside(&returns_nothing, READS, 0x1000 + PASSES));
	assert_true(unused_inside(&returns_double, READS, 0x1000 + PASSES));
	assert_false(unused_inside(&not_known, LEAVES, 0x1000 + PASSES));
}

/* Something between them was not recorded; or what is around the outer one was not. */
static void who_is_not_known_may_read_it(void **state)
{
	(void)state;
	assert_false(unused_inside(&returns_int, LEAVES, 0x5000 + PASSES));
	assert_false(unused_inside(&returns_int, 0x5000 + PASSES, 0x1000 + PASSES));
}

/* Call 2 jumps to the function of call 3, which goes back to where call 2 was made. */
static void a_tail_call_returns_to_the_caller_of_what_jumped(void **state)
{
	const struct track_call calls[] = { { .call = 1, .return_address = 0x9000 + LEAVES },
					    { .call = 2, .parent = 1, .return_address = 0x1000 + PASSES },
					    { .call = 3, .parent = 2, .return_address = 0x1000 + PASSES } };
	struct step_open o = { .ops = &ops };

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		assert_true(step_open_enter(&o, 7, &calls[i], &returns_int, 0x1000 * (i + 1)));
	assert_true(step_open_is_unused(&o, 7, &calls[2], &returns_int));
	step_open_leave(&o, 7, 3);
	assert_true(step_open_is_unused(&o, 7, &calls[1], &returns_int));
	/* Another thread has no such calls. */
	assert_false(step_open_is_unused(&o, 8, &calls[1], &returns_int));
	/* Nor this one any more. */
	step_open_end_thread(&o, 7);
	assert_false(step_open_is_unused(&o, 7, &calls[1], &returns_int));
	step_open_deinit(&o);
}

static void each_place_is_looked_at_once_until_code_changes(void **state)
{
	const struct track_call c = { .call = 1, .return_address = LEAVES };
	struct step_open o = { .ops = &ops };

	(void)state;
	assert_true(step_open_enter(&o, 7, &c, &returns_int, 0x1000));
	asked = 0;
	for (unsigned int i = 0; i < 3; i++)
		assert_true(step_open_is_unused(&o, 7, &c, &returns_int));
	assert_int_equal(asked, 1);
	step_open_forget_code(&o);
	assert_true(step_open_is_unused(&o, 7, &c, &returns_int));
	assert_int_equal(asked, 2);
	step_open_deinit(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_code_behind_the_call_decides),
		cmocka_unit_test(what_is_passed_on_is_decided_by_the_call_around),
		cmocka_unit_test(who_is_not_known_may_read_it),
		cmocka_unit_test(a_tail_call_returns_to_the_caller_of_what_jumped),
		cmocka_unit_test(each_place_is_looked_at_once_until_code_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
