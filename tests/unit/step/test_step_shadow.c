/* Finds what has changed in memory since the last look, and what parameters pointed to: on memory of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/step/model/step_pointees.h"
#include "watchctl/step/model/step_shadow.h"
#include "watchctl/trace/call_values.h"

static uint8_t memory[4096];
static bool unreadable;

static uint64_t at(size_t offset)
{
	return (uintptr_t)memory + offset;
}

static bool read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	(void)ctx;
	if (unreadable || addr < at(0) || addr + len > at(sizeof(memory)))
		return false;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return true;
}

static bool read_large(void *ctx, uint64_t addr, void *buf, size_t len)
{
	(void)ctx;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	return true;
}

static const struct memory_view view = { .read = read_memory };

struct seen {
	size_t n;
	struct {
		uint64_t address;
		uint32_t len;
		uint64_t first, end; /* bytes that have changed */
	} v[16];
};

static void note(void *ctx, const struct shadow_change *c)
{
	struct seen *s = ctx;
	size_t first = 0, last = c->len;

	assert_true(s->n < 16);
	assert_memory_equal(c->bytes, (const void *)(uintptr_t)c->address, c->len);
	while (c->bytes[first] == c->before[first])
		first++;
	while (c->bytes[last - 1] == c->before[last - 1])
		last--;
	s->v[s->n].address = c->address;
	s->v[s->n].len = c->len;
	s->v[s->n].first = c->address + first;
	s->v[s->n++].end = c->address + last;
}

static struct seen look(struct step_shadow *s)
{
	struct seen seen = { 0 };

	step_shadow_look(s, &view, note, &seen);
	return seen;
}

/* Two objects beside each other, the second of a size that is no multiple of a word; and one far away. */
static void set(struct step_shadow *s)
{
	const struct stepper_code object[] = { { at(3000), at(3004) },
					       { at(8), at(32) },
					       { at(40), at(53) } };

	memset(memory, 1, sizeof(memory));
	unreadable = false;
	assert_true(step_shadow_set(s, object, 3));
}

static void the_first_look_only_copies(void **state)
{
	struct step_shadow s = { 0 };

	(void)state;
	set(&s);
	assert_int_equal(look(&s).n, 0);
	memory[8] = 2;
	step_shadow_forget(&s);
	assert_int_equal(look(&s).n, 0);
	step_shadow_deinit(&s);
}

static void changes_are_told_once_with_what_lies_around_them(void **state)
{
	struct step_shadow s = { 0 };
	struct seen seen;

	(void)state;
	set(&s);
	look(&s);
	memory[17] = memory[24] = memory[52] = memory[3001] = 9;
	memory[33] = memory[2000] = 9; /* nobody's */
	seen = look(&s);
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.v[0].address, at(8)); /* objects are small: all of them */
	assert_int_equal(seen.v[0].len, 24);
	assert_int_equal(seen.v[0].first, at(17));
	assert_int_equal(seen.v[0].end, at(25));
	assert_int_equal(seen.v[1].address, at(40));
	assert_int_equal(seen.v[1].len, 13);
	assert_int_equal(seen.v[1].first, at(52));
	assert_int_equal(seen.v[2].address, at(3000));
	assert_int_equal(seen.v[2].len, 4);
	assert_int_equal(look(&s).n, 0);
	step_shadow_deinit(&s);
}

/* One large object: two changes that lie close to each other, one far away, and many in a row. */
static void far_changes_are_told_apart_and_many_in_parts(void **state)
{
	static uint8_t large[4 * SHADOW_RUN_MAX];
	const struct stepper_code object = { (uintptr_t)large, (uintptr_t)large + sizeof(large) };
	const struct memory_view all = { .read = read_large };
	struct step_shadow s = { 0 };
	struct seen seen = { 0 };

	(void)state;
	assert_true(step_shadow_set(&s, &object, 1));
	step_shadow_look(&s, &all, note, &seen);
	large[1000] = large[1000 + SHADOW_AROUND] = large[3000] = 1;
	step_shadow_look(&s, &all, note, &seen);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.v[0].address, object.start + 1000 - SHADOW_AROUND);
	assert_int_equal(seen.v[0].len, 3 * SHADOW_AROUND + 8);
	assert_int_equal(seen.v[1].first, object.start + 3000);
	assert_int_equal(seen.v[1].len, 2 * SHADOW_AROUND + 8);
	seen.n = 0;
	memset(large, 2, sizeof(large));
	step_shadow_look(&s, &all, note, &seen);
	assert_int_equal(seen.n, 4);
	for (size_t i = 0; i < seen.n; i++)
		assert_true(seen.v[i].len <= SHADOW_RUN_MAX + 2 * SHADOW_AROUND);
	assert_int_equal(seen.v[3].end, object.end);
	step_shadow_deinit(&s);
}

static void what_cannot_be_read_has_not_changed(void **state)
{
	struct step_shadow s = { 0 };

	(void)state;
	set(&s);
	look(&s);
	unreadable = true;
	memory[8] = 7;
	assert_int_equal(look(&s).n, 0);
	unreadable = false;
	assert_int_equal(look(&s).n, 0); /* since when, is not known */
	memory[8] = 8;
	assert_int_equal(look(&s).n, 1);
	step_shadow_deinit(&s);
}

/* Pointees */

struct told {
	size_t n;
	uint8_t fetch, state;
	uint32_t len;
	uint8_t bytes[64], changed[16];
};

static void tell(void *ctx, const struct changed_pointee *c)
{
	struct told *t = ctx;

	t->n++;
	t->fetch = c->fetch;
	t->state = c->state;
	t->len = c->len;
	memcpy(t->bytes, c->bytes, c->len);
	memcpy(t->changed, c->changed, RETURN_CHANGED_BYTES(c->len));
}

static const struct fetch_source source = { .memory = { .read = read_memory } };

/* A pointer in rdi to memory of 8 bytes, or to a string of up to 16 characters. */
static void enter(struct step_pointees *p, uint64_t call, uint64_t pointer, bool is_string)
{
	const struct fetch_list l = { .n = 2,
				      .v = { { .op = FETCH_GPR, .reg = WREG_RDI, .len = 8 },
					     { .op = is_string ? FETCH_STRING : FETCH_MEMORY,
					       .base = 0,
					       .again = true,
					       .len = is_string ? 16 : 8 } } };
	struct regs regs = { 0 };
	struct fetch_source s = source;
	struct fetched f;

	regs.r[WREG_RDI] = pointer;
	s.regs = &regs;
	fetch_run(&l, &s, &f);
	assert_true(step_pointees_keep(p, call, &l, &f, &view));
}

static void a_call_that_changes_nothing_says_nothing(void **state)
{
	struct step_pointees p = { 0 };
	struct told told = { 0 };

	(void)state;
	memset(memory, 1, sizeof(memory));
	unreadable = false;
	enter(&p, 7, at(64), false);
	step_pointees_end(&p, 7, &source, tell, &told);
	assert_int_equal(told.n, 0);
	assert_int_equal(p.n, 0);
	step_pointees_deinit(&p);
}

static void bytes_that_changed_are_marked(void **state)
{
	struct step_pointees p = { 0 };
	struct told told = { 0 };

	(void)state;
	memset(memory, 1, sizeof(memory));
	enter(&p, 7, at(64), false);
	enter(&p, 8, at(128), false);
	memory[66] = 5;
	step_pointees_end(&p, 9, &source, tell, &told); /* has none */
	step_pointees_end(&p, 7, &source, tell, &told);
	assert_int_equal(told.n, 1);
	assert_int_equal(told.fetch, 1);
	assert_int_equal(told.len, 8);
	assert_int_equal(told.changed[0], 1u << 2);
	assert_int_equal(p.n, 1);
	step_pointees_deinit(&p);
}

/* "ab" becomes "abc": what lies behind it was "\0xQ": the Q was there before. */
static void behind_the_end_of_a_string_only_what_was_written_counts(void **state)
{
	struct step_pointees p = { 0 };
	struct told told = { 0 };

	(void)state;
	memset(memory, 1, sizeof(memory));
	memcpy(memory + 64, "ab\0xQ\0", 6);
	enter(&p, 7, at(64), true);
	memory[66] = 'c';
	step_pointees_end(&p, 7, &source, tell, &told);
	assert_int_equal(told.n, 1);
	assert_int_equal(told.state, VALUE_OK);
	assert_int_equal(told.len, 5);
	assert_memory_equal(told.bytes, "abcxQ", 5);
	assert_int_equal(told.changed[0], 1u << 2);
	step_pointees_deinit(&p);
}

static void memory_that_was_given_back_is_forgotten(void **state)
{
	struct step_pointees p = { 0 };
	struct told told = { 0 };

	(void)state;
	memset(memory, 1, sizeof(memory));
	enter(&p, 7, at(64), false);
	step_pointees_drop(&p, at(64));
	memory[64] = 9;
	step_pointees_end(&p, 7, &source, tell, &told);
	assert_int_equal(told.n, 0);
	assert_true(step_pointees_frees("free") &&
		    step_pointees_frees("operator delete(void*, unsigned long)"));
	assert_true(step_pointees_frees("fclose"));
	assert_false(step_pointees_frees("free_list") || step_pointees_frees("freopen"));
	step_pointees_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_look_only_copies),
		cmocka_unit_test(changes_are_told_once_with_what_lies_around_them),
		cmocka_unit_test(far_changes_are_told_apart_and_many_in_parts),
		cmocka_unit_test(what_cannot_be_read_has_not_changed),
		cmocka_unit_test(a_call_that_changes_nothing_says_nothing),
		cmocka_unit_test(bytes_that_changed_are_marked),
		cmocka_unit_test(behind_the_end_of_a_string_only_what_was_written_counts),
		cmocka_unit_test(memory_that_was_given_back_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
