/* A victim whose variables are looked for: what the tests of locate share. */
#ifndef TESTS_UNIT_LOC_BENCH_H
#define TESTS_UNIT_LOC_BENCH_H

#include "tests/unit/loc_victim.h"

#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/lookup/locator.h"

struct bench {
	struct victim v;
	struct module_list modules;
	struct memory_view mem;
	struct locator *l;
};

static inline void bench_start(struct bench *b, const char *name)
{
	struct wc_error *err;

	memset(b, 0, sizeof(*b));
	victim_start(&b->v, name);
	err = module_list_read(b->v.pid, &b->modules);
	assert_null(err);
	b->mem = (struct memory_view){ victim_read, &b->v };
	b->l = locator_new();
	assert_non_null(b->l);
}

static inline void bench_stop(struct bench *b)
{
	locator_free(b->l);
	module_list_deinit(&b->modules);
	victim_stop(&b->v);
}

static inline struct variable find(struct bench *b, const char *expr)
{
	struct variable v = { 0 };
	struct wc_error *err = locate(b->l, expr, &b->modules, &b->mem, &v, NULL);

	if (err)
		fail_msg("%s: %s", expr, err->text);
	return v;
}

/* @err must hold each of the @parts, '|' between them. Takes it. */
static inline void expect_text(const char *expr, struct wc_error *err, enum wc_kind kind, const char *parts)
{
	char copy[512], *save = NULL;

	if (!err)
		fail_msg("%s was found", expr);
	if (err->kind != kind)
		fail_msg("%s: kind %d: %s", expr, err->kind, err->text);
	snprintf(copy, sizeof(copy), "%s", parts);
	for (char *part = strtok_r(copy, "|", &save); part; part = strtok_r(NULL, "|", &save))
		if (!strstr(err->text, part))
			fail_msg("%s: no \"%s\" in: %s", expr, part, err->text);
	wc_error_free(err);
}

static inline void expect_refusal(struct bench *b, const char *expr, enum wc_kind kind, const char *parts)
{
	struct variable v = { 0 };

	expect_text(expr, locate(b->l, expr, &b->modules, &b->mem, &v, NULL), kind, parts);
	assert_null(v.name);
}

/* The type's name, and its value at this moment. */
static inline void expect_shown(struct bench *b, const char *expr, const char *type, const char *value)
{
	struct variable v = find(b, expr);
	uint64_t raw = 0;
	char text[64];

	assert_true(v.size <= 8);
	assert_true(memory_read(&b->mem, v.addr, &raw, v.size));
	value_format(&v.type, (unsigned int)v.size, raw, NULL, text, sizeof(text));
	assert_string_equal(text, value);
	assert_string_equal(v.type.name, type);
	variable_deinit(&v);
}

/* Everything that the victim shows is found where it says. */
static inline void check_all_shown(struct bench *b)
{
	for (size_t i = 0; i < b->v.n; i++) {
		const struct shown *s = &b->v.shown[i];
		struct variable v = find(b, s->expr);

		if (v.addr != s->addr || v.size != s->size)
			fail_msg("%s: found %#lx size %lu, is %#lx size %lu", s->expr, v.addr, v.size,
				 s->addr, s->size);
		variable_deinit(&v);
	}
}

static inline void check_program(const char *command)
{
	struct bench b;

	victim_build(command);
	bench_start(&b, "loc_c");
	check_all_shown(&b);
	bench_stop(&b);
}

#endif
