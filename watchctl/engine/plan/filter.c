#include "watchctl/engine/plan/filter_compiler.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/reg_names.h"

static struct operand compile_node(struct compiler *c, size_t i);

void filter_fail(struct compiler *c, const char *at, const char *fmt, ...)
{
	scoped(freep) char *what = NULL;
	va_list ap;

	if (c->err)
		return;
	va_start(ap, fmt);
	if (vasprintf(&what, fmt, ap) < 0)
		what = NULL;
	va_end(ap);
	c->err = what ? condition_error(c->tree, WC_EUSAGE, at, "%s", what) : &wc_enomem;
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

static bool is_enumerator(const struct compiler *c, const char *word, int64_t *ret)
{
	for (size_t i = 0; i < c->type->nenumerators; i++) {
		if (strcmp(c->type->enumerators[i].name, word) != 0)
			continue;
		*ret = c->type->enumerators[i].value;
		return true;
	}
	return false;
}

/* Words that only --trigger knows, and what there is here in their place. */
static void refuse_word(struct compiler *c, const struct condition_node *n)
{
	static const char *const kinds[] = { "read", "write", "execute" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(n->text, kinds[i]))
			filter_fail(
				c, n->at,
				"What kind of access it was is not known where hits are filtered: give -r, -w or -rw "
				"with the watch");
	if (!strcmp(n->text, "kernel") || !strcmp(n->text, "watch"))
		filter_fail(c, n->at, "\"%s\" can only be asked in a --trigger, of what was recorded",
			    n->text);
	filter_fail(c, n->at,
		    "Unknown name \"%s\": expected old, new, thread, size, a register ($rdi), a number%s",
		    n->text, c->type->nenumerators ? " or a name of the enumeration" : "");
}

static struct operand of_word(struct compiler *c, const struct condition_node *n)
{
	int64_t value;

	if (!strcmp(n->text, "old") || !strcmp(n->text, "new") || !strcmp(n->text, "size")) {
		if (!c->spec->has_value)
			filter_fail(c, n->at,
				    "An execute watch has no value: only the thread can be tested here");
		if (*n->text != 's')
			return filter_load(c, *n->text == 'n');
		c->f->needs |= FILTER_NEEDS_SIZE;
		return filter_result(filter_emit(c, FILTER_SIZE, 0, 0, 0), OPERAND_INT);
	}
	if (!strcmp(n->text, "thread"))
		return filter_result(0, OPERAND_THREAD);
	if (!strcmp(n->text, "true"))
		return filter_constant(1);
	if (!strcmp(n->text, "false") || !strcmp(n->text, "NULL") || !strcmp(n->text, "nullptr") ||
	    !strcmp(n->text, "nil"))
		return filter_constant(0);
	if (is_enumerator(c, n->text, &value))
		return filter_constant(value);
	refuse_word(c, n);
	return filter_constant(0);
}

static struct operand of_register(struct compiler *c, const struct condition_node *n)
{
	struct reg_name r;
	struct operand o;
	uint8_t at;

	if (!reg_by_name(n->text, &r)) {
		filter_fail(
			c, n->at,
			"Unknown register \"$%s\": expected $rax .. $r15, $rip, $rsp, $rbp, $eflags, or a lower "
			"half like $eax",
			n->text);
		return filter_constant(0);
	}
	at = filter_emit(c, FILTER_REG, 0, 0, r.reg);
	c->f->needs |= FILTER_NEEDS_REGS;
	if (r.half)
		at = filter_emit(c, FILTER_SIGN, at, 0, 4);
	o = filter_result(at, OPERAND_INT);
	o.wide = r.is_address && !r.half;
	o.half = r.half;
	return o;
}

static int take_name(struct compiler *c, const char *at, const char *name)
{
	unsigned int i = c->names;

	if (strlen(name) >= FILTER_NAME_LEN)
		filter_fail(c, at, "A thread's name has at most %u characters", FILTER_NAME_LEN - 1);
	else if (i == FILTER_NAMES)
		filter_fail(c, at, "At most %u names of threads can be tested", FILTER_NAMES);
	else
		memcpy(c->f->names[c->names++], name, strlen(name));
	return (int)i;
}

static struct operand of_text(struct compiler *c, const struct condition_node *n)
{
	return (struct operand){ .kind = OPERAND_TEXT,
				 .constant = true,
				 .value = take_name(c, n->at, n->text) };
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

static struct operand calculate(struct compiler *c, const struct condition_node *n)
{
	static const enum filter_op_code codes[] = {
		[CONDITION_OR] = FILTER_OR,	  [CONDITION_XOR] = FILTER_XOR,
		[CONDITION_AND] = FILTER_AND,	  [CONDITION_LEFT] = FILTER_LEFT,
		[CONDITION_RIGHT] = FILTER_RIGHT, [CONDITION_ADD] = FILTER_ADD,
		[CONDITION_SUB] = FILTER_SUB,	  [CONDITION_MUL] = FILTER_MUL,
	};
	enum filter_op_code code;
	struct operand a;

	if (n->op == CONDITION_DIV || n->op == CONDITION_MOD) {
		filter_fail(c, n->at, "Division cannot be done where hits are filtered: use & or >>");
		return filter_constant(0);
	}
	a = compile_node(c, n->a);
	code = codes[n->op];
	if (code == FILTER_RIGHT && !a.wide)
		code = FILTER_RIGHT_SIGNED;
	return combine(c, n->at, code, a, compile_node(c, n->b));
}

static struct operand minus(struct compiler *c, const struct condition_node *n)
{
	struct operand o = compile_node(c, n->a);

	if (o.kind == OPERAND_FLOAT && o.constant) {
		o.number = -o.number;
		return o;
	}
	return combine(c, n->at, FILTER_SUB, filter_constant(0), o);
}

/* Truths */

static struct operand in_range(struct compiler *c, const struct condition_node *n)
{
	struct operand a = compile_node(c, n->a), low = compile_node(c, n->b), high = compile_node(c, n->c),
		       above, below, o;

	if (!filter_failed(c) && low.constant && high.constant && low.kind == OPERAND_INT &&
	    high.kind == OPERAND_INT && low.value > high.value)
		filter_fail(c, n->at, "The range is empty: its lower end comes first");
	o = filter_compare(c, n->at, FILTER_LESS, a, low);
	above = filter_negate(c, &o);
	o = filter_compare(c, n->at, FILTER_LESS, high, a);
	below = filter_negate(c, &o);
	if (filter_failed(c))
		return filter_constant(0);
	if (a.kind == OPERAND_FLOAT) {
		/* "not below" holds for what is no number, which is in no range. */
		o = filter_compare(c, n->at, FILTER_EQUAL, a, a);
		above = filter_join(c, FILTER_BOTH, &above, &o);
	}
	o = filter_join(c, FILTER_BOTH, &above, &below);
	return n->negated ? filter_negate(c, &o) : o;
}

static struct operand compare(struct compiler *c, const struct condition_node *n)
{
	struct operand a = compile_node(c, n->a), b = compile_node(c, n->b), o, equal;

	switch (n->op) {
	case CONDITION_EQUAL:
		return filter_compare(c, n->at, FILTER_EQUAL, a, b);
	case CONDITION_NOT_EQUAL:
		o = filter_compare(c, n->at, FILTER_EQUAL, a, b);
		return filter_negate(c, &o);
	case CONDITION_LESS:
		return filter_compare(c, n->at, FILTER_LESS, a, b);
	case CONDITION_GREATER:
		return filter_compare(c, n->at, FILTER_LESS, b, a);
	default:
		o = n->op == CONDITION_NOT_GREATER ? filter_compare(c, n->at, FILTER_LESS, a, b)
						   : filter_compare(c, n->at, FILTER_LESS, b, a);
		equal = filter_compare(c, n->at, FILTER_EQUAL, a, b);
		return filter_join(c, FILTER_EITHER, &o, &equal);
	}
}

/* What stands alone as a condition: a comparison, or a number that is not 0. */
static struct operand as_truth(struct compiler *c, size_t i)
{
	struct operand o = compile_node(c, i), zero = filter_constant(0);
	const char *at = c->tree->v[i].start;

	if (filter_failed(c) || o.kind == OPERAND_TRUTH || (o.kind == OPERAND_INT && !o.variable))
		return o;
	if (o.kind == OPERAND_INT || (o.kind == OPERAND_FLOAT && !o.constant)) {
		o = filter_compare(c, at, FILTER_EQUAL, o, zero);
		return filter_negate(c, &o);
	}
	filter_fail(c, at, "Expected a comparison");
	return zero;
}

static struct operand negate(struct compiler *c, const struct condition_node *n)
{
	struct operand o = as_truth(c, n->a);

	return filter_failed(c) ? o : filter_negate(c, &o);
}

static struct operand join(struct compiler *c, const struct condition_node *n)
{
	struct operand a = as_truth(c, n->a), b = as_truth(c, n->b);

	return filter_join(c, n->kind == CONDITION_BOTH ? FILTER_BOTH : FILTER_EITHER, &a, &b);
}

/* As deep as the parser lets a tree be. */
static struct operand compile_node(struct compiler *c, size_t i)
{
	const struct condition_node *n = &c->tree->v[i];

	if (filter_failed(c))
		return filter_constant(0);
	c->at = n->at;
	switch (n->kind) {
	case CONDITION_EITHER:
	case CONDITION_BOTH:
		return join(c, n);
	case CONDITION_NOT:
		return negate(c, n);
	case CONDITION_COMPARE:
		return compare(c, n);
	case CONDITION_IN:
		return in_range(c, n);
	case CONDITION_CALCULATE:
		return calculate(c, n);
	case CONDITION_MINUS:
		return minus(c, n);
	case CONDITION_INTEGER:
		return filter_constant(n->integer);
	case CONDITION_CHARACTER:
		return filter_constant(filter_is_signed(c) ? (signed char)n->integer : n->integer);
	case CONDITION_FLOAT:
		return (struct operand){ .kind = OPERAND_FLOAT, .constant = true, .number = n->number };
	case CONDITION_TEXT:
		return of_text(c, n);
	case CONDITION_WORD:
		return of_word(c, n);
	case CONDITION_REGISTER:
		return of_register(c, n);
	case CONDITION_CALLER:
		filter_fail(c, n->start, "Callers are asked for by an option of their own: --caller %s",
			    n->text);
		break;
	case CONDITION_NAME:
		filter_fail(c, n->at, "Other watches can only be asked for in a --trigger");
		break;
	}
	return filter_constant(0);
}

/* The whole: parts that come from several options are joined with "and". */

static void add_part(struct compiler *c, struct operand part, struct operand *all, bool *any)
{
	if (filter_failed(c))
		return;
	*all = *any ? filter_join(c, FILTER_BOTH, all, &part) : part;
	*any = true;
}

static struct operand thread_part(struct compiler *c, struct condition *whole)
{
	const char *text = c->spec->thread;
	struct operand who = { .kind = OPERAND_TEXT, .constant = true };
	char *end;

	*whole = (struct condition){ .what = "condition", .text = strdup(text) };
	if (!whole->text) {
		c->err = &wc_enomem;
		return who;
	}
	c->tree = whole;
	c->at = text = whole->text;
	if (isdigit((unsigned char)*text) && (strtol(text, &end, 10), !*end))
		who = filter_constant(strtol(text, NULL, 10));
	else if (!*text)
		filter_fail(c, text, "Expected a thread's name or id");
	else
		who.value = take_name(c, text, text);
	return filter_failed(c) ? who : filter_compare_thread(c, text, &who, true);
}

/* @tree: zeroed; it is needed as long as there may be errors. */
static struct operand condition_part(struct compiler *c, const char *text, struct condition *tree)
{
	if (!c->err)
		c->err = condition_parse(text, "condition", NULL, tree);
	if (c->err)
		return filter_constant(0);
	c->tree = tree;
	return as_truth(c, tree->root);
}

/* A rate close to nothing is once in 292 years: what does not fit is no number of nanoseconds. */
static uint64_t interval_of(double rate)
{
	double ns = 1e9 / rate;

	return ns < 9e18 ? (uint64_t)ns : INT64_MAX;
}

/* All parts, one after the other. */
static void compile_parts(struct compiler *c, struct condition tree[3])
{
	const struct filter_spec *spec = c->spec;
	struct operand all = filter_constant(1);
	bool any = false;

	if (spec->thread)
		add_part(c, thread_part(c, &tree[0]), &all, &any);
	if (spec->changes && !spec->has_value && !c->err)
		c->err = wc_error_new(WC_EUSAGE, "--changes: an execute watch has no value");
	else if (spec->changes)
		add_part(c, condition_part(c, "new != old", &tree[1]), &all, &any);
	if (spec->condition)
		add_part(c, condition_part(c, spec->condition, &tree[2]), &all, &any);
	if (!c->err && any) {
		uint8_t last = filter_as_op(c, &all);

		/* The answer is the last operation's; a value loaded earlier may be it. */
		if (!c->err && last + 1u != c->f->n) {
			uint8_t zero = filter_emit(c, FILTER_CONST, 0, 0, 0);

			filter_emit(c, FILTER_EITHER, last, zero, 0);
		}
	}
}

struct wc_error *filter_compile(const struct filter_spec *spec, const struct value_type *type, uint32_t size,
				struct wire_filter *ret)
{
	struct wire_filter f = { .sample = spec->sample };
	struct compiler c = { .spec = spec, .type = type, .size = size, .f = &f, .loaded = { -1, -1 } };
	struct condition tree[3] = { 0 };

	if (spec->rate > 0)
		f.interval_ns = interval_of(spec->rate);
	compile_parts(&c, tree);
	for (size_t i = 0; i < sizeof(tree) / sizeof(*tree); i++)
		condition_deinit(&tree[i]);
	if (c.err)
		return c.err;
	*ret = f;
	return NULL;
}
