#include "watchctl/engine/plan/filter_compiler.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"

#define DEPTH_MAX 32

static struct operand condition(struct compiler *c);

void filter_fail(struct compiler *c, const char *at, const char *fmt, ...)
{
	scoped(freep) char *what = NULL;
	int column = (int)(at - c->text);
	va_list ap;

	if (c->err)
		return;
	va_start(ap, fmt);
	if (vasprintf(&what, fmt, ap) < 0)
		what = NULL;
	va_end(ap);
	c->err = what ? wc_error_new(WC_EUSAGE, "%s, at column %d of the condition:\n  %s\n  %*s^", what,
				     column + 1, c->text, column, "")
		      : &wc_enomem;
}

static void skip_space(struct compiler *c)
{
	while (isspace((unsigned char)*c->at))
		c->at++;
}

/* Takes @token if it comes next. A word must end there. */
static bool filter_take(struct compiler *c, const char *token)
{
	size_t n = strlen(token);

	skip_space(c);
	if (strncmp(c->at, token, n) != 0 ||
	    (isalpha((unsigned char)*token) && (isalnum((unsigned char)c->at[n]) || c->at[n] == '_')))
		return false;
	c->at += n;
	return true;
}

/* Operators of which another one begins with them. */
static bool take_single(struct compiler *c, char op)
{
	skip_space(c);
	if (*c->at != op || c->at[1] == op || (c->at[1] == '=' && strchr("<>!=", op)))
		return false;
	c->at++;
	return true;
}

uint8_t filter_emit(struct compiler *c, enum filter_op_code code, uint8_t a, uint8_t b, int64_t imm)
{
	if (c->f->n == FILTER_OPS) {
		filter_fail(c, c->at, "The condition is too long: it may have %u operations", FILTER_OPS);
		return 0;
	}
	c->f->op[c->f->n] = (struct filter_op){ .code = (uint8_t)code, .a = a, .b = b, .imm = imm };
	return (uint8_t)c->f->n++;
}

uint8_t filter_as_op(struct compiler *c, const struct operand *o)
{
	return o->constant ? filter_emit(c, FILTER_CONST, 0, 0, o->value) : o->at;
}

/* Values */

bool filter_is_signed(const struct compiler *c)
{
	switch (c->type->kind) {
	case VALUE_SIGNED:
	case VALUE_CHAR:
		return true;
	case VALUE_ENUM:
		return c->type->enum_signed;
	default:
		return false;
	}
}

/* old or new as the type has it. */
static struct operand filter_load(struct compiler *c, bool new)
{
	const struct value_type *t = c->type;
	struct operand o = { .kind = OPERAND_INT, .variable = true };
	uint32_t bits = t->bit_size ? t->bit_size : 8 * c->size;
	uint8_t at;

	if (t->kind == VALUE_FLOAT && !t->bit_size)
		o.kind = OPERAND_FLOAT;
	o.wide = bits == 64 && o.kind == OPERAND_INT && !filter_is_signed(c);
	c->f->needs |= new ? FILTER_NEEDS_NEW : FILTER_NEEDS_OLD;
	if (c->loaded[new] >= 0) {
		o.at = (uint8_t)c->loaded[new];
		return o;
	}
	at = filter_emit(c, new ? FILTER_NEW : FILTER_OLD, 0, 0, 0);
	if (t->bit_size) {
		uint8_t left = filter_emit(c, FILTER_CONST, 0, 0, 64 - t->bit_offset - t->bit_size);
		uint8_t right = filter_emit(c, FILTER_CONST, 0, 0, 64 - t->bit_size);

		at = filter_emit(c, filter_is_signed(c) ? FILTER_RIGHT_SIGNED : FILTER_RIGHT,
				 filter_emit(c, FILTER_LEFT, at, left, 0), right, 0);
	} else if (filter_is_signed(c) && c->size < 8) {
		at = filter_emit(c, FILTER_SIGN, at, 0, c->size);
	}
	c->loaded[new] = (int8_t)at;
	o.at = at;
	return o;
}

static struct operand take_word(struct compiler *c)
{
	const char *start = c->at;
	size_t n, i;

	while (isalnum((unsigned char)*c->at) || *c->at == '_' || (*c->at == ':' && c->at[1] == ':') ||
	       (*c->at == ':' && c->at > start && c->at[-1] == ':'))
		c->at++;
	n = (size_t)(c->at - start);
#define WORD_IS(w) (n == strlen(w) && !strncmp(start, w, n))
	if (WORD_IS("old") || WORD_IS("new") || WORD_IS("size")) {
		if (!c->spec->has_value)
			filter_fail(c, start,
				    "An execute watch has no value: only the thread can be tested here");
		if (WORD_IS("size")) {
			c->f->needs |= FILTER_NEEDS_SIZE;
			return filter_result(filter_emit(c, FILTER_SIZE, 0, 0, 0), OPERAND_INT);
		}
		return filter_load(c, WORD_IS("new"));
	}
	if (WORD_IS("thread"))
		return filter_result(0, OPERAND_THREAD);
	if (WORD_IS("true"))
		return filter_constant(1);
	if (WORD_IS("false") || WORD_IS("NULL") || WORD_IS("nullptr") || WORD_IS("nil"))
		return filter_constant(0);
#undef WORD_IS
	for (i = 0; i < c->type->nenumerators; i++)
		if (strlen(c->type->enumerators[i].name) == n &&
		    !strncmp(c->type->enumerators[i].name, start, n))
			return filter_constant(c->type->enumerators[i].value);
	filter_fail(c, start,
		    "Unknown name \"%.*s\": expected old, new, thread, size, a register ($rdi), a number%s",
		    (int)n, start, c->type->nenumerators ? " or a name of the enumeration" : "");
	return filter_constant(0);
}

static struct operand take_number(struct compiler *c)
{
	const char *start = c->at;
	struct operand o = filter_constant(0);
	char *end, *float_end;

	errno = 0;
	o.value = (int64_t)strtoull(start, &end, 0);
	if (errno == ERANGE)
		filter_fail(c, start, "The number is larger than 64 bits");
	/* "3..7" is a range, "3.5" a number. */
	if (strncmp(start, "0x", 2) != 0 && ((*end == '.' && end[1] != '.') || *end == 'e' || *end == 'E')) {
		o.number = strtod(start, &float_end);
		o.kind = OPERAND_FLOAT;
		end = float_end;
	}
	c->at = end;
	if (isalnum((unsigned char)*end) || *end == '_')
		filter_fail(c, end, "Expected the number to end here");
	return o;
}

static struct operand take_character(struct compiler *c)
{
	static const char escape[] = "n\nt\tr\r0\0\\\\'\'";
	const char *start = c->at++;
	char value = *c->at;
	size_t i;

	if (value == '\\') {
		c->at++;
		for (i = 0; i + 1 < sizeof(escape) - 1 && escape[i] != *c->at; i += 2)
			;
		value = i + 1 < sizeof(escape) - 1 ? escape[i + 1] : *c->at;
	}
	if (!*c->at || c->at[1] != '\'') {
		filter_fail(c, start, "Expected one character between quotes");
		return filter_constant(0);
	}
	c->at += 2;
	return filter_constant(filter_is_signed(c) ? (signed char)value : (unsigned char)value);
}

static int take_name(struct compiler *c, const char *start, size_t n)
{
	unsigned int i = c->names;

	if (n >= FILTER_NAME_LEN)
		filter_fail(c, start, "A thread's name has at most %u characters", FILTER_NAME_LEN - 1);
	else if (i == FILTER_NAMES)
		filter_fail(c, start, "At most %u names of threads can be tested", FILTER_NAMES);
	else
		memcpy(c->f->names[c->names++], start, n);
	return (int)i;
}

static struct operand take_text(struct compiler *c)
{
	const char *start = ++c->at, *end = strchr(start, '"');
	struct operand o = { .kind = OPERAND_TEXT, .constant = true };

	if (!end) {
		filter_fail(c, start - 1, "The text has no end");
		return o;
	}
	o.value = take_name(c, start, (size_t)(end - start));
	c->at = end + 1;
	return o;
}

static struct operand primary(struct compiler *c)
{
	struct operand o = filter_constant(0);

	skip_space(c);
	if (++c->depth > DEPTH_MAX) {
		filter_fail(c, c->at, "The condition is nested too deeply");
		return o;
	}
	if (filter_take(c, "(")) {
		o = condition(c);
		if (!filter_failed(c) && !filter_take(c, ")"))
			filter_fail(c, c->at, "Expected )");
	} else if (isdigit((unsigned char)*c->at)) {
		o = take_number(c);
	} else if (isalpha((unsigned char)*c->at) || *c->at == '_') {
		o = take_word(c);
	} else if (*c->at == '$') {
		o = filter_take_register(c);
	} else if (*c->at == '\'') {
		o = take_character(c);
	} else if (*c->at == '"') {
		o = take_text(c);
	} else {
		filter_fail(c, c->at, "Expected a value");
	}
	c->depth--;
	return o;
}

/* Arithmetic */

static bool needs_integers(struct compiler *c, const char *at, const struct operand *a,
			   const struct operand *b)
{
	const struct operand *bad = a->kind != OPERAND_INT && a->kind != OPERAND_TRUTH ? a : b;

	if (bad->kind == OPERAND_INT || bad->kind == OPERAND_TRUTH)
		return true;
	filter_fail(c, at, "%s can only be compared, not calculated with",
		    bad->kind == OPERAND_FLOAT ? "Floating-point values" : "A thread");
	return false;
}

int64_t filter_fold(enum filter_op_code code, int64_t a, int64_t b)
{
	static const struct wire_filter none;
	const struct filter_op op = { .code = (uint8_t)code };
	const struct filter_input nothing = { 0 };

	return filter_apply(&none, &op, &nothing, a, b);
}

static struct operand combine(struct compiler *c, const char *at, enum filter_op_code code, struct operand a,
			      struct operand b)
{
	struct operand o;

	if (filter_failed(c) || !needs_integers(c, at, &a, &b))
		return filter_constant(0);
	if (a.constant && b.constant)
		return filter_constant(filter_fold(code, a.value, b.value));
	o = filter_result(filter_emit(c, code, filter_as_op(c, &a), filter_as_op(c, &b), 0), OPERAND_INT);
	o.wide = a.wide || b.wide;
	return o;
}

static struct operand unary(struct compiler *c)
{
	const char *at;
	struct operand o;

	skip_space(c);
	at = c->at;
	if (!take_single(c, '-'))
		return primary(c);
	if (++c->depth > DEPTH_MAX) {
		filter_fail(c, at, "The condition is nested too deeply");
		return filter_constant(0);
	}
	o = unary(c);
	c->depth--;
	if (o.kind == OPERAND_FLOAT && o.constant) {
		o.number = -o.number;
		return o;
	}
	return combine(c, at, FILTER_SUB, filter_constant(0), o);
}

struct level {
	const char *op;
	enum filter_op_code code;
};

static const struct level levels[][3] = {
	{ { "|", FILTER_OR } },
	{ { "^", FILTER_XOR } },
	{ { "&", FILTER_AND } },
	{ { "<<", FILTER_LEFT }, { ">>", FILTER_RIGHT } },
	{ { "+", FILTER_ADD }, { "-", FILTER_SUB } },
	{ { "*", FILTER_MUL } },
};

#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static struct operand sum(struct compiler *c, size_t level)
{
	struct operand a;

	if (level == LEVELS)
		return unary(c);
	a = sum(c, level + 1);
	while (!filter_failed(c)) {
		const struct level *l = levels[level];
		const char *at;
		size_t i;

		skip_space(c);
		at = c->at;
		if (*at == '/' || *at == '%')
			filter_fail(c, at, "Division cannot be done where hits are filtered: use & or >>");
		for (i = 0; i < 3 && l[i].op; i++)
			if (l[i].op[1] ? filter_take(c, l[i].op) : take_single(c, *l[i].op))
				break;
		if (i == 3 || !l[i].op)
			break;
		a = combine(c, at, l[i].code, a, sum(c, level + 1));
	}
	return a;
}

static struct operand compare_range(struct compiler *c, const char *at, struct operand a, bool inside)
{
	struct operand low = sum(c, 0), high, above, below, o;

	if (!filter_failed(c) && !filter_take(c, ".."))
		filter_fail(c, c->at, "Expected .. and the upper end of the range");
	high = sum(c, 0);
	if (!filter_failed(c) && low.constant && high.constant && low.kind == OPERAND_INT &&
	    high.kind == OPERAND_INT && low.value > high.value)
		filter_fail(c, at, "The range is empty: its lower end comes first");
	o = filter_compare(c, at, FILTER_LESS, a, low);
	above = filter_negate(c, &o);
	o = filter_compare(c, at, FILTER_LESS, high, a);
	below = filter_negate(c, &o);
	if (filter_failed(c))
		return filter_constant(0);
	if (a.kind == OPERAND_FLOAT) {
		/* "not below" holds for what is no number, which is in no range. */
		o = filter_compare(c, at, FILTER_EQUAL, a, a);
		above = filter_join(c, FILTER_BOTH, &above, &o);
	}
	o = filter_join(c, FILTER_BOTH, &above, &below);
	return inside ? o : filter_negate(c, &o);
}

static struct operand compared(struct compiler *c)
{
	struct operand a = sum(c, 0), o, equal;
	const char *at;

	skip_space(c);
	at = c->at;
	if (filter_failed(c))
		return a;
	if (filter_take(c, "=="))
		return filter_compare(c, at, FILTER_EQUAL, a, sum(c, 0));
	if (filter_take(c, "!=")) {
		o = filter_compare(c, at, FILTER_EQUAL, a, sum(c, 0));
		return filter_negate(c, &o);
	}
	if (filter_take(c, "<=") || filter_take(c, ">=")) {
		struct operand b = sum(c, 0);

		o = at[0] == '<' ? filter_compare(c, at, FILTER_LESS, a, b)
				 : filter_compare(c, at, FILTER_LESS, b, a);
		equal = filter_compare(c, at, FILTER_EQUAL, a, b);
		return filter_join(c, FILTER_EITHER, &o, &equal);
	}
	if (take_single(c, '<'))
		return filter_compare(c, at, FILTER_LESS, a, sum(c, 0));
	if (take_single(c, '>'))
		return filter_compare(c, at, FILTER_LESS, sum(c, 0), a);
	if (filter_take(c, "in"))
		return compare_range(c, at, a, true);
	if (filter_take(c, "not")) {
		if (filter_take(c, "in"))
			return compare_range(c, at, a, false);
		filter_fail(c, c->at, "Expected in");
	}
	if (take_single(c, '='))
		filter_fail(c, at, "Expected == (a single = compares nothing)");
	return a;
}

/* What stands alone as a condition: a comparison, or a number that is not 0. */
static struct operand as_truth(struct compiler *c, const char *at, struct operand o)
{
	struct operand zero = filter_constant(0);

	if (filter_failed(c) || o.kind == OPERAND_TRUTH || (o.kind == OPERAND_INT && !o.variable))
		return o;
	if (o.kind == OPERAND_INT || (o.kind == OPERAND_FLOAT && !o.constant)) {
		o = filter_compare(c, at, FILTER_EQUAL, o, zero);
		return filter_negate(c, &o);
	}
	filter_fail(c, at, "Expected a comparison");
	return zero;
}

static struct operand not(struct compiler * c)
{
	const char *at;
	struct operand o;

	skip_space(c);
	at = c->at;
	if (!take_single(c, '!')) {
		o = compared(c);
		return o;
	}
	if (++c->depth > DEPTH_MAX)
		filter_fail(c, at, "The condition is nested too deeply");
	o = filter_failed(c) ? filter_constant(0) : not(c);
	o = as_truth(c, at, o);
	c->depth--;
	return filter_failed(c) ? o : filter_negate(c, &o);
}

static struct operand both(struct compiler *c)
{
	const char *at;
	struct operand a, b;

	skip_space(c);
	at = c->at;
	a = not(c);
	while (!filter_failed(c) && (filter_take(c, "&&") || filter_take(c, "and"))) {
		a = as_truth(c, at, a);
		skip_space(c);
		at = c->at;
		b = as_truth(c, at, not(c));
		a = filter_join(c, FILTER_BOTH, &a, &b);
	}
	return a;
}

static struct operand condition(struct compiler *c)
{
	const char *at;
	struct operand a, b;

	skip_space(c);
	at = c->at;
	a = both(c);
	while (!filter_failed(c) && (filter_take(c, "||") || filter_take(c, "or"))) {
		a = as_truth(c, at, a);
		skip_space(c);
		at = c->at;
		b = as_truth(c, at, both(c));
		a = filter_join(c, FILTER_EITHER, &a, &b);
	}
	return a;
}

/* The whole: parts that come from several options are joined with "and". */

static void add_part(struct compiler *c, struct operand part, struct operand *all, bool *any)
{
	if (filter_failed(c))
		return;
	*all = *any ? filter_join(c, FILTER_BOTH, all, &part) : part;
	*any = true;
}

static struct operand thread_part(struct compiler *c)
{
	const char *text = c->spec->thread;
	struct operand who = { .kind = OPERAND_TEXT, .constant = true };
	char *end;

	c->text = c->at = text;
	if (isdigit((unsigned char)*text) && (strtol(text, &end, 10), !*end))
		who = filter_constant(strtol(text, NULL, 10));
	else if (!*text)
		filter_fail(c, text, "Expected a thread's name or id");
	else
		who.value = take_name(c, text, strlen(text));
	return filter_failed(c) ? who : filter_compare_thread(c, text, &who, true);
}

static struct operand condition_part(struct compiler *c)
{
	struct operand o;

	c->text = c->at = c->spec->condition;
	o = as_truth(c, c->text, condition(c));
	skip_space(c);
	if (!filter_failed(c) && *c->at)
		filter_fail(c, c->at, "Expected the end of the condition, or && or ||");
	return o;
}

/* A rate close to nothing is once in 292 years: what does not fit is no number of nanoseconds. */
static uint64_t interval_of(double rate)
{
	double ns = 1e9 / rate;

	return ns < 9e18 ? (uint64_t)ns : INT64_MAX;
}

struct wc_error *filter_compile(const struct filter_spec *spec, const struct value_type *type, uint32_t size,
				struct wire_filter *ret)
{
	struct wire_filter f = { .sample = spec->sample };
	struct compiler c = {
		.text = "", .at = "", .spec = spec, .type = type, .size = size, .f = &f, .loaded = { -1, -1 }
	};
	struct operand all = filter_constant(1);
	bool any = false;

	if (spec->rate > 0)
		f.interval_ns = interval_of(spec->rate);
	if (spec->thread)
		add_part(&c, thread_part(&c), &all, &any);
	if (spec->changes) {
		struct operand o;

		c.text = c.at = "new != old";
		o = spec->has_value ? condition(&c) : filter_constant(1);
		if (!spec->has_value && !c.err)
			c.err = wc_error_new(WC_EUSAGE, "--changes: an execute watch has no value");
		add_part(&c, o, &all, &any);
	}
	if (spec->condition)
		add_part(&c, condition_part(&c), &all, &any);
	if (!c.err && any) {
		uint8_t last = filter_as_op(&c, &all);

		/* The answer is the last operation's; a value loaded earlier may be it. */
		if (!c.err && last + 1u != f.n) {
			uint8_t zero = filter_emit(&c, FILTER_CONST, 0, 0, 0);

			filter_emit(&c, FILTER_EITHER, last, zero, 0);
		}
	}
	if (c.err)
		return c.err;
	*ret = f;
	return NULL;
}
