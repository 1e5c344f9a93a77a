/* The branches that decide which of two calls comes next: small functions in assembly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/code/insn/code_ways.h"

__asm__(".text\n"
	/* One branch; before it, one of which both sides come together again, and one that leaves. */
	".globl ways_plain\nways_plain:\n"
	"	test %ebx, %ebx\n"
	"	je 1f\n"
	"	inc %ebx\n"
	"1:	cmp $5, %ebx\n"
	"	je 3f\n"
	"	cmp $6, %ebx\n"
	".globl ways_plain_decides\nways_plain_decides:\n"
	"	je 2f\n"
	".globl ways_plain_a\nways_plain_a:\n"
	"	call ways_plain\n"
	"	ret\n"
	".globl ways_plain_b\nways_plain_b:\n"
	"2:	call ways_plain\n"
	"3:	ret\n"

	/* A table leads to one of them. */
	".globl ways_table\nways_table:\n"
	"	cmp $5, %ebx\n"
	".globl ways_table_decides\nways_table_decides:\n"
	"	ja 1f\n"
	"	jmp *%rax\n"
	".globl ways_table_a\nways_table_a:\n"
	"1:	call ways_plain\n"
	"	ret\n"

	/* Another call lies between. */
	".globl ways_beyond\nways_beyond:\n"
	"	call ways_plain\n"
	"	test %eax, %eax\n"
	".globl ways_beyond_decides\nways_beyond_decides:\n"
	"	je 1f\n"
	".globl ways_beyond_a\nways_beyond_a:\n"
	"	call ways_table\n"
	".globl ways_beyond_b\nways_beyond_b:\n"
	"1:	ret\n"

	/* Away, and on for ever. */
	".globl ways_loop\nways_loop:\n"
	"	test %ebx, %ebx\n"
	"	jne ways_plain\n"
	"1:	jmp 1b\n"
	".globl ways_end\nways_end:\n");

extern const uint8_t ways_plain[], ways_plain_decides[], ways_plain_a[], ways_plain_b[];
extern const uint8_t ways_table[], ways_table_decides[], ways_table_a[];
extern const uint8_t ways_beyond[], ways_beyond_decides[], ways_beyond_a[], ways_beyond_b[];
extern const uint8_t ways_loop[], ways_end[];

static size_t bytes_here(void *ctx, uint64_t addr, const uint8_t **ret)
{
	const uintptr_t end = (uintptr_t)ways_end;

	(void)ctx;
	*ret = (const uint8_t *)(uintptr_t)addr;
	return addr < end ? end - addr : 0;
}

struct bounds {
	uintptr_t start, end;
};

static bool is_inside(void *ctx, uint64_t addr)
{
	const struct bounds *b = ctx;

	return b->start <= addr && addr < b->end;
}

static void find(struct code_ways *w, const uint8_t *start, const uint8_t *end, bool pass_calls)
{
	struct bounds b = { (uintptr_t)start, (uintptr_t)end };
	const struct code_view code = { bytes_here, NULL };
	const struct code_inside inside = { is_inside, &b };

	assert_true(code_ways_find(w, &code, &inside, b.start, pass_calls));
}

static void set_event(struct code_ways *w, const uint8_t *at, uint8_t event)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->v[i].at == (uintptr_t)at)
			w->v[i].is_event = event;
}

/* The only one; NULL: there are none, or several. */
static const uint8_t *deciding(const struct code_ways *w, uint8_t events)
{
	const uint8_t *found = NULL;

	for (size_t i = 0; i < w->n; i++) {
		if (!code_ways_decides(w, i, events))
			continue;
		if (found)
			return NULL;
		found = (const uint8_t *)(uintptr_t)w->v[i].at;
	}
	return found;
}

#define BOTH (CODE_EVENT_A | CODE_EVENT_B)

static void a_branch_whose_sides_lead_to_one_each_decides(void **state)
{
	struct code_ways w;

	(void)state;
	find(&w, ways_plain, ways_table, false);
	set_event(&w, ways_plain_a, CODE_EVENT_A);
	set_event(&w, ways_plain_b, CODE_EVENT_B);
	code_ways_reach(&w);
	assert_int_equal(w.v[0].reaches, BOTH);
	assert_ptr_equal(deciding(&w, BOTH), ways_plain_decides);
	code_ways_deinit(&w);
}

static void behind_a_table_may_be_what_nothing_else_leads_to(void **state)
{
	struct code_ways w;

	(void)state;
	find(&w, ways_table, ways_beyond, false);
	set_event(&w, ways_table_a, CODE_EVENT_A);
	code_ways_reach(&w);
	assert_int_equal(w.v[0].reaches, BOTH);
	assert_ptr_equal(deciding(&w, BOTH), ways_table_decides);
	code_ways_deinit(&w);
}

static void calls_end_the_ways_unless_they_are_passed(void **state)
{
	struct code_ways w;

	(void)state;
	find(&w, ways_beyond, ways_loop, false);
	set_event(&w, ways_beyond_a, CODE_EVENT_A);
	set_event(&w, ways_beyond_b, CODE_EVENT_B);
	code_ways_reach(&w);
	assert_int_equal(w.v[0].reaches, 0);
	assert_null(deciding(&w, BOTH));
	code_ways_deinit(&w);

	find(&w, ways_beyond, ways_loop, true);
	set_event(&w, ways_beyond_a, CODE_EVENT_A);
	set_event(&w, ways_beyond_b, CODE_EVENT_B);
	code_ways_reach(&w);
	assert_ptr_equal(deciding(&w, BOTH), ways_beyond_decides);
	code_ways_deinit(&w);
}

static void a_jump_out_of_the_function_leaves_it(void **state)
{
	struct code_ways w;
	size_t leaving = 0;

	(void)state;
	find(&w, ways_loop, ways_end, false);
	for (size_t i = 0; i < w.n; i++)
		leaving += w.v[i].leaves;
	assert_int_equal(leaving, 1);
	assert_int_equal(w.n, 3);
	assert_false(w.is_cut);
	code_ways_deinit(&w);
}

static void code_that_cannot_be_read_is_said(void **state)
{
	struct code_ways w;

	(void)state;
	find(&w, ways_end, ways_end, false);
	assert_true(w.is_cut);
	assert_int_equal(w.n, 0);
	code_ways_reach(&w);
	code_ways_deinit(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_branch_whose_sides_lead_to_one_each_decides),
		cmocka_unit_test(behind_a_table_may_be_what_nothing_else_leads_to),
		cmocka_unit_test(calls_end_the_ways_unless_they_are_passed),
		cmocka_unit_test(a_jump_out_of_the_function_leaves_it),
		cmocka_unit_test(code_that_cannot_be_read_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
