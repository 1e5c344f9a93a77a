/* Changed bytes of a variable become members of its type, which is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/step/model/step_members.h"

#define OK(call) assert_null(call)

enum { EMPTY, NAMELESS, INT, CHAR, TEXT, LONG_TEXT, UNION, BYTES, STRUCT, TABLE, CLASS, CYCLE, MODE, COUNT };

/* struct { char c; int n; union u; unsigned low : 3; signed high : 5; char text[16]; } */
static const struct type_member members[] = {
	{ .name = "c", .type = CHAR },
	{ .name = "n", .type = INT, .offset = 4 },
	{ .name = "u", .type = UNION, .offset = 8 },
	{ .name = "low", .type = MODE, .offset = 12, .bit_size = 3 },
	{ .name = "high", .type = INT, .offset = 12, .bit_offset = 3, .bit_size = 5 },
	{ .name = "text", .type = TEXT, .offset = 16 },
};

static const struct type_member of_class[] = { { .name = "", .type = EMPTY },
					       { .name = "", .type = INT, .offset = 8 } };
static const struct type_member of_nameless[] = { { .name = "first", .type = INT },
						  { .name = "", .type = UNION, .offset = 4 } };
static const struct type_member of_cycle[] = { { .name = "again", .type = CYCLE } };

static const struct type_event types[COUNT] = {
	[EMPTY] = { .kind = TYPE_STRUCT, .size = 1 },
	[NAMELESS] = { .kind = TYPE_STRUCT, .size = 8, .nmembers = 2, .member = of_nameless },
	[INT] = { .kind = TYPE_SIGNED, .size = 4 },
	[CHAR] = { .kind = TYPE_CHAR, .size = 1 },
	[TEXT] = { .kind = TYPE_ARRAY, .size = 16, .target = CHAR },
	[LONG_TEXT] = { .kind = TYPE_ARRAY, .size = 512, .target = CHAR },
	[UNION] = { .kind = TYPE_UNION, .size = 4 },
	[BYTES] = { .kind = TYPE_UNKNOWN, .size = 0 },
	[STRUCT] = { .kind = TYPE_STRUCT, .size = 32, .nmembers = 6, .member = members },
	[TABLE] = { .kind = TYPE_ARRAY, .size = 96, .target = STRUCT },
	[CLASS] = { .kind = TYPE_STRUCT, .size = 16, .nmembers = 2, .member = of_class },
	[CYCLE] = { .kind = TYPE_STRUCT, .size = 8, .nmembers = 1, .member = of_cycle },
	[MODE] = { .kind = TYPE_ENUM, .size = 4 },
};

static const struct type_event *type(struct planner *p, uint32_t id)
{
	(void)p;
	return id < COUNT ? &types[id] : NULL;
}

static unsigned int lookups;
static uint32_t of_variable;

static struct wc_error *variable(struct planner *p, uint64_t module, uint64_t address, const char *name,
				 uint32_t *ret)
{
	(void)p;
	(void)name;
	assert_int_equal(module, 0x1000);
	assert_int_equal(address, 0x2000);
	lookups++;
	*ret = of_variable;
	return NULL;
}

static const struct planner_ops ops = { .name = "script", .type = type, .variable = variable };

struct scene {
	struct step_members m;
	struct step_global of;
	uint8_t bytes[512], changed[512];
	char text[512]; /* "table[2].n 6; ..." */
};

static struct scene *scene(uint32_t variable_type, uint32_t size)
{
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->m.ops = &ops;
	s->of = (struct step_global){ 0x2000, 0x2000 + size, 0x1000, "v" };
	of_variable = variable_type;
	lookups = 0;
	return s;
}

static void scene_free(struct scene *s)
{
	step_members_deinit(&s->m);
	free(s);
}

static void write_at(struct scene *s, size_t at, const void *bytes, size_t n)
{
	memcpy(s->bytes + at, bytes, n);
	memset(s->changed + at, 0xff, n);
}

static struct wc_error *say(void *ctx, const struct changed_member *c)
{
	struct scene *s = ctx;
	int64_t v = 0;
	size_t n = strlen(s->text);

	if (c->type == TEXT) {
		snprintf(s->text + n, sizeof(s->text) - n, "%s \"%.16s\"; ", c->path, (const char *)c->bytes);
		return NULL;
	}
	assert_true(c->len <= sizeof(v));
	memcpy(&v, c->bytes, c->len);
	if (c->type == NO_TYPE)
		snprintf(s->text + n, sizeof(s->text) - n, "%s+%u:%u 0x%llx; ", c->path, c->offset, c->len,
			 (unsigned long long)v);
	else
		snprintf(s->text + n, sizeof(s->text) - n, "%s %d; ", c->path, (int)v);
	return NULL;
}

/* Of the bytes [from, end) of the variable. */
static void check(struct scene *s, uint32_t from, uint32_t end, const char *expected)
{
	const struct members_run r = { .of = &s->of,
				       .offset = from,
				       .len = end - from,
				       .bytes = s->bytes + from,
				       .changed = s->changed + from };

	s->text[0] = '\0';
	OK(step_members_split(&s->m, &r, say, s));
	assert_string_equal(s->text, expected);
}

static void members_of_elements_have_paths(void **state)
{
	struct scene *s = scene(TABLE, 96);

	(void)state;
	write_at(s, 64 + 4, &(int){ 6 }, 4);
	write_at(s, 32, "a", 1);
	check(s, 0, 96, "v[1].c 97; v[2].n 6; ");
	check(s, 64, 72, "v[2].n 6; "); /* nothing else is known */
	scene_free(s);
}

static void a_variable_is_looked_up_once(void **state)
{
	struct scene *s = scene(INT, 4);

	(void)state;
	write_at(s, 0, &(int){ -2 }, 4);
	check(s, 0, 4, "v -2; ");
	check(s, 0, 4, "v -2; ");
	assert_int_equal(lookups, 1);
	scene_free(s);
}

static void padding_is_no_change(void **state)
{
	struct scene *s = scene(STRUCT, 32);

	(void)state;
	write_at(s, 1, "xyz", 3);
	write_at(s, 13, "xyz", 3); /* behind the bit fields */
	check(s, 0, 32, "");
	scene_free(s);
}

static void a_bit_field_is_its_bits(void **state)
{
	struct scene *s = scene(STRUCT, 32);

	(void)state;
	s->bytes[12] = 0xed; /* 5, and -3 */
	s->changed[12] = 0x08;
	check(s, 0, 32, "v.high -3; ");
	s->changed[12] = 0x01;
	check(s, 0, 32, "v.low 5; ");
	check(s, 8, 16, "v.low 5; ");
	scene_free(s);
}

static void of_a_union_words_are_told(void **state)
{
	struct scene *s = scene(STRUCT, 32);

	(void)state;
	write_at(s, 8, &(int){ 7 }, 4);
	check(s, 0, 32, "v.u+0:4 0x7; ");
	scene_free(s);
}

/* By the offset in what has a name. */
static void a_nameless_union_is_words_of_its_struct(void **state)
{
	struct scene *s = scene(NAMELESS, 8);

	(void)state;
	write_at(s, 4, &(int){ 7 }, 4);
	check(s, 0, 8, "v+4:4 0x7; ");
	scene_free(s);
}

static void an_empty_class_has_nothing(void **state)
{
	struct scene *s = scene(EMPTY, 1);

	(void)state;
	write_at(s, 0, "x", 1);
	check(s, 0, 1, "");
	scene_free(s);
}

static void a_text_is_whole_or_words(void **state)
{
	struct scene *s = scene(STRUCT, 32);

	(void)state;
	memcpy(s->bytes + 16, "a longer one", 12);
	write_at(s, 26, "X", 1);
	check(s, 0, 32, "v.text \"a longer oXe\"; ");
	check(s, 24, 32, "v.text+8:8 0x65586f20; "); /* its beginning is not known: " oXe" */
	scene_free(s);
}

static void a_long_text_is_words(void **state)
{
	struct scene *s = scene(LONG_TEXT, 512);

	(void)state;
	write_at(s, 301, "A", 1);
	check(s, 256, 512, "v+296:8 0x410000000000; ");
	scene_free(s);
}

static void hidden_words_of_a_class_are_told(void **state)
{
	struct scene *s = scene(CLASS, 16);

	(void)state;
	write_at(s, 0, &(uint64_t){ 0x55 }, 8);
	write_at(s, 8, &(int){ 3 }, 4);
	check(s, 0, 16, "v 3; v+0:8 0x55; ");
	scene_free(s);
}

static void without_a_type_words_are_told(void **state)
{
	struct scene *s = scene(NO_TYPE, 20);

	(void)state;
	write_at(s, 0, &(int){ 7 }, 4);
	write_at(s, 16, &(int){ 8 }, 4);
	check(s, 0, 20, "v+0:8 0x7; v+16:4 0x8; ");
	assert_int_equal(lookups, 1);
	scene_free(s);
}

/* The linker may have kept a larger definition, or one that is smaller than the type. */
static void sizes_that_do_not_fit_are_words(void **state)
{
	struct scene *s = scene(INT, 8);

	(void)state;
	write_at(s, 0, &(uint64_t){ 0x700000006 }, 8);
	check(s, 0, 8, "v 6; v+4:4 0x7; ");
	scene_free(s);
	s = scene(STRUCT, 8);
	write_at(s, 0, &(uint64_t){ 0x700000006 }, 8);
	check(s, 0, 8, "v+0:8 0x700000006; ");
	scene_free(s);
}

static void a_type_that_holds_itself_ends(void **state)
{
	struct scene *s = scene(CYCLE, 8);

	(void)state;
	write_at(s, 0, &(uint64_t){ 9 }, 8);
	s->text[0] = '\0';
	OK(step_members_split(
		&s->m,
		&(struct members_run){ .of = &s->of, .len = 8, .bytes = s->bytes, .changed = s->changed },
		say, s));
	assert_non_null(strstr(s->text, ".again.again"));
	assert_non_null(strstr(s->text, " 0x9; "));
	scene_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_of_elements_have_paths),
		cmocka_unit_test(a_variable_is_looked_up_once),
		cmocka_unit_test(padding_is_no_change),
		cmocka_unit_test(a_bit_field_is_its_bits),
		cmocka_unit_test(of_a_union_words_are_told),
		cmocka_unit_test(a_nameless_union_is_words_of_its_struct),
		cmocka_unit_test(an_empty_class_has_nothing),
		cmocka_unit_test(a_text_is_whole_or_words),
		cmocka_unit_test(a_long_text_is_words),
		cmocka_unit_test(hidden_words_of_a_class_are_told),
		cmocka_unit_test(without_a_type_words_are_told),
		cmocka_unit_test(sizes_that_do_not_fit_are_words),
		cmocka_unit_test(a_type_that_holds_itself_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
