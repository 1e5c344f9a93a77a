/*
 * A kernel's memory made up: page tables as the Intel SDM, vol. 3, 4.5, draws them, at physical addresses of
 * ours. Which page the search looks for is not known before: the walk's own table indices tell.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "watchctl/engine/perf/direct_map.h"

#define PRESENT 1ull
#define HUGE 0x80ull
#define TABLE(level) (0x200000ull + 0x1000ull * (level)) /* physical; level 1 maps pages */
#define PAGES 0x40000000ull				 /* physical: what the lowest tables map */

struct machine {
	uint64_t base;
	unsigned int levels, last; /* of tables; entries of level `last` map memory */
	bool forgets;		   /* shows other content than the page has */
	uint64_t index[6];	   /* in the table of each level, as last read */
	unsigned int stray;	   /* reads of what is neither table nor page */
};

static bool read_page(const struct machine *m, uint64_t physical, void *buf, size_t len)
{
	uint64_t addr = 0, inside = (1ull << (3 + 9 * m->last)) - 1;
	unsigned int level;

	for (level = m->levels; level >= m->last; level--)
		addr |= m->index[level] << (3 + 9 * level);
	addr |= physical & inside;
	/* A wrong walk comes to a wrong address. */
	if (process_vm_readv(getpid(), &(struct iovec){ buf, len }, 1,
			     &(struct iovec){ (void *)(uintptr_t)addr, len }, 1, 0) != (ssize_t)len)
		return false;
	if (m->forgets)
		*(uint8_t *)buf ^= 1;
	return true;
}

static bool read_machine(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct machine *m = ctx;
	uint64_t physical = addr - m->base, entry;
	unsigned int level;

	for (level = m->last; level <= m->levels; level++) {
		if ((physical & ~0xfffull) != TABLE(level) || len != 8)
			continue;
		m->index[level] = physical / 8 % 512;
		entry = level == m->last ? PAGES | (level > 1 ? HUGE : 0) : TABLE(level - 1);
		entry |= PRESENT | 1ull << 63 | 0x6; /* no-execute, user, writable: not part of the address */
		memcpy(buf, &entry, 8);
		return true;
	}
	if (physical >= PAGES && physical < PAGES + (1ull << (3 + 9 * m->last)))
		return read_page(m, physical, buf, len);
	m->stray++;
	return false;
}

static bool find(struct machine *m, struct direct_map *ret)
{
	struct memory_view mem = { read_machine, m };

	return direct_map_find(&mem, m->base + TABLE(m->levels), ret);
}

static void the_mapping_is_found_wherever_it_begins(void **state)
{
	const uint64_t base[] = { 0xffff888000000000, 0xffff8a1640000000, 0xffffa3fec0000000 };

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		struct machine m = { .base = base[i], .levels = 4, .last = 1 };
		struct direct_map found = { 0 };

		assert_true(find(&m, &found));
		assert_int_equal(found.base, base[i]);
		assert_int_equal(found.levels, 4);
		assert_int_equal(found.frame_mask & 0xfff, 0);
		assert_int_equal(found.frame_mask & ~((1ull << 52) - 1), 0);
	}
}

static void five_levels_and_large_pages_are_walked(void **state)
{
	struct machine five = { .base = 0xff11000040000000, .levels = 5, .last = 1 };
	struct machine large = { .base = 0xffff888000000000, .levels = 4, .last = 2 };
	struct direct_map found = { 0 };

	(void)state;
	assert_true(find(&five, &found));
	assert_int_equal(found.levels, 5);
	assert_int_equal(found.base, five.base);
	assert_true(find(&large, &found));
	assert_int_equal(found.base, large.base);
}

static void a_place_without_our_pages_content_is_not_believed(void **state)
{
	struct machine m = { .base = 0xffff888000000000, .levels = 4, .last = 1, .forgets = true };
	struct direct_map found;

	(void)state;
	assert_false(find(&m, &found));
}

static void a_page_table_of_no_kernel_is_refused_unread(void **state)
{
	struct machine m = { .base = 0x500000000000, .levels = 4, .last = 1 };
	struct direct_map found;

	(void)state;
	assert_false(find(&m, &found));
	assert_int_equal(m.stray, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_mapping_is_found_wherever_it_begins),
		cmocka_unit_test(five_levels_and_large_pages_are_walked),
		cmocka_unit_test(a_place_without_our_pages_content_is_not_believed),
		cmocka_unit_test(a_page_table_of_no_kernel_is_refused_unread),
	};

	return cmocka_run_group_tests_name("direct_map", tests, NULL, NULL);
}
