/* Triggers: each condition against accesses that are made up here, with what a reader of the condition
 * expects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/view/trigger/trigger.h"

static const char *const names[] = { "flag", "server.limit", "head->next->len", "ratio", "state", "*p" };

static struct enumerator colours[] = { { (char *)"IDLE", 0 }, { (char *)"BUSY", 7 } };

static struct view_watch watches[] = {
	{ .e = { .id = 0, .name = "flag", .size = 4, .type = { .kind = VALUE_SIGNED }, .has_value = true } },
	{ .e = { .id = 1, .name = "server.limit", .size = 8, .type = { .kind = VALUE_UNSIGNED } } },
	{ .e = { .id = 2, .name = "head->next->len", .size = 4, .type = { .kind = VALUE_UNSIGNED } } },
	{ .e = { .id = 3, .name = "ratio", .size = 8, .type = { .kind = VALUE_FLOAT } } },
	{ .e = { .id = 4,
		 .name = "state",
		 .size = 4,
		 .type = { .kind = VALUE_ENUM, .enumerators = colours, .nenumerators = 2 } } },
	{ .e = { .id = 5, .name = "*p", .size = 1, .type = { .kind = VALUE_CHAR } } },
};

static const struct view_frame stack[] = { { .function = "set_flag" },
					   { .function = "net::pool::handle_error(int, char const*)" },
					   { .function = "main" } };

struct scene {
	struct trigger *t;
	struct view view;
	unsigned int fired;
};

static void fire(void *ctx, const struct view_access *a)
{
	(void)a;
	((struct scene *)ctx)->fired++;
}

static struct scene begin(const char *text)
{
	struct scene s = { 0 };
	struct wc_error *err = trigger_compile(text, names, 6, &s.t);

	if (err)
		fail_msg("%s", err->text);
	return s;
}

static void look(struct scene *s)
{
	s->view = trigger_view(s->t, fire, s);
	for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++)
		s->view.ops->armed(s->view.ctx, &watches[i], (struct view_time){ 0 });
}

/* A write to watch @i, from @was to @is, by thread 42 ("worker"), out of handle_error. */
static void write_to(struct scene *s, unsigned int i, uint64_t was, uint64_t is)
{
	struct access_event raw = { .watch = i,
				    .tid = 42,
				    .size = watches[i].e.size,
				    .has_old = true,
				    .has_new = true,
				    .old_value = was,
				    .new_value = is };
	struct view_access a = { .raw = &raw,
				 .watch = &watches[i],
				 .comm = "worker",
				 .kind = ACCESS_WRITE,
				 .frame = stack,
				 .nframes = 3,
				 .walk_end = WALK_END_COMPLETE };

	s->view.ops->access(s->view.ctx, &a);
}

static unsigned int fires(const char *text, unsigned int i, uint64_t was, uint64_t is)
{
	struct scene s = begin(text);
	unsigned int n;

	look(&s);
	write_to(&s, i, was, is);
	n = s.fired;
	trigger_free(s.t);
	return n;
}

static uint64_t bits(double d)
{
	uint64_t u;

	memcpy(&u, &d, sizeof(u));
	return u;
}

static void conditions_hold_when_they_do(void **state)
{
	static const struct {
		const char *text;
		unsigned int expect;
	} cases[] = {
		{ "flag == 0", 1 },
		{ "flag==0 && caller handle_error", 1 },
		{ "flag==0 && caller net::pool::handle_error", 1 },
		{ "caller pool::handle_error", 1 },
		{ "caller handle_err*", 1 },
		{ "caller handle_err", 0 },
		{ "caller error", 0 },
		{ "caller main && !caller nobody", 1 },
		{ "flag != 0", 0 },
		{ "flag < 1 && flag > -1", 1 },
		{ "flag", 0 },
		{ "!flag", 1 },
		{ "new == 0 && old == 5", 1 },
		{ "new - 1", 1 },
		{ "new - old == -5", 1 },
		{ "new - old < 0 and not_a_watch == 1", UINT32_MAX },
		{ "old * 2 + 1 == 11 and (old << 1 | 1) == 0xb", 1 },
		{ "old / 2 == 2 && old % 3 == 2 && -old / 2 == -2", 1 },
		{ "old / new == 1 || old % new == 1", 0 }, /* not known */
		{ "!(old / new == 1)", 0 },
		{ "old in 3..5 && new not in 1..9", 1 },
		{ "old in 6..9 or old not in 0..9", 0 },
		{ "old + 0.5 in 5.4..5.6", 1 },
		{ "!!(old == 5)", 1 },
		{ "(new - 5) >> 1 == -3", 1 },
		{ "$rdi == 0 && $eax == 0", 1 },
		{ "18446744073709551615 > 5 && -9223372036854775808 < 0", 1 },
		{ "old > new", 1 },
		{ "old <= new", 0 },
		{ "thread == \"worker\"", 1 },
		{ "thread == 42", 1 },
		{ "42 != thread", 0 },
		{ "\"gc\" == thread", 0 },
		{ "watch == \"flag\"", 1 },
		{ "watch != \"flag\"", 0 },
		{ "write", 1 },
		{ "read || execute || kernel", 0 },
		{ "size == 4", 1 },
		{ "(flag == 1 || flag == 0) && (write)", 1 },
		{ "flag == 1 || flag == 0 && write", 1 },
		{ "flag == 0x0", 1 },
		{ "flag == '\\0'", 1 },
		{ "flag == 0.0", 1 },
		{ "server.limit == 0", 0 }, /* never seen: not known */
		{ "!(server.limit == 0)", 0 },
		{ "server.limit == 0 || flag == 0", 1 },
		{ "{head->next->len} == 0 || {*p} == 0", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct wc_error *err;
		struct trigger *t;
		unsigned int n;

		if (cases[i].expect == UINT32_MAX) {
			err = trigger_compile(cases[i].text, names, 6, &t);
			assert_non_null(err);
			wc_error_free(err);
			continue;
		}
		n = fires(cases[i].text, 0, 5, 0);
		if (n != cases[i].expect)
			fail_msg("%s: fired %u times", cases[i].text, n);
	}
}

static void values_are_those_of_their_types(void **state)
{
	(void)state;
	assert_int_equal(fires("flag == -1", 0, 0, 0xffffffff), 1);
	assert_int_equal(fires("flag < 0", 0, 0, 0x80000000), 1);
	assert_int_equal(fires("server.limit > 9223372036854775807", 1, 0, UINT64_MAX), 1);
	assert_int_equal(fires("server.limit == -1", 1, 0, UINT64_MAX), 0);
	assert_int_equal(fires("ratio > 0.5", 3, 0, bits(0.75)), 1);
	assert_int_equal(fires("ratio > 1", 3, 0, bits(0.75)), 0);
	assert_int_equal(fires("ratio < 1 || ratio > 1 || ratio == 1", 3, 0, bits(0.0 / 0.0)), 0);
	assert_int_equal(fires("ratio != ratio", 3, 0, bits(0.0 / 0.0)), 1);
	assert_int_equal(fires("state == BUSY", 4, 0, 7), 1);
	assert_int_equal(fires("IDLE == state", 4, 7, 0), 1);
	assert_int_equal(fires("new == BUSY", 4, 0, 7), 1);
	assert_int_equal(fires("state in IDLE..BUSY", 4, 0, 7), 1);
	assert_int_equal(fires("new not in IDLE..BUSY", 4, 0, 8), 1);
	assert_int_equal(fires("{*p} == 'a'", 5, 0, 'a'), 1);
	assert_int_equal(fires("{head->next->len} == 3", 2, 0, 3), 1);
	assert_int_equal(fires("head->next->len == 3", 2, 0, 3), 1);
}

static void a_state_fires_once_until_it_has_ended_and_an_access_each_time(void **state)
{
	struct scene s = begin("flag == 0 && server.limit >= 10"), each = begin("new == 0");

	(void)state;
	look(&s);
	write_to(&s, 0, 1, 0);
	assert_int_equal(s.fired, 0); /* the other is not known yet */
	write_to(&s, 1, 0, 10);
	assert_int_equal(s.fired, 1);
	write_to(&s, 1, 10, 11);
	write_to(&s, 0, 0, 0);
	assert_int_equal(s.fired, 1);
	write_to(&s, 0, 0, 1);
	write_to(&s, 0, 1, 0);
	assert_int_equal(s.fired, 2);
	trigger_free(s.t);

	look(&each);
	write_to(&each, 0, 0, 0);
	write_to(&each, 0, 0, 0);
	assert_int_equal(each.fired, 2);
	trigger_free(each.t);
}

static void what_is_not_known_holds_neither_way(void **state)
{
	struct access_event raw = { .watch = 0, .tid = 42, .size = 4 };
	struct view_frame unnamed = { .ip = 0x1234 };
	struct view_access a = { .raw = &raw,
				 .watch = &watches[0],
				 .kind = ACCESS_UNKNOWN,
				 .frame = &unnamed,
				 .nframes = 1,
				 .walk_end = WALK_END_COMPLETE };
	static const char *const texts[] = {
		"write",       "!write",       "flag == 0",	   "flag != 0",
		"caller main", "!caller main", "thread == \"gc\"", "thread != \"gc\""
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct scene s = begin(texts[i]);

		s.view = trigger_view(s.t, fire, &s);
		s.view.ops->access(s.view.ctx, &a);
		if (s.fired)
			fail_msg("%s fired", texts[i]);
		trigger_free(s.t);
	}
}

static void a_word_that_is_no_enumerator_is_found_out(void **state)
{
	struct scene s = begin("state == BUZY");

	(void)state;
	look(&s);
	assert_null(trigger_unknown_word(s.t));
	write_to(&s, 4, 0, 7);
	assert_int_equal(s.fired, 0);
	assert_string_equal(trigger_unknown_word(s.t), "BUZY");
	trigger_free(s.t);
}

static void what_is_wrong_is_shown_at_its_place(void **state)
{
	static const struct {
		const char *text, *says;
		unsigned int column;
		enum wc_kind kind;
	} cases[] = {
		{ "", "Expected a value", 1, WC_EUSAGE },
		{ "flag = 0", "single =", 6, WC_EUSAGE },
		{ "flag ==", "Expected a value", 8, WC_EUSAGE },
		{ "flag == 0 &&", "Expected a value", 13, WC_EUSAGE },
		{ "(flag == 0", "Expected )", 11, WC_EUSAGE },
		{ "flag == 0)", "Expected the end", 10, WC_EUSAGE },
		{ "flagg == 0", "\"flagg\" is ", 1, WC_ENAME },
		{ "flagg", "\"flagg\" is ", 1, WC_ENAME },
		{ "{flagg} == 0", "no watch of that name", 2, WC_ENAME },
		{ "{flag == 0", "has no end", 1, WC_EUSAGE },
		{ "thread == \"gc", "has no end", 11, WC_EUSAGE },
		{ "thread < \"gc\"", "only be compared by ==", 8, WC_EUSAGE },
		{ "flag == \"x\"", "only be compared with thread", 6, WC_EUSAGE },
		{ "caller", "name of a function", 7, WC_EUSAGE },
		{ "flag == 99999999999999999999", "larger than 64 bits", 9, WC_EUSAGE },
		{ "flag == 12ab", "to end here", 11, WC_EUSAGE },
		{ "flag == 'ab'", "one character", 9, WC_EUSAGE },
		{ "size", "Expected a comparison", 1, WC_EUSAGE },
		{ "(flag == 0) + 1", "Only numbers can be calculated with", 13, WC_EUSAGE },
		{ "$xmm0 == 1", "Unknown register", 1, WC_EUSAGE },
		{ "flag in 3", "Expected ..", 10, WC_EUSAGE },
		{ "flag / 0 == 1", "divided by 0", 6, WC_EUSAGE },
		{ "watch == \"flagg\"", "no watch of that name", 11, WC_ENAME },
		{ "not flag == 1", "what negates a condition is !", 1, WC_EUSAGE },
		{ "!flag == 1", "put it in parentheses", 7, WC_EUSAGE },
		{ "!(flag) in 1..2", "put it in parentheses", 11, WC_EUSAGE },
		{ "!flag & 1", "put it in parentheses", 7, WC_EUSAGE },
		{ "read == 1", "Only values can be compared", 6, WC_EUSAGE },
	};
	char column[40];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct trigger *t = NULL;
		struct wc_error *err = trigger_compile(cases[i].text, names, 6, &t);

		snprintf(column, sizeof(column), "at column %u of", cases[i].column);
		if (!err)
			fail_msg("%s was taken", cases[i].text);
		if (!strstr(err->text, cases[i].says) || !strstr(err->text, column) ||
		    err->kind != cases[i].kind)
			fail_msg("%s: %s", cases[i].text, err->text);
		wc_error_free(err);
	}
}

static void deep_nesting_is_refused_not_followed(void **state)
{
	char text[4096];
	struct trigger *t;
	struct wc_error *err;

	(void)state;
	memset(text, '(', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	err = trigger_compile(text, names, 6, &t);
	assert_non_null(strstr(err->text, "too deeply"));
	wc_error_free(err);
	memset(text, '!', sizeof(text) - 1);
	err = trigger_compile(text, names, 6, &t);
	assert_non_null(strstr(err->text, "too deeply"));
	wc_error_free(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conditions_hold_when_they_do),
		cmocka_unit_test(values_are_those_of_their_types),
		cmocka_unit_test(a_state_fires_once_until_it_has_ended_and_an_access_each_time),
		cmocka_unit_test(what_is_not_known_holds_neither_way),
		cmocka_unit_test(a_word_that_is_no_enumerator_is_found_out),
		cmocka_unit_test(what_is_wrong_is_shown_at_its_place),
		cmocka_unit_test(deep_nesting_is_refused_not_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
