/* Expected bits are from the Intel SDM, vol. 3, figure 18-1 and section 18.2.4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/engine/plan/dregs.h"

static void a_slot_is_1_2_4_or_8_bytes_aligned_to_itself(void **state)
{
	(void)state;
	assert_true(dregs_fits(0x1001, 1));
	assert_true(dregs_fits(0x1002, 2));
	assert_true(dregs_fits(0x1008, 8));
	assert_false(dregs_fits(0x1001, 2));
	assert_false(dregs_fits(0x1004, 8));
	assert_false(dregs_fits(0x1000, 3));
	assert_false(dregs_fits(0x1000, 0));
	assert_false(dregs_fits(0x1000, 16));
}

static void dr7_has_the_manuals_bits(void **state)
{
	(void)state;
	assert_int_equal(dregs_dr7(0, 1, ACCESS_WRITE), 0x1 | 0x1 << 16);
	assert_int_equal(dregs_dr7(0, 2, ACCESS_READWRITE), 0x1 | 0x7 << 16);
	assert_int_equal(dregs_dr7(1, 4, ACCESS_WRITE), 0x4 | 0xd << 20);
	assert_int_equal(dregs_dr7(3, 8, ACCESS_READWRITE), 0x40 | 0xbull << 28);
	assert_int_equal(dregs_dr7(2, 1, ACCESS_EXECUTE), 0x10);
}

static void a_slots_bits_are_its_own(void **state)
{
	unsigned int i, k;

	(void)state;
	for (i = 0; i < DREGS; i++) {
		assert_int_equal(dregs_dr7(i, 8, ACCESS_READWRITE) & ~dregs_dr7_mask(i), 0);
		for (k = 0; k < DREGS; k++) {
			if (k != i)
				assert_int_equal(dregs_dr7_mask(i) & dregs_dr7_mask(k), 0);
			assert_int_equal(dregs_enabled(dregs_dr7(i, 4, ACCESS_WRITE), k), i == k);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slot_is_1_2_4_or_8_bytes_aligned_to_itself),
		cmocka_unit_test(dr7_has_the_manuals_bits),
		cmocka_unit_test(a_slots_bits_are_its_own),
	};

	return cmocka_run_group_tests_name("dregs", tests, NULL, NULL);
}
