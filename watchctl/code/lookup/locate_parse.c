/*
 * A recursive-descent parser; the grammar is in locate.h. Each function below is one of its rules, and adds
 * what it meets to the steps of p->expr. An operand is parsed into an expression of its own.
 *
 * A single ':' ends a prefix while "::" is part of a name, so prefixes are split off before the rest is read.
 */
#include "watchctl/code/lookup/locate_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/lookup/locate_parser.h"

static struct wc_error *parse_sum(struct parser *p);

static bool comes(struct parser *p, const char *token)
{
	return strncmp(p->at, token, strlen(token)) == 0;
}

static struct wc_error *parse_one_index(struct parser *p, char close, struct operands *o)
{
	struct wc_error *err;
	const char *start;

	parser_skip_space(p);
	start = p->at;
	if (*p->at == close || !*p->at)
		return expected(p, close == ']' ? "a number inside '[ ]'" : "a number inside '( )'");
	if (*p->at != ':') {
		err = parser_operand(p, parse_sum, o);
		if (err)
			return err;
	}
	if (*p->at == ':') {
		p->at = start;
		return expected(p, "one element: a section (a:b) cannot be watched, or a number");
	}
	return NULL;
}

/* "[1]", "[1,2]", "(1,2)": behind the bracket that opens it. */
static struct wc_error *parse_index(struct parser *p, char close)
{
	scoped(parser_operands_deinit) struct operands o = { .n = 0 };
	struct wc_error *err;

	for (;;) {
		if (o.n == LOCATE_INDICES)
			return expected(p, "no more than %d dimensions", LOCATE_INDICES);
		err = parse_one_index(p, close, &o);
		if (err)
			return err;
		if (*p->at != ',')
			break;
		p->at++;
	}
	if (*p->at != close)
		return expected(p, "'%c'", close);
	p->at++;
	return parser_add_operands(p, (struct locate_step){ .op = LOCATE_INDEX, .round = close == ')' }, &o);
}

static struct wc_error *parse_right_side(struct parser *p, enum locate_op op,
					 struct wc_error *(*rule)(struct parser *p))
{
	scoped(parser_operands_deinit) struct operands o = { .n = 0 };
	const char *at;
	struct wc_error *err;

	parser_skip_space(p);
	at = p->at;
	err = parser_operand(p, rule, &o);
	if (err)
		return err;
	if (op == LOCATE_DIV && !o.expr[0] && !o.index[0])
		return locate_expected(p->text, at, "a number that is not 0");
	return parser_add_right_side(p, op, &o);
}

/* Names and numbers */

static struct wc_error *parse_number(struct parser *p, const char *what, uint64_t *ret)
{
	char *end;

	parser_skip_space(p);
	errno = 0;
	*ret = strtoull(p->at, &end, 0);
	if (end == p->at || !isdigit((unsigned char)*p->at))
		return expected(p, "%s", what);
	if (errno)
		return expected(p, "a number that fits in 64 bits");
	p->at = end;
	parser_skip_space(p);
	return NULL;
}

static struct wc_error *parse_literal(struct parser *p)
{
	uint64_t n = 0;
	struct wc_error *err = parse_number(p, "a number", &n);

	p->expr->is_number = true;
	p->expr->number = (int64_t)n;
	return err;
}

static struct wc_error *set_base(struct parser *p, const char *start, const char *end)
{
	p->expr->base = strndup(start, (size_t)(end - start));
	return p->expr->base ? NULL : &wc_enomem;
}

/* "'ns::x'": as gdb has names that it would read as something else. */
static struct wc_error *parse_quoted(struct parser *p)
{
	const char *end = locate_skip_quoted(p->at), *start = p->at + 1;

	if (!end)
		return locate_check_quote(p->text, p->at);
	if (strncmp(start, "::", 2) == 0)
		start += 2;
	if (start >= end - 1 || parser_continues_word(*end))
		return locate_check_quote(p->text, p->at);
	p->at = end;
	p->expr->is_quoted = true;
	return set_base(p, start, end - 1);
}

static struct wc_error *parse_base(struct parser *p)
{
	struct locate_expr *e = p->expr;
	const char *start, *scope = e->nprefixes < 2 ? locate_scope_end(p->at) : NULL;
	struct wc_error *err = NULL;

	if (scope)
		err = locate_parse_prefix(p->text, &p->at, scope, e->prefix, &e->nprefixes);
	if (err)
		return err;
	if (locate_is_quote(*p->at))
		return parse_quoted(p);
	if (!parser_starts_name(p->at))
		return expected(p,
				p->inner ? "a number or the name of a variable" : "the name of a variable");
	if (comes(p, "::"))
		p->at += 2;
	start = p->at;
	err = parser_take_name(p);
	return err ? err : set_base(p, start, p->at);
}

/* Operators */

static struct wc_error *parse_member(struct parser *p, enum locate_op op)
{
	const char *start;
	char *name;

	parser_skip_space(p);
	start = p->at;
	while (parser_continues_word(*p->at))
		p->at++;
	if (p->at == start)
		return expected(p, "the name of a member after '%s'", op == LOCATE_ARROW ? "->" : ".");
	name = strndup(start, (size_t)(p->at - start));
	return name ? parser_add_step(p, (struct locate_step){ .op = op, .name = name }) : &wc_enomem;
}

static struct wc_error *parse_brackets(struct parser *p)
{
	bool inner = p->inner;
	struct wc_error *err;

	p->at++;
	p->inner = true;
	err = parse_sum(p);
	p->inner = inner;
	if (err)
		return err;
	parser_skip_space(p);
	if (*p->at != ')')
		return expected(p, "')'");
	p->at++;
	return NULL;
}

static struct wc_error *parse_primary(struct parser *p)
{
	parser_skip_space(p);
	if (*p->at == '(' && !parser_starts_name(p->at))
		return parse_brackets(p);
	if (isdigit((unsigned char)*p->at) && !locate_scope_end(p->at))
		return parse_literal(p);
	return parse_base(p);
}

static struct wc_error *parse_postfix(struct parser *p)
{
	struct wc_error *err = parse_primary(p);

	while (!err) {
		parser_skip_space(p);
		if (comes(p, "->")) {
			p->at += 2;
			err = parse_member(p, LOCATE_ARROW);
		} else if (*p->at == '.' || *p->at == '%') {
			p->at++;
			err = parse_member(p, LOCATE_MEMBER);
		} else if (*p->at == '[' || *p->at == '(') {
			err = parse_index(p, *p->at++ == '[' ? ']' : ')');
		} else if (*p->at == '^') {
			p->at++;
			err = parser_add_step(p, (struct locate_step){ .op = LOCATE_DEREF, .behind = true });
		} else {
			break;
		}
	}
	return err;
}

/* "(T *)x": x, and then the cast. "(T &)x" is *(T *)&x. */
static struct wc_error *parse_cast(struct parser *p)
{
	struct type_text t = { 0 };
	struct wc_error *err = parser_take_type(p, &t);

	if (!err)
		err = parser_unary(p);
	if (!err && t.is_reference)
		err = parser_add_step(p, (struct locate_step){ .op = LOCATE_ADDRESS });
	if (err) {
		free(t.name);
		return err;
	}
	err = parser_add_step(
		p,
		(struct locate_step){ .op = LOCATE_CAST, .name = t.name, .stars = t.stars + t.is_reference });
	if (!err && t.is_reference)
		err = parser_add_step(p, (struct locate_step){ .op = LOCATE_DEREF });
	return err;
}

static bool is_sizeof(const struct parser *p)
{
	return strncmp(p->at, "sizeof", 6) == 0 && !parser_continues_word(p->at[6]) && p->at[6] != ':';
}

static struct wc_error *parse_sized(struct parser *p)
{
	struct type_text t = { 0 };
	struct wc_error *err;

	parser_skip_space(p);
	if (*p->at != '(' || !parser_is_type(p->at))
		return parser_unary(p);
	err = parser_take_type(p, &t);
	if (err)
		return err;
	p->expr->base = t.name;
	p->expr->is_type = true;
	p->expr->stars = t.stars;
	return NULL;
}

/* "sizeof x", "sizeof(struct conn)" */
static struct wc_error *parse_sizeof(struct parser *p)
{
	struct locate_expr *sized = calloc(1, sizeof(*sized));
	struct parser in = { p->text, p->at + strlen("sizeof"), sized, p->depth, true };
	struct wc_error *err;

	if (!sized)
		return &wc_enomem;
	p->expr->sized = sized;
	err = parse_sized(&in);
	p->at = in.at;
	return err;
}

static struct wc_error *parse_prefix_operator(struct parser *p, enum locate_op op)
{
	struct wc_error *err;

	p->at++;
	err = parser_unary(p);
	return err ? err : parser_add_step(p, (struct locate_step){ .op = op });
}

static struct wc_error *parse_unary(struct parser *p)
{
	switch (*p->at) {
	case '*':
		return parse_prefix_operator(p, LOCATE_DEREF);
	case '&':
		return parse_prefix_operator(p, LOCATE_ADDRESS);
	case '-':
		return parse_prefix_operator(p, LOCATE_NEGATE);
	case '+':
		p->at++;
		return parser_unary(p);
	default:
		break;
	}
	if (*p->at == '(' && !parser_starts_name(p->at) && parser_is_cast(p->at))
		return parse_cast(p);
	return is_sizeof(p) ? parse_sizeof(p) : parse_postfix(p);
}

struct wc_error *parser_unary(struct parser *p)
{
	struct wc_error *err;

	parser_skip_space(p);
	if (++p->depth > PARSER_DEPTH)
		return expected(p, "fewer nested '*' and '('");
	err = parse_unary(p);
	p->depth--;
	return err;
}

static struct wc_error *parse_slice(struct parser *p)
{
	struct wc_error *err = parser_unary(p);

	parser_skip_space(p);
	if (err || *p->at != '@')
		return err;
	p->at++;
	return parse_right_side(p, LOCATE_SLICE, parser_unary);
}

static struct wc_error *parse_product(struct parser *p)
{
	struct wc_error *err = parse_slice(p);

	for (parser_skip_space(p); !err && (*p->at == '*' || *p->at == '/'); parser_skip_space(p))
		err = parse_right_side(p, *p->at++ == '*' ? LOCATE_MUL : LOCATE_DIV, parse_slice);
	return err;
}

static struct wc_error *parse_sum(struct parser *p)
{
	struct wc_error *err = parse_product(p);

	for (parser_skip_space(p); !err && (*p->at == '+' || *p->at == '-'); parser_skip_space(p))
		err = parse_right_side(p, *p->at++ == '+' ? LOCATE_ADD : LOCATE_SUB, parse_product);
	return err;
}

/* The whole */

static struct wc_error *parse_raw(struct parser *p)
{
	struct wc_error *err = parse_number(p, "an address", &p->expr->addr);

	p->expr->is_raw = true;
	if (err || *p->at != ':')
		return err;
	p->at++;
	return parse_number(p, "a size in bytes after ':'", &p->expr->size);
}

static struct wc_error *parse_named(struct parser *p)
{
	struct locate_expr *e = p->expr;
	struct wc_error *err = locate_parse_prefixes(p->text, &p->at, e->prefix, &e->nprefixes);

	parser_skip_space(p);
	if (!err && isdigit((unsigned char)*p->at))
		return expected(p, "the name of a variable");
	return err ? err : parse_sum(p);
}

struct wc_error *locate_parse(const char *text, struct locate_expr *ret)
{
	scoped(locate_expr_deinit) struct locate_expr e = { 0 };
	struct parser p = { text, text, &e, 0, false };
	struct wc_error *err;

	parser_skip_space(&p);
	if (p.at[0] == '0' && (p.at[1] == 'x' || p.at[1] == 'X'))
		err = parse_raw(&p);
	else
		err = parse_named(&p);
	if (err)
		return err;
	parser_skip_space(&p);
	if (*p.at)
		return expected(&p, e.is_raw ? "':' and a size, or nothing more,"
					     : "'.', '->', '[', '(' or the end");
	*ret = e;
	e = (struct locate_expr){ 0 };
	return NULL;
}
