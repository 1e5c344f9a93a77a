#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/unit/wait.h"
#include "watchctl/view/diff/base/diff_align.h"

#define MAX 4096

static struct diff_item a[MAX], b[MAX];
static uint32_t mate[MAX];

/* "Aa" is a kind with a value: two letters an item. */
static uint32_t items(const char *text, struct diff_item *v)
{
	uint32_t n = 0;

	for (; *text; text += 2, n++)
		v[n] = (struct diff_item){ .exact = (uint64_t)text[0] << 8 | (uint8_t)text[1],
					   .shape = (uint8_t)text[0],
					   .key = (uint8_t)text[0] };
	return n;
}

static void align(uint32_t na, uint32_t nb)
{
	const struct diff_sequence x = { .base = a, .stride = sizeof(*a), .n = na },
				   y = { .base = b, .stride = sizeof(*b), .n = nb };

	assert_true(diff_align(&x, &y, mate));
}

/* @want: of each item of @x the place of its mate, "-" for none. */
static void check(const char *x, const char *y, const char *want)
{
	uint32_t na = items(x, a), nb = items(y, b), i;
	char got[64] = "";

	align(na, nb);
	for (i = 0; i < na; i++)
		got[i] = mate[i] == NO_MATE ? '-' : (char)('0' + mate[i]);
	assert_string_equal(got, want);
}

static void equal_sequences_are_mates(void **state)
{
	check("AaBbAaCc", "AaBbAaCc", "0123");
	check("", "AaBb", "");
	check("AaBb", "", "--");
}

static void an_item_more_on_one_side_has_no_mate(void **state)
{
	check("AaBbCc", "AaXxBbCc", "023");
	check("AaXxBbCc", "AaBbCc", "0-12");
	check("AaBb", "AaBbCc", "01");
}

static void items_of_one_kind_with_other_values_are_mates(void **state)
{
	check("AaBbCc", "AaBxCc", "012");
	check("AaAbAc", "AaAxAc", "012");
}

/* The one that fails comes first among what is left over: it must not be taken for an item too many. */
static void of_a_loop_that_ends_early_the_failing_item_has_a_mate(void **state)
{
	check("PpPpPpPpPp", "PfPpQq", "0---1");
	check("MaMaMa", "MxMaEe", "0-1");
}

static void a_retry_is_an_item_more(void **state)
{
	check("RaWa", "RxRaWa", "12");
}

static void items_that_occur_once_anchor_others(void **state)
{
	check("UuAaAaVv", "AaUuVvAa", "1--2");
}

static void other_kinds_are_never_mates(void **state)
{
	check("AaBb", "CcDd", "--");
}

/* Oracle: the length of the longest common subsequence by the textbook's table. */
static uint32_t longest(uint32_t na, uint32_t nb)
{
	static uint32_t table[65][65];
	uint32_t i, j;

	for (i = 0; i <= na; i++)
		for (j = 0; j <= nb; j++)
			table[i][j] = !i || !j				  ? 0
				      : a[i - 1].exact == b[j - 1].exact  ? table[i - 1][j - 1] + 1
				      : table[i - 1][j] > table[i][j - 1] ? table[i - 1][j]
									  : table[i][j - 1];
	return table[na][nb];
}

static void check_order(uint32_t na)
{
	uint32_t i, last = 0;

	for (i = 0; i < na; i++) {
		if (mate[i] == NO_MATE)
			continue;
		assert_true(mate[i] + 1 > last);
		assert_int_equal(a[i].key, b[mate[i]].key);
		last = mate[i] + 1;
	}
}

/* Of few values, so that hardly any occurs once: the shortest edit alone decides. */
static void random_sequences_have_mates_in_order_and_as_many_as_can_be(void **state)
{
	uint32_t round, i, na, nb, equal;

	srand(7);
	for (round = 0; round < 3000; round++) {
		na = (uint32_t)rand() % 64 + 1;
		nb = (uint32_t)rand() % 64 + 1;
		for (i = 0; i < na || i < nb; i++) {
			uint32_t x = (uint32_t)rand() % 3, y = (uint32_t)rand() % 3;

			a[i] = (struct diff_item){ x, x, 1 };
			b[i] = (struct diff_item){ y, y, 1 };
		}
		align(na, nb);
		check_order(na);
		equal = 0;
		for (i = 0; i < na; i++)
			equal += mate[i] != NO_MATE && a[i].exact == b[mate[i]].exact;
		/* Patience may give up some for what occurs once: but three values in that many seldom do. */
		if (na > 40 && nb > 40)
			assert_int_equal(equal, longest(na, nb));
	}
}

/* A million items of which all, none, or every other one is equal: seconds would mean more than linear. */
static void many_items_take_no_more_than_linear_time(void **state)
{
	uint32_t n = 1u << 20, i, kind;
	struct diff_item *x = calloc(n, sizeof(*x)), *y = calloc(n, sizeof(*y));
	uint32_t *m = calloc(n, sizeof(*m));
	uint64_t start = cpu_ns();

	assert_true(x && y && m);
	for (kind = 0; kind < 4; kind++) {
		const struct diff_sequence s = { .base = x, .stride = sizeof(*x), .n = n },
					   t = { .base = y, .stride = sizeof(*y), .n = n };

		for (i = 0; i < n; i++) {
			uint64_t v = kind == 3 ? i % 7 : i;

			x[i] = (struct diff_item){ v, 1, (uint32_t)(i % 3) };
			y[i] = (struct diff_item){ kind == 0   ? v
						   : kind == 1 ? v + n
						   : kind == 2 ? v + i % 2
							       : (i / 2) % 5,
						   1, (uint32_t)(i % 3) };
		}
		assert_true(diff_align(&s, &t, m));
	}
	assert_in_range(cpu_ns() - start, 0, wait_ns() / 3);
	free(x);
	free(y);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_sequences_are_mates),
		cmocka_unit_test(an_item_more_on_one_side_has_no_mate),
		cmocka_unit_test(items_of_one_kind_with_other_values_are_mates),
		cmocka_unit_test(of_a_loop_that_ends_early_the_failing_item_has_a_mate),
		cmocka_unit_test(a_retry_is_an_item_more),
		cmocka_unit_test(items_that_occur_once_anchor_others),
		cmocka_unit_test(other_kinds_are_never_mates),
		cmocka_unit_test(random_sequences_have_mates_in_order_and_as_many_as_can_be),
		cmocka_unit_test(many_items_take_no_more_than_linear_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
