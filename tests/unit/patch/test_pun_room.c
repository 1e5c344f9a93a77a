/* Room for the trampolines of punned jumps: by hand, and for many ranges at random, checked by rules alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/patch/plan/free_space.h"
#include "watchctl/patch/plan/pun_room.h"

#define PAGE 4096u
#define BASE 0x10000000u
#define MANY 100u

static struct free_space space_of(struct free_span *v, size_t n)
{
	return (struct free_space){ .v = v, .n = n };
}

#define SPACE(...) \
	space_of((struct free_span[]){ __VA_ARGS__ }, sizeof((struct free_span[]){ __VA_ARGS__ }) / 16)

static void one_is_put_behind_the_head_of_a_page(void **state)
{
	struct pun_want w[] = { { .low = BASE, .high = BASE + 0xffff, .len = 60 } };
	struct free_space f = SPACE({ BASE - 0x100000, BASE + 0x100000 });
	struct pun_areas a;

	assert_true(pun_room_make(w, 1, &f, MANY, &a));
	assert_int_equal(a.n, 1);
	assert_int_equal(a.v[0].start, BASE + 0xf000);
	assert_int_equal(a.v[0].size, PAGE);
	assert_int_equal(w[0].at, BASE + 0xf000 + PUN_HEAD);
	pun_areas_deinit(&a);
}

static void ranges_that_meet_share_a_page(void **state)
{
	struct pun_want w[] = { { .low = BASE, .high = BASE + 0xffff, .len = 60 },
				{ .low = BASE + 0x8000, .high = BASE + 0x17fff, .len = 60 },
				{ .low = BASE - 0x800000, .high = BASE + 0x7fffff, .len = 60 } };
	struct free_space f = SPACE({ BASE - 0x1000000, BASE + 0x1000000 });
	struct pun_areas a;

	assert_true(pun_room_make(w, 3, &f, MANY, &a));
	assert_int_equal(a.n, 1);
	assert_int_equal(a.v[0].size, PAGE);
	assert_true(w[0].at && w[1].at && w[2].at);
	pun_areas_deinit(&a);
}

static void a_single_address_is_met_exactly(void **state)
{
	/* In the middle of a page, over the end of one, and where the head would be. */
	const uint64_t at[] = { BASE + 0x1234, BASE + 0x5ff0, BASE + 0x9000 };
	struct pun_want w[3];
	struct free_space f = SPACE({ BASE, BASE + 0x100000 });
	struct pun_areas a;

	for (unsigned int i = 0; i < 3; i++)
		w[i] = (struct pun_want){ .low = at[i], .high = at[i], .len = 60, .group = i };
	assert_true(pun_room_make(w, 3, &f, MANY, &a));
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(w[i].at, at[w[i].group]);
	assert_int_equal(a.n, 3);
	assert_int_equal(a.v[0].size, PAGE);
	assert_int_equal(a.v[1].start, BASE + 0x5000);
	assert_int_equal(a.v[1].size, 2 * PAGE);
	assert_int_equal(a.v[2].start, BASE + 0x8000);
	assert_int_equal(a.v[2].size, 2 * PAGE);
	pun_areas_deinit(&a);
}

static void two_at_the_same_address_cannot_be(void **state)
{
	struct pun_want w[] = { { .low = BASE + 0x100, .high = BASE + 0x100, .len = 60 },
				{ .low = BASE + 0x110, .high = BASE + 0x110, .len = 60 } };
	struct free_space f = SPACE({ BASE, BASE + 0x100000 });
	struct pun_areas a;

	assert_true(pun_room_make(w, 2, &f, MANY, &a));
	assert_int_equal(w[0].at, 0);
	assert_false(w[0].limited);
	assert_int_equal(w[1].at, BASE + 0x100);
	pun_areas_deinit(&a);
}

static void what_is_mapped_is_left_alone(void **state)
{
	/* Only the lowest page of the range is free; then none is. */
	struct pun_want w[] = { { .low = BASE + 0x10, .high = BASE + 0xffff, .len = 60 } };
	struct free_space f = SPACE({ BASE - 0x10000, BASE + 0x1000 });
	struct pun_areas a;

	assert_true(pun_room_make(w, 1, &f, MANY, &a));
	assert_int_equal(w[0].at, BASE + 0x10);
	pun_areas_deinit(&a);
	f = SPACE({ BASE - 0x10000, BASE }, { BASE + 0x10000, BASE + 0x20000 });
	assert_true(pun_room_make(w, 1, &f, MANY, &a));
	assert_int_equal(w[0].at, 0);
	assert_int_equal(a.n, 0);
	pun_areas_deinit(&a);
}

static void pages_are_limited(void **state)
{
	struct pun_want w[] = { { .low = BASE, .high = BASE + 0xff, .len = 60 },
				{ .low = BASE + 0x10000, .high = BASE + 0x100ff, .len = 60 } };
	struct free_space f = SPACE({ BASE, BASE + 0x100000 });
	struct pun_areas a;

	assert_true(pun_room_make(w, 2, &f, 1, &a));
	assert_int_equal(a.n, 1);
	assert_int_equal(w[0].at, 0);
	assert_true(w[0].limited);
	assert_true(w[1].at);
	assert_false(w[1].limited);
	pun_areas_deinit(&a);
}

/* At random: no two overlap, none lies on a head or outside of an area, all areas are free. */

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 20) % below;
}

static bool is_in(const struct pun_areas *a, const struct pun_want *w)
{
	for (size_t i = 0; i < a->n; i++)
		if (w->at >= a->v[i].start + PUN_HEAD && w->at + w->len <= a->v[i].start + a->v[i].size)
			return true;
	return false;
}

static bool is_free(const struct free_space *f, const struct pun_area *a)
{
	for (size_t i = 0; i < f->n; i++)
		if (a->start >= f->v[i].start && a->start + a->size <= f->v[i].end)
			return true;
	return false;
}

static void check_all(const struct pun_want *w, size_t n, const struct free_space *f,
		      const struct pun_areas *a, size_t max)
{
	uint64_t end = 0;
	size_t pages = 0;

	for (size_t i = 0; i < n; i++) {
		if (!w[i].at)
			continue;
		assert_in_range(w[i].at, w[i].low, w[i].high);
		assert_true(w[i].at >= end);
		assert_true(is_in(a, &w[i]));
		end = w[i].at + w[i].len;
	}
	for (size_t i = 0; i < a->n; i++) {
		assert_true(is_free(f, &a->v[i]));
		if (i)
			assert_true(a->v[i].start > a->v[i - 1].start + a->v[i - 1].size);
		pages += a->v[i].size / PAGE;
	}
	assert_true(pages <= max);
}

static void many_at_random_obey_the_rules(void **state)
{
	static struct pun_want w[300];
	struct free_span span[20];

	for (seed = 1; seed < 400; seed++) {
		const uint64_t again = seed;
		struct free_space f = space_of(span, 20);
		size_t n = 1 + draw(300), max = 1 + draw(200);
		uint64_t at = BASE;
		struct pun_areas a;

		for (unsigned int i = 0; i < 20; i++) {
			span[i].start = at += PAGE * (1 + draw(20));
			span[i].end = at += PAGE * (1 + draw(20));
		}
		for (size_t i = 0; i < n; i++) {
			w[i] = (struct pun_want){ .low = BASE + draw(400 * PAGE),
						  .len = (uint32_t)(1 + draw(300)) };
			w[i].high = w[i].low + (1ull << 8 * draw(4)) - 1;
		}
		assert_true(pun_room_make(w, n, &f, max, &a));
		check_all(w, n, &f, &a, max);
		pun_areas_deinit(&a);
		seed = again;
	}
}

static void free_room_is_found_nearest_to_the_middle(void **state)
{
	struct free_space f = SPACE({ BASE, BASE + 0x10000 }, { BASE + 0x40000, BASE + 0x50000 });
	uint64_t at;

	assert_true(free_space_find(&f, BASE, BASE + 0x50000, 0x2000, &at));
	assert_int_equal(at, BASE + 0x40000);
	assert_true(free_space_find(&f, BASE, BASE + 0x41000, 0x2000, &at));
	assert_int_equal(at, BASE + 0xe000);
	assert_false(free_space_find(&f, BASE + 0xf000, BASE + 0x41000, 0x2000, &at));
	assert_true(free_space_any(&f, BASE + 0xffff, BASE + 0x20000));
	assert_false(free_space_any(&f, BASE + 0x10000, BASE + 0x3ffff));
	assert_true(free_space_any(&f, BASE + 0x10000, BASE + 0x40000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_is_put_behind_the_head_of_a_page),
		cmocka_unit_test(ranges_that_meet_share_a_page),
		cmocka_unit_test(a_single_address_is_met_exactly),
		cmocka_unit_test(two_at_the_same_address_cannot_be),
		cmocka_unit_test(what_is_mapped_is_left_alone),
		cmocka_unit_test(pages_are_limited),
		cmocka_unit_test(many_at_random_obey_the_rules),
		cmocka_unit_test(free_room_is_found_nearest_to_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
