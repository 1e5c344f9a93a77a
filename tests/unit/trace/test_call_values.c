/* All that a return event says behind, or without, the result: written, read again, cut, and of no known type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "watchctl/trace/call_values.h"

static const struct type_event int_type = { .kind = TYPE_SIGNED, .size = 4 };
static const struct type_event string_type = { .kind = TYPE_STRING, .size = 8 };

static const uint8_t bytes[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

static const uint8_t changed[RETURN_CHANGED_BYTES(8)] = { 0x81, 1 };

/* One of each kind, and RETURN_POINTEE in each state. */
static const struct return_extra extras[] = {
	{ .kind = RETURN_UNUSED },
	{ .kind = RETURN_POINTEE, .param = 3, .changed = changed, .bytes = bytes, .len = 8 },
	{ .kind = RETURN_POINTEE,
	  .param = 255,
	  .state = VALUE_CUT,
	  .changed = changed,
	  .bytes = bytes,
	  .len = 1 },
	{ .kind = RETURN_POINTEE, .state = VALUE_OK, .changed = changed },
	{ .kind = RETURN_POINTEE, .param = 1, .state = VALUE_UNREADABLE, .changed = changed },
	{ .kind = RETURN_POINTEE, .param = 2, .state = VALUE_NULL, .changed = changed },
	{ .kind = RETURN_POINTEE, .param = 2, .state = VALUE_NONE, .changed = changed },
	{ .kind = RETURN_DATA,
	  .offset = 0x12345678,
	  .name = "counter",
	  .name_len = 7,
	  .bytes = bytes,
	  .len = 5 },
	{ .kind = RETURN_DATA_LEFT_OUT },
	{ .kind = RETURN_MEMBER,
	  .type = 0x87654321,
	  .name = "state.name",
	  .name_len = 10,
	  .bytes = bytes,
	  .len = 8 },
};

#define EXTRAS (sizeof(extras) / sizeof(extras[0]))

/* Results with all states that one can have, and none. */
static const struct {
	bool has;
	const struct type_event *type;
	struct call_value v;
} results[] = {
	{ .type = &int_type },
	{ true, &int_type, { VALUE_OK, bytes, 4, VALUE_NONE, NULL, 0 } },
	{ true, &int_type, { .state = VALUE_OPTIMIZED_OUT, .to_state = VALUE_NONE } },
	{ true, &int_type, { .state = VALUE_UNREADABLE, .to_state = VALUE_NONE } },
	{ true, &int_type, { .state = VALUE_NONE, .to_state = VALUE_NONE } },
	{ true, &int_type, { .state = VALUE_WITHHELD, .to_state = VALUE_NONE } },
	{ true, &string_type, { VALUE_OK, bytes, 8, VALUE_OK, bytes, 3 } },
	{ true, &string_type, { VALUE_OK, bytes, 8, VALUE_CUT, bytes, 8 } },
	{ true, &string_type, { VALUE_OK, bytes, 8, VALUE_NULL, NULL, 0 } },
};

#define RESULTS (sizeof(results) / sizeof(results[0]))

static void check_extra(const struct return_extra *got, const struct return_extra *put)
{
	assert_int_equal(got->kind, put->kind);
	assert_int_equal(got->param, put->param);
	assert_int_equal(got->state, put->state);
	assert_int_equal(got->offset, put->offset);
	assert_int_equal(got->type, put->type);
	assert_int_equal(got->name_len, put->name_len);
	assert_int_equal(got->len, put->len);
	if (put->len)
		assert_memory_equal(got->bytes, put->bytes, put->len);
	if (put->name_len)
		assert_memory_equal(got->name, put->name, put->name_len);
	if (put->kind == RETURN_POINTEE)
		assert_memory_equal(got->changed, put->changed, RETURN_CHANGED_BYTES(put->len));
}

static size_t put_result(uint8_t *buf, size_t cap, size_t i)
{
	size_t len = 0;

	if (results[i].has)
		assert_true(call_values_put(buf, cap, &len, results[i].type->kind, &results[i].v));
	return len;
}

/* Of extras alone: where each of them ends. */
static size_t put_extras(uint8_t *buf, size_t cap, size_t len, size_t *end)
{
	for (size_t i = 0; i < EXTRAS; i++) {
		assert_true(return_extra_put(buf, cap, &len, &extras[i]));
		end[i] = len;
	}
	return len;
}

static void a_result_and_all_extras_come_back(void **state)
{
	size_t end[EXTRAS];

	(void)state;
	for (size_t k = 0; k < RESULTS; k++) {
		uint8_t buf[256];
		size_t len = put_extras(buf, sizeof(buf), put_result(buf, sizeof(buf), k), end);
		struct call_values_reader r = { buf, buf + len };
		struct return_extra e;
		struct call_value v;
		bool has;

		assert_true(call_result_is_unused(buf, len, results[k].type));
		assert_false(call_result_is_unused(buf, put_result(buf, sizeof(buf), k), results[k].type));
		call_result_read(&r, results[k].type, &v, &has);
		assert_int_equal(has, results[k].has);
		if (has) {
			assert_int_equal(v.state, results[k].v.state);
			assert_int_equal(v.to_state, results[k].v.to_state);
			assert_int_equal(v.size, results[k].v.size);
		}
		for (size_t i = 0; i < EXTRAS; i++) {
			assert_true(return_extra_next(&r, &e));
			check_extra(&e, &extras[i]);
		}
		assert_false(return_extra_next(&r, &e));
	}
}

static void without_its_type_nothing_behind_a_result_is_read(void **state)
{
	uint8_t buf[64];
	size_t len = put_result(buf, sizeof(buf), 1);
	struct call_values_reader r;
	struct return_extra e;
	struct call_value v;
	bool has;

	(void)state;
	assert_true(return_extra_put(buf, sizeof(buf), &len, &extras[0]));
	r = (struct call_values_reader){ buf, buf + len };
	call_result_read(&r, NULL, &v, &has);
	assert_false(has);
	assert_false(return_extra_next(&r, &e));
	/* There is no result: what is there has no type. */
	r = (struct call_values_reader){ buf + len - 1, buf + len };
	call_result_read(&r, NULL, &v, &has);
	assert_false(has);
	assert_true(return_extra_next(&r, &e));
	assert_int_equal(e.kind, RETURN_UNUSED);
}

/* Read from memory that ends where the bytes do. */
static void whole_extras_are_read_of_what_is_cut(void **state)
{
	uint8_t buf[256];
	size_t end[EXTRAS], len = put_extras(buf, sizeof(buf), 0, end);

	(void)state;
	for (size_t n = 0; n <= len; n++) {
		uint8_t *cut = malloc(n + 1);
		struct call_values_reader r;
		struct return_extra e;
		size_t got = 0, whole = 0;

		assert_non_null(cut);
		memmove(cut + 1, buf, n);
		r = (struct call_values_reader){ cut + 1, cut + 1 + n };
		while (return_extra_next(&r, &e))
			check_extra(&e, &extras[got++]);
		while (whole < EXTRAS && end[whole] <= n)
			whole++;
		assert_int_equal(got, whole);
		assert_ptr_equal(r.at, cut + 1 + (whole ? end[whole - 1] : 0));
		free(cut);
	}
}

static void nonsense_is_no_extra(void **state)
{
	static const uint8_t nonsense[][4] = {
		{ VALUE_OK },			       /* a value */
		{ RETURN_MEMBER + 1 },		       /* of a later version */
		{ RETURN_POINTEE, 0, VALUE_NULL + 1 }, /* no such state */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		struct call_values_reader r = { nonsense[i], nonsense[i] + sizeof(nonsense[i]) };
		struct return_extra e;

		assert_false(return_extra_next(&r, &e));
		assert_ptr_equal(r.at, nonsense[i]);
	}
}

static void what_does_not_fit_is_not_begun(void **state)
{
	(void)state;
	for (size_t i = 0; i < EXTRAS; i++) {
		uint8_t buf[64];
		size_t need = 0;

		assert_true(return_extra_put(buf, sizeof(buf), &need, &extras[i]));
		for (size_t cap = 0; cap <= need; cap++) {
			size_t len = 0;

			assert_int_equal(return_extra_put(buf, cap, &len, &extras[i]), cap == need);
			assert_int_equal(len, cap == need ? need : 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_result_and_all_extras_come_back),
		cmocka_unit_test(without_its_type_nothing_behind_a_result_is_read),
		cmocka_unit_test(whole_extras_are_read_of_what_is_cut),
		cmocka_unit_test(nonsense_is_no_extra),
		cmocka_unit_test(what_does_not_fit_is_not_begun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
