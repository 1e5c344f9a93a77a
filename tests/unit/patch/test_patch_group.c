/* Groups of sites, and the bytes of their jumps: by hand; and for the C library, where each jump is decoded again as it would stand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/patch/plan/free_space.h"
#include "watchctl/patch/plan/patch_group.h"

#define BASE 0x1000u
#define BIAS 0x7f1200000000u

/* By hand */

static struct patch_site site_at(uint64_t addr, struct tactic_choice c)
{
	return (struct patch_site){ .addr = addr, .choice = c };
}

static void sites_of_one_jump_are_a_group(void **state)
{
	const struct tactic_choice jump = {
		.tactic = TACTIC_JUMP, .start = BASE, .len = 5, .moved = 7, .nmoved = 3
	};
	const struct tactic_choice trap = { .tactic = TACTIC_TRAP, .start = BASE + 7, .len = 1, .moved = 1 };
	const struct tactic_choice pun = { .tactic = TACTIC_PUN,
					   .start = BASE + 8,
					   .len = 3,
					   .moved = 3,
					   .nmoved = 2,
					   .prefixes = 1,
					   .pun_low = 7,
					   .pun_high = 262 };
	const struct patch_site site[] = { site_at(BASE + 3, jump), site_at(BASE + 5, jump),
					   site_at(BASE + 7, trap), site_at(BASE + 9, pun) };
	struct patch_groups g = { 0 };

	assert_true(patch_groups_make(site, 4, &g));
	assert_int_equal(g.n, 2);
	assert_int_equal(g.v[0].nsites, 2);
	assert_int_equal(g.v[0].len, 5);
	assert_int_equal(g.v[0].tail, 0);
	assert_int_equal(g.v[1].start, BASE + 8);
	assert_int_equal(g.v[1].first_site, 3);
	assert_int_equal(g.v[1].len, 3);
	assert_int_equal(g.v[1].tail, 3);
	assert_int_equal(g.v[1].pun_high, 262);
	patch_groups_deinit(&g);
}

static void a_pun_has_the_bytes_behind_it_at_its_end(void **state)
{
	const uint64_t low = BASE + 5 + 0x18890000u;
	const struct patch_group g = {
		.start = BASE, .len = 3, .tail = 2, .moved = 3, .pun_low = low, .pun_high = low + 0xffff
	};
	struct patch_write w[2];
	uint64_t first, last;
	unsigned int n;

	assert_true(patch_group_reach(&g, BIAS, &first, &last));
	assert_int_equal(first, BIAS + low);
	assert_int_equal(last, BIAS + low + 0xffff);
	assert_true(patch_group_write(&g, BIAS, first + 0x1234, w, &n));
	assert_int_equal(n, 1);
	assert_int_equal(w[0].addr, BIAS + BASE);
	assert_int_equal(w[0].len, 3);
	assert_int_equal(w[0].tail, 2);
	assert_memory_equal(w[0].bytes, "\xe9\x34\x12\x89\x18", 5);
	assert_true(patch_group_write(&g, BIAS, last + 1, w, &n));
	assert_memory_not_equal(w[0].bytes + 3, "\x89\x18", 2);
}

static void prefixes_shift_a_pun(void **state)
{
	const uint64_t one = BASE + 7 + 0x04030201u;
	const struct patch_group g = {
		.start = BASE, .len = 3, .tail = 4, .moved = 3, .pun_low = one, .pun_high = one
	};
	struct patch_write w[2];
	unsigned int n;

	assert_true(patch_group_write(&g, BIAS, BIAS + one, w, &n));
	assert_memory_equal(w[0].bytes, "\x2e\x2e\xe9\x01\x02\x03\x04", 7);
}

static void a_pun_may_reach_no_program(void **state)
{
	const struct patch_group g = { .start = BASE,
				       .len = 1,
				       .tail = 4,
				       .moved = 1,
				       .pun_low = (uint64_t)-0x1000,
				       .pun_high = (uint64_t)-0x1000 };
	uint64_t low, high;

	assert_false(patch_group_reach(&g, 0, &low, &high));
	assert_true(patch_group_reach(&g, BIAS, &low, &high));
}

/* The C library */

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"

static void open_module(const char *path, const struct free_space *room, struct patch_modules *ret)
{
	scoped(module_deinit) struct module m = { 0 };
	struct patch_module p;

	assert_null(patch_module_of_file(path, &m));
	m.bias = room ? BIAS : 0;
	assert_null(patch_module_open(&m, NULL, &p));
	p.room = room;
	assert_true(vec_push(ret->v, ret->n, ret->cap, p));
}

/* Keeps all sites in *@ret. */
static void plan_libc(const char *pattern, const struct free_space *room, struct module_plan *ret)
{
	scoped(patch_modules_deinit) struct patch_modules modules = { 0 };
	scoped(patch_query_deinit) struct patch_query q = { 0 };
	scoped(patch_plan_freep) struct patch_plan *plan = NULL;
	const struct patch_site *site;
	struct pattern one;

	open_module(LIBC, room, &modules);
	assert_null(pattern_parse(pattern, &one));
	assert_true(vec_push(q.pattern, q.npatterns, q.pattern_cap, one));
	assert_null(patch_plan_make(&q, &modules, false, &plan));
	for (assert_null(patch_plan_next(plan, &site)); site; assert_null(patch_plan_next(plan, &site)))
		assert_true(module_plan_keep(ret, site));
}

/* What is written, and what of the program stays behind it, is one jump to the trampoline. */
static void check_pun(const struct patch_group *g, const struct patch_site *site)
{
	struct patch_write w[2];
	struct insn_brief i;
	uint8_t bytes[PATCH_SITE_BYTES];
	uint64_t low, high, at;
	unsigned int n;

	assert_true(patch_group_reach(g, BIAS, &low, &high));
	for (at = low;; at = high) {
		assert_true(patch_group_write(g, BIAS, at, w, &n));
		memcpy(bytes, site->bytes, sizeof(bytes));
		memcpy(bytes, w[0].bytes, w[0].len);
		assert_memory_equal(bytes, w[0].bytes, w[0].len + w[0].tail);
		assert_true(insn_scan(bytes, sizeof(bytes), w[0].addr, &i));
		assert_int_equal(i.flow, INSN_JUMP);
		assert_int_equal(i.len, w[0].len + w[0].tail);
		assert_int_equal(i.target, at);
		if (at == high)
			break;
	}
}

/* Nothing is written where another one's jump ends. */
static void check_order(const struct patch_groups *g)
{
	for (size_t i = 1; i < g->n; i++)
		assert_true(g->v[i].start > g->v[i - 1].start);
	for (size_t i = 0; i < g->n; i++)
		for (size_t k = i + 1; k < g->n && g->v[k].start < g->v[i].start + 16; k++) {
			assert_true(g->v[k].start >= g->v[i].start + g->v[i].len + g->v[i].tail);
			assert_true(g->v[k].start >= g->v[i].start + g->v[i].moved);
		}
	for (size_t i = 0; i < g->n; i++) {
		size_t behind = 0, end = g->n;

		if (!g->v[i].via)
			continue;
		/* As they are in order and apart, only the last one that begins before can reach into it. */
		while (behind < end) {
			size_t half = behind + (end - behind) / 2;

			if (g->v[half].start >= g->v[i].via + 5)
				end = half;
			else
				behind = half + 1;
		}
		if (behind)
			assert_true(g->v[behind - 1].start + g->v[behind - 1].len + g->v[behind - 1].tail <=
				    g->v[i].via);
	}
}

static size_t check_all(const char *pattern, const struct free_space *room)
{
	struct patch_groups groups = { 0 };
	struct module_plan plan = { 0 };
	size_t puns = 0;

	plan_libc(pattern, room, &plan);
	assert_true(patch_groups_make(plan.site, plan.n, &groups));
	for (size_t i = 0; i < groups.n; i++)
		if (groups.v[i].tail) {
			check_pun(&groups.v[i], &plan.site[groups.v[i].first_site]);
			puns++;
		}
	check_order(&groups);
	patch_groups_deinit(&groups);
	module_plan_deinit(&plan);
	return puns;
}

static void puns_of_libc_lead_where_they_should(void **state)
{
	static const char *const patterns[] = { "@ret",	     "@branch", "mov *, *",
						"test *, *", "pop *",	"cmp *, *" };

	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		assert_true(check_all(patterns[i], NULL) > 10);
	assert_int_equal(check_all("*", NULL), 0);
}

static void what_is_free_decides_in_a_process(void **state)
{
	struct free_span all = { BIAS - 0x80000000u, BIAS + 0x90000000u };
	const struct free_space everywhere = { .v = &all, .n = 1 };
	const struct free_space nowhere = { .v = &all };

	assert_true(check_all("@ret", &everywhere) > 100);
	assert_int_equal(check_all("@ret", &nowhere), 0);
}

/* Return points */

/* An instruction that ends at @addr. False: there is none. */
static bool insn_before(const struct code_map *m, uint64_t addr, uint64_t *start, struct insn_brief *ret)
{
	for (uint64_t at = addr - 1; addr - at <= 15; at--)
		if (code_map_marks(m, at) & MARK_START && code_map_insn(m, at, ret) &&
		    at + ret->len == addr) {
			*start = at;
			return true;
		}
	return false;
}

/* Where a thread that is in a call, a jmp_buf or a suspended coroutine may come back to. */
static bool is_behind_call(const struct code_map *m, uint64_t addr)
{
	struct insn_brief i;
	uint64_t at;

	return insn_before(m, addr, &at, &i) && i.flow == INSN_CALL;
}

/* Execution comes to @addr, if to anything, from the instructions in front of it, past those that do nothing. */
static bool is_fallen_to(const struct code_map *m, uint64_t addr)
{
	struct insn_brief i;

	while (insn_before(m, addr, &addr, &i))
		if (!i.is_nop && !i.is_int3)
			return i.flow != INSN_JUMP && i.flow != INSN_RET && i.flow != INSN_STOP;
	return false;
}

static void check_returns(const struct patch_site *s)
{
	const struct tactic_choice *c = &s->choice;
	const uint64_t end = c->start + (c->len > c->moved ? c->len : c->moved);

	for (uint64_t at = c->start + 1; at < end; at++)
		assert_false(is_behind_call(&s->module->map, at));
	/* Nothing comes to the way station but the jump to it. */
	assert_false(c->via && is_fallen_to(&s->module->map, c->via));
}

/* How many calls are the last instruction of what moves. */
static size_t check_returns_in(const char *path, const char *pattern)
{
	scoped(patch_modules_deinit) struct patch_modules modules = { 0 };
	scoped(patch_query_deinit) struct patch_query q = { 0 };
	scoped(patch_plan_freep) struct patch_plan *plan = NULL;
	const struct patch_site *s;
	struct pattern one;
	size_t calls = 0;

	open_module(path, NULL, &modules);
	assert_null(pattern_parse(pattern, &one));
	assert_true(vec_push(q.pattern, q.npatterns, q.pattern_cap, one));
	assert_null(patch_plan_make(&q, &modules, false, &plan));
	for (assert_null(patch_plan_next(plan, &s)); s; assert_null(patch_plan_next(plan, &s))) {
		if (!s->choice.len)
			continue;
		check_returns(s);
		calls += is_behind_call(&s->module->map, s->choice.start + s->choice.moved);
	}
	return calls;
}

static void nothing_returns_to_the_middle_of_a_patch(void **state)
{
	static const char *const patterns[] = { "*",	   "entry *", "@call",	 "@ret",
						"@branch", "push *",  "mov *, *" };

	size_t calls = 0;

	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		calls += check_returns_in(LIBC, patterns[i]);
		check_returns_in("/proc/self/exe", patterns[i]);
	}
	assert_true(calls > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sites_of_one_jump_are_a_group),
		cmocka_unit_test(a_pun_has_the_bytes_behind_it_at_its_end),
		cmocka_unit_test(prefixes_shift_a_pun),
		cmocka_unit_test(a_pun_may_reach_no_program),
		cmocka_unit_test(puns_of_libc_lead_where_they_should),
		cmocka_unit_test(what_is_free_decides_in_a_process),
		cmocka_unit_test(nothing_returns_to_the_middle_of_a_patch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
