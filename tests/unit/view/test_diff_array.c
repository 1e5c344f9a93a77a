#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "watchctl/view/diff/base/diff_array.h"

#define ITEMS 1500000u /* 18 MB: in the heap, then in a mapping that moves twice */

struct item {
	uint32_t a, b, c; /* as large as no page is a multiple of */
};

static void items_stay_when_the_array_grows(void **state)
{
	struct item *v = NULL;
	size_t n = 0, cap = 0;

	for (uint32_t i = 0; i < ITEMS; i++)
		assert_true(diff_array_push(v, n, cap, (struct item){ i, ~i, i * 3 }));
	assert_int_equal(n, ITEMS);
	for (uint32_t i = 0; i < ITEMS; i++) {
		assert_int_equal(v[i].a, i);
		assert_int_equal(v[i].b, ~i);
		assert_int_equal(v[i].c, i * 3);
	}
	diff_array_free(v, cap, sizeof(*v));
}

static void an_array_too_large_for_any_memory_stays_as_it_is(void **state)
{
	struct item *v = NULL;
	size_t n = 0, cap = 0, large = SIZE_MAX / sizeof(*v) / 2;

	assert_true(diff_array_push(v, n, cap, (struct item){ 1, 2, 3 }));
	assert_false(diff_array_grow((void **)&v, &large, sizeof(*v)));
	assert_int_equal(v[0].b, 2);
	diff_array_free(v, cap, sizeof(*v));
}

static void an_array_without_items_is_freed(void **state)
{
	diff_array_free(NULL, 0, sizeof(struct item));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_stay_when_the_array_grows),
		cmocka_unit_test(an_array_too_large_for_any_memory_stays_as_it_is),
		cmocka_unit_test(an_array_without_items_is_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
