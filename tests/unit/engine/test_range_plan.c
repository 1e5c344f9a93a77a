/* Which registers cover a range: held against the definition of what one register watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/engine/plan/range_plan.h"

#define BASE 0x1000u

/* Every byte asked for exactly once, in a register that really covers it; returns the bytes beside them. */
static unsigned int check(uint64_t addr, uint64_t len, const struct range_part *part, unsigned int n)
{
	unsigned int covered = 0, i;
	uint64_t next = addr;

	for (i = 0; i < n; i++) {
		const struct range_part *p = &part[i];

		assert_true(p->size == 1 || p->size == 2 || p->size == 4 || p->size == 8);
		assert_int_equal(p->addr % p->size, 0);
		assert_int_equal(p->want_addr, next);
		assert_true(p->want_size > 0);
		assert_true(p->want_addr >= p->addr && p->want_addr + p->want_size <= p->addr + p->size);
		next += p->want_size;
		covered += p->size;
	}
	assert_int_equal(next, addr + len);
	return covered - (unsigned int)len;
}

static void every_range_that_fits_is_covered_byte_by_byte(void **state)
{
	struct range_part part[RANGE_PARTS];
	unsigned int offset, len, registers;

	for (offset = 0; offset < 16; offset++)
		for (len = 1; len <= RANGE_MAX; len++)
			for (registers = 1; registers <= RANGE_PARTS; registers++) {
				unsigned int n = range_plan(BASE + offset, len, registers, part);
				/* Eight bytes a register are the most, from the first one's start. */
				unsigned int words = (offset % 8 + len + 7) / 8;

				assert_int_equal(n > 0, words <= registers);
				assert_true(n <= registers);
				if (n)
					check(BASE + offset, len, part, n);
			}
}

/* All ways to lay registers of the four sizes, by counting up: the least that is beside the range. */
static unsigned int least_beside(uint64_t addr, uint64_t end, unsigned int registers)
{
	unsigned int best = 1000, size;

	if (addr >= end)
		return 0;
	for (size = 1; registers && size <= 8; size *= 2) {
		uint64_t stop = (addr / size + 1) * size;
		uint64_t used = (stop < end ? stop : end) - addr;
		unsigned int rest = least_beside(addr + used, end, registers - 1) + size - (unsigned int)used;

		if (rest < best)
			best = rest;
	}
	return best;
}

static void no_plan_watches_more_than_it_must(void **state)
{
	struct range_part part[RANGE_PARTS];
	unsigned int offset, len, registers, n;

	for (offset = 0; offset < 8; offset++)
		for (len = 1; len <= RANGE_MAX; len++)
			for (registers = 1; registers <= RANGE_PARTS; registers++) {
				n = range_plan(BASE + offset, len, registers, part);
				if (n)
					assert_int_equal(
						check(BASE + offset, len, part, n),
						least_beside(BASE + offset, BASE + offset + len, registers));
			}
}

static void one_register_is_taken_where_one_is_exact(void **state)
{
	struct range_part part[RANGE_PARTS];

	assert_int_equal(range_plan(0x1000, 8, 4, part), 1);
	assert_int_equal(range_plan(0x1002, 2, 4, part), 1);
	assert_int_equal(range_plan(0x1000, 3, 4, part), 2);
	assert_int_equal(range_plan(0x1000, 3, 1, part), 1);
	assert_int_equal(part[0].size, 4);
	assert_int_equal(part[0].want_size, 3);
}

static void what_fits_is_reported_to_the_byte(void **state)
{
	struct range_part part[RANGE_PARTS];
	unsigned int offset, registers;

	for (offset = 0; offset < 8; offset++)
		for (registers = 1; registers <= RANGE_PARTS; registers++) {
			uint32_t longest = range_longest(BASE + offset, registers);

			assert_true(range_plan(BASE + offset, longest, registers, part) > 0);
			assert_int_equal(range_plan(BASE + offset, longest + 1, registers, part), 0);
			assert_int_equal(range_registers(BASE + offset, longest), registers);
		}
	assert_int_equal(range_longest(BASE, 0), 0);
}

static void nonsense_does_not_fit(void **state)
{
	struct range_part part[RANGE_PARTS];

	assert_int_equal(range_plan(BASE, 0, 4, part), 0);
	assert_int_equal(range_plan(BASE, RANGE_MAX + 1, 4, part), 0);
	assert_int_equal(range_plan(UINT64_MAX - 3, 8, 4, part), 0);
	assert_int_equal(range_plan(BASE, 1, 0, part), 0);
	assert_int_equal(range_registers(BASE + 1, RANGE_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_range_that_fits_is_covered_byte_by_byte),
		cmocka_unit_test(no_plan_watches_more_than_it_must),
		cmocka_unit_test(one_register_is_taken_where_one_is_exact),
		cmocka_unit_test(what_fits_is_reported_to_the_byte),
		cmocka_unit_test(nonsense_does_not_fit),
	};

	return cmocka_run_group_tests_name("range_plan", tests, NULL, NULL);
}
