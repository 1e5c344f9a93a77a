/* Options find what they set: by a table, and by tables in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The library that unit tests are linked with has no commands. */
#include "watchctl/cli/options/options.c"
#include "watchctl/base/words/similar.c"

struct part {
	bool all;
	const char *name;
	int slot;
};

struct request {
	uint64_t count;
	uint32_t depth;
	bool json;
	struct part part[2];
	unsigned int nparts, colour;
	const char *word[4];
	size_t nwords;
};

static struct wc_error *add_part(const struct option_match *m, void *to)
{
	struct request *q = to;

	q->part[q->nparts++].name = m->value;
	return NULL;
}

static struct wc_error *find_part(const struct option_match *m, void **to)
{
	struct request *q = *to;

	if (!q->nparts)
		return wc_error_new(WC_EUSAGE, "%s of which part?", m->option->name);
	*to = &q->part[q->nparts - 1];
	return NULL;
}

static const struct option of_part[] = {
	{ "--all", "-a", NULL, "all of it", 0, NULL, OPTION_FLAG(struct part, all) },
	{ "-i", NULL, "0..3", "its slot", 0, NULL, OPTION_NUMBER(struct part, slot, 0, 3) },
	{ 0 },
};

static const struct option of_second[] = {
	{ "--second", NULL, "NAME", "of the second part", 0, NULL, OPTION_TEXT(struct part, name) },
	{ 0 },
};

static const struct option options[] = {
	{ "-n", "--count", "N", "a number", 0, NULL, OPTION_NUMBER(struct request, count, 1, UINT64_MAX) },
	{ "--part", NULL, "NAME", "a part", 0, NULL, .set = add_part },
	{ .more = of_part, .find = find_part },
	OPTIONS_IN(struct request, part[1], of_second),
	{ "--depth", NULL, "N", "another number", 0, NULL, OPTION_NUMBER(struct request, depth, 1, 9) },
	{ "--json", NULL, NULL, "a flag", 0, NULL, OPTION_FLAG(struct request, json) },
	{ "--color", NULL, "WHEN", "a choice", COMPLETE_WORDS, "auto always never",
	  OPTION_CHOICE(struct request, colour) },
	{ 0 },
};

static struct wc_error *take_word(void *request, const char *word)
{
	struct request *q = request;

	q->word[q->nwords++] = word;
	return NULL;
}

#define WORDS(...) ((char *[]){ "command", __VA_ARGS__, NULL })
#define COUNT(...) ((int)(sizeof((char *[]){ "command", __VA_ARGS__ }) / sizeof(char *)))
#define PARSE(q, ...) option_parse(COUNT(__VA_ARGS__), WORDS(__VA_ARGS__), options, q, take_word)

static void refused(struct wc_error *err, const char *why)
{
	assert_non_null(err);
	assert_int_equal(err->kind, WC_EUSAGE);
	assert_string_equal(err->text, why);
	wc_error_free(err);
}

static void a_walk_has_the_options_of_all_tables_in_order(void **state)
{
	static const char *const names[] = { "-n",	 "--part",  "--all",  "-i",
					     "--second", "--depth", "--json", "--color" };
	struct option_walk w = { .row = { options } }, none = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_string_equal(option_walk_next(&w)->name, names[i]);
	assert_null(option_walk_next(&w));
	assert_null(option_walk_next(&w));
	assert_null(option_walk_next(&none));
}

static void each_option_sets_its_member(void **state)
{
	struct request q = { 0 };

	(void)state;
	assert_null(PARSE(&q, "-n5", "one", "--part", "a", "-a", "-i", "3", "--second=b", "--depth", "9",
			  "--json", "--color=never", "--", "--two"));
	assert_int_equal(q.count, 5);
	assert_string_equal(q.part[0].name, "a");
	assert_true(q.part[0].all);
	assert_int_equal(q.part[0].slot, 3);
	assert_string_equal(q.part[1].name, "b");
	assert_false(q.part[1].all);
	assert_int_equal(q.depth, 9);
	assert_true(q.json);
	assert_int_equal(q.colour, 2);
	assert_int_equal(q.nwords, 2);
	assert_string_equal(q.word[0], "one");
	assert_string_equal(q.word[1], "--two");
}

static void what_is_no_value_is_refused_and_sets_nothing(void **state)
{
	struct request q = { .depth = 7, .colour = 1 };

	(void)state;
	refused(PARSE(&q, "--depth", "10"), "option --depth wants a number from 1 to 9, not \"10\"");
	refused(PARSE(&q, "--color", "blue"),
		"option --color wants one of \"auto always never\", not \"blue\"");
	refused(PARSE(&q, "--json=1"), "option --json takes no argument");
	refused(PARSE(&q, "-n"), "option -n needs an argument: N");
	assert_int_equal(q.depth, 7);
	assert_int_equal(q.colour, 1);
	assert_false(q.json);
}

static void a_table_can_refuse_its_options(void **state)
{
	struct request q = { 0 };

	(void)state;
	refused(PARSE(&q, "--all", "--part", "a"), "--all of which part?");
	assert_false(q.part[0].all);
}

static void a_program_follows_two_dashes(void **state)
{
	char *const *program = NULL;
	struct request q = { 0 };

	(void)state;
	assert_null(option_parse_launch(2, WORDS("--json"), options, &q, take_word, &program));
	assert_null(program);
	assert_null(option_parse_launch(4, WORDS("--", "ls", "-n"), options, &q, take_word, &program));
	assert_string_equal(program[0], "ls");
	assert_string_equal(program[1], "-n");
	assert_null(program[2]);
	refused(option_parse_launch(2, WORDS("--"), options, &q, take_word, &program),
		"the program to start is missing after --");
}

static void a_command_without_words_refuses_dashes_too(void **state)
{
	struct request q = { 0 };

	(void)state;
	assert_null(option_parse_alone(2, WORDS("--json"), options, &q, "options only"));
	assert_true(q.json);
	refused(option_parse_alone(2, WORDS("--"), options, &q, "options only"), "options only");
	refused(option_parse_alone(2, WORDS("word"), options, &q, "options only"), "options only");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_walk_has_the_options_of_all_tables_in_order),
		cmocka_unit_test(each_option_sets_its_member),
		cmocka_unit_test(what_is_no_value_is_refused_and_sets_nothing),
		cmocka_unit_test(a_table_can_refuse_its_options),
		cmocka_unit_test(a_program_follows_two_dashes),
		cmocka_unit_test(a_command_without_words_refuses_dashes_too),
	};

	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
