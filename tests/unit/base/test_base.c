#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "watchctl/base/error.h"
#include "watchctl/base/id_map.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"

static void an_error_gathers_context_in_front_and_hints_behind(void **state)
{
	struct wc_error *err = wc_error_errno(WC_EPERM, EACCES, "cannot open %s", "x");

	(void)state;
	err = wc_error_hint(wc_error_context(err, "watch %d", 3), "try root");
	assert_string_equal(err->text, "watch 3: cannot open x: Permission denied (try root)");
	assert_int_equal(err->kind, WC_EPERM);
	assert_int_equal(err->sys_errno, EACCES);
	wc_error_free(err);
}

/* Names come from programs that nobody trusts: a terminal would do what is written in them. */
static void an_error_writes_no_escape_sequences(void **state)
{
	struct wc_error *err =
		wc_error_new(WC_ENAME, "no \033]0;x\a%s\n  ^", "\x9b\xc2\x9b\tn\xc3\xa9\x7f\r");

	(void)state;
	err = wc_error_hint(wc_error_context(err, "in %s", "lib\b.so"), "near \033[31mred");
	assert_string_equal(err->text, "in lib?.so: no ?]0;x?????n\xc3\xa9??\n  ^ (near ?[31mred)");
	wc_error_free(err);
}

static void being_out_of_memory_needs_no_memory(void **state)
{
	(void)state;
	assert_ptr_equal(wc_error_context(&wc_enomem, "x"), &wc_enomem);
	assert_ptr_equal(wc_error_hint(&wc_enomem, "x"), &wc_enomem);
	wc_error_free(&wc_enomem);
	wc_error_free(NULL);
}

static void a_map_finds_every_key_it_was_given(void **state)
{
	struct map64 m = { 0 };
	static char value[5000];
	uint64_t i;

	(void)state;
	for (i = 0; i < 5000; i++)
		assert_true(map64_put(&m, i * 0x1000, &value[i]));
	assert_true(map64_put(&m, 0x1000, &value[0]));
	assert_int_equal(m.n, 5000);
	for (i = 0; i < 5000; i++)
		assert_ptr_equal(map64_get(&m, i * 0x1000), i == 1 ? &value[0] : &value[i]);
	assert_null(map64_get(&m, 1));
	map64_deinit(&m);
	assert_null(map64_get(&m, 0x1000));
}

/* Ids on both sides of the border, and ones that were never stored. */
static void an_id_map_finds_small_and_large_ids(void **state)
{
	static const uint32_t id[] = { 0, 9, ID_MAP_NEAR - 1, ID_MAP_NEAR, UINT32_MAX };
	const size_t n = sizeof(id) / sizeof(id[0]);
	struct id_map m = { 0 };
	int value[8];

	(void)state;
	assert_null(id_map_get(&m, 0));
	assert_null(id_map_get(&m, UINT32_MAX));
	for (size_t i = 0; i < n; i++) {
		assert_null(id_map_get(&m, id[i]));
		assert_true(id_map_put(&m, id[i], &value[i]));
	}
	assert_true(id_map_put(&m, 9, &value[6]));
	for (size_t i = 0; i < n; i++)
		assert_ptr_equal(id_map_get(&m, id[i]), i == 1 ? &value[6] : &value[i]);
	assert_null(id_map_get(&m, 1));
	assert_null(id_map_get(&m, ID_MAP_NEAR + 1));
	id_map_deinit(&m);
	assert_null(id_map_get(&m, 9));
}

static void a_vector_keeps_its_items_as_it_grows(void **state)
{
	int *v = NULL;
	size_t n = 0, cap = 0;
	int i;

	(void)state;
	for (i = 0; i < 1000; i++)
		assert_true(vec_push(v, n, cap, i));
	for (i = 0; i < 1000; i++)
		assert_int_equal(v[i], i);
	assert_true(cap >= n);
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_gathers_context_in_front_and_hints_behind),
		cmocka_unit_test(an_error_writes_no_escape_sequences),
		cmocka_unit_test(being_out_of_memory_needs_no_memory),
		cmocka_unit_test(a_map_finds_every_key_it_was_given),
		cmocka_unit_test(an_id_map_finds_small_and_large_ids),
		cmocka_unit_test(a_vector_keeps_its_items_as_it_grows),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
