/* Conditions as trees: what belongs together, and where each node stands in the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/base/condition.h"

/* With all parentheses: "(a + (b * c))". */
static void write_node(const struct condition *c, size_t i, FILE *f)
{
	static const char *const ops[] = { "==", "!=", "<=", ">=", "<", ">", "|", "^",
					   "&",	 "<<", ">>", "+",  "-", "*", "/", "%" };
	const struct condition_node *n = &c->v[i];
	const char *op = n->kind == CONDITION_EITHER ? "or" : n->kind == CONDITION_BOTH ? "and" : ops[n->op];

	switch (n->kind) {
	case CONDITION_EITHER:
	case CONDITION_BOTH:
	case CONDITION_COMPARE:
	case CONDITION_CALCULATE:
		fputc('(', f);
		write_node(c, n->a, f);
		fprintf(f, " %s ", op);
		write_node(c, n->b, f);
		fputc(')', f);
		break;
	case CONDITION_IN:
		write_node(c, n->a, f);
		fprintf(f, n->negated ? " not in " : " in ");
		write_node(c, n->b, f);
		fputs("..", f);
		write_node(c, n->c, f);
		break;
	case CONDITION_NOT:
	case CONDITION_MINUS:
		fputs(n->kind == CONDITION_NOT ? "!" : "-", f);
		write_node(c, n->a, f);
		break;
	case CONDITION_INTEGER:
	case CONDITION_CHARACTER:
		fprintf(f, "%lld", (long long)n->integer);
		break;
	case CONDITION_FLOAT:
		fprintf(f, "%g", n->number);
		break;
	case CONDITION_CALLER:
		fputs("caller ", f);
		/* fall through */
	default:
		fputs(n->text, f);
	}
}

static void assert_tree(const char *text, const char *expected, const struct condition_names *names)
{
	struct condition c = { 0 };
	struct wc_error *err = condition_parse(text, "condition", names, &c);
	char got[256];
	FILE *f;

	if (err)
		fail_msg("%s: %s", text, err->text);
	f = fmemopen(got, sizeof(got), "w");
	write_node(&c, c.root, f);
	fclose(f);
	assert_string_equal(got, expected);
	condition_deinit(&c);
}

static void operators_bind_as_in_c_but_for_comparisons(void **state)
{
	assert_tree("a + b * c - d", "((a + (b * c)) - d)", NULL);
	assert_tree("a | b & c == d", "((a | (b & c)) == d)", NULL);
	assert_tree("a << 1 + 2", "(a << (1 + 2))", NULL);
	assert_tree("a / b % c", "((a / b) % c)", NULL);
	assert_tree("x == 1 || y && !z", "((x == 1) or (y and !z))", NULL);
	assert_tree("not_x == -1 or y not in 1..0x10", "((not_x == -1) or y not in 1..16)", NULL);
	assert_tree("(a or b) and c", "((a or b) and c)", NULL);
	assert_tree("a<b", "(a < b)", NULL);
	assert_tree("a>>1>=b", "((a >> 1) >= b)", NULL);
}

static void names_reach_as_far_as_names_do(void **state)
{
	assert_tree("ns::obj.member[3]->next == 1", "(ns::obj.member[3]->next == 1)", NULL);
	assert_tree("{*p + 1} == 'a'", "(*p + 1 == 97)", NULL);
	assert_tree("caller net_* and x", "(caller net_* and x)", NULL);
}

static bool is_caller(void *ctx, const char *start, size_t len)
{
	return len == 6 && !strncmp(start, "caller", len);
}

static void a_name_of_the_users_comes_before_the_word(void **state)
{
	const struct condition_names names = { is_caller, NULL };

	assert_tree("caller main", "caller main", NULL);
	assert_tree("caller == 1", "(caller == 1)", &names);
}

static void each_node_knows_its_place(void **state)
{
	struct condition c = { 0 };
	const char *text = "x + 1 == (y)";

	assert_null(condition_parse(text, "condition", NULL, &c));
	assert_int_equal(c.v[c.root].at - c.text, 6);
	assert_int_equal(c.v[c.root].start - c.text, 0);
	assert_int_equal(c.v[c.v[c.root].b].at - c.text, 10);
	condition_deinit(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operators_bind_as_in_c_but_for_comparisons),
		cmocka_unit_test(names_reach_as_far_as_names_do),
		cmocka_unit_test(a_name_of_the_users_comes_before_the_word),
		cmocka_unit_test(each_node_knows_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
