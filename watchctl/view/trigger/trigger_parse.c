#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/trigger/trigger_impl.h"

#define DEPTH_MAX 32

static size_t trigger_parse_condition(struct trigger *t);

static void fail(struct trigger *t, enum wc_kind kind, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void fail(struct trigger *t, enum wc_kind kind, const char *at, const char *fmt, ...)
{
	scoped(freep) char *what = NULL;
	int column = (int)(at - t->text);
	va_list ap;

	if (t->err)
		return;
	va_start(ap, fmt);
	if (vasprintf(&what, fmt, ap) < 0)
		what = NULL;
	va_end(ap);
	t->err = what ? wc_error_new(kind, "%s, at column %d of the trigger:\n  %s\n  %*s^", what, column + 1,
				     t->text, column, "")
		      : &wc_enomem;
}

static size_t trigger_parse_add(struct trigger *t, struct node node)
{
	if (!vec_push(t->v, t->n, t->cap, node)) {
		free(node.text);
		if (!t->err)
			t->err = &wc_enomem;
		return 0;
	}
	return t->n - 1;
}

static void skip_space(struct trigger *t)
{
	while (isspace((unsigned char)*t->at))
		t->at++;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Takes @token if it comes next; a word must end there. */
static bool trigger_parse_take(struct trigger *t, const char *token)
{
	size_t n = strlen(token);

	skip_space(t);
	if (strncmp(t->at, token, n) != 0 || (is_word(*token) && is_word(t->at[n])))
		return false;
	t->at += n;
	return true;
}

/* How long the name at @p is: "flag", "ns::obj.member", "table[3]->next". */
static size_t name_length(const char *p)
{
	const char *start = p;

	for (;;) {
		if (is_word(*p) || (*p == '.' && is_word(p[1])))
			p++;
		else if ((!strncmp(p, "::", 2) || !strncmp(p, "->", 2)) && is_word(p[2]))
			p += 2;
		else if (*p == '[' && p[1 + strspn(p + 1, "0123456789")] == ']' && p[1] != ']')
			p += 2 + strspn(p + 1, "0123456789");
		else
			return (size_t)(p - start);
	}
}

static char *copy_text(struct trigger *t, const char *start, size_t n)
{
	char *text = strndup(start, n);

	if (!text && !t->err)
		t->err = &wc_enomem;
	return text;
}

size_t trigger_watch(const struct trigger *t, const char *start, size_t n)
{
	size_t i;

	for (i = 0; i < t->nnames; i++)
		if (strlen(t->name[i]) == n && !memcmp(t->name[i], start, n))
			break;
	return i;
}

static size_t take_braced(struct trigger *t)
{
	const char *start = t->at++, *end = strchr(t->at, '}');
	size_t i;

	if (!end) {
		fail(t, WC_EUSAGE, start, "The name has no end: expected }");
		return 0;
	}
	i = trigger_watch(t, t->at, (size_t)(end - t->at));
	if (i == t->nnames)
		fail(t, WC_ENAME, t->at, "There is no watch of that name");
	t->at = end + 1;
	return trigger_parse_add(t, (struct node){ .kind = NODE_WATCH, .index = i });
}

static size_t number_node(struct trigger *t, struct value_number n)
{
	return trigger_parse_add(t, (struct node){ .kind = NODE_NUMBER, .number = n });
}

static size_t whole(struct trigger *t, int64_t n)
{
	return number_node(t, (struct value_number){ .kind = NUMBER_SIGNED, .i = n });
}

static size_t take_word(struct trigger *t)
{
	static const struct {
		const char *word;
		enum node_kind kind;
	} words[] = { { "new", NODE_NEW },
		      { "old", NODE_OLD },
		      { "size", NODE_SIZE },
		      { "thread", NODE_THREAD },
		      { "watch", NODE_HIT } };
	const char *start = t->at;
	size_t n = name_length(start), i = trigger_watch(t, start, n);

	t->at += n;
	if (i < t->nnames)
		return trigger_parse_add(t, (struct node){ .kind = NODE_WATCH, .index = i });
#define WORD_IS(w) (n == strlen(w) && !memcmp(start, w, n))
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (WORD_IS(words[i].word)) {
			t->of_access = true;
			return trigger_parse_add(t, (struct node){ .kind = words[i].kind });
		}
	}
	if (WORD_IS("true"))
		return whole(t, 1);
	if (WORD_IS("false") || WORD_IS("NULL") || WORD_IS("nullptr") || WORD_IS("nil"))
		return whole(t, 0);
#undef WORD_IS
	return trigger_parse_add(t, (struct node){ .kind = NODE_WORD, .text = copy_text(t, start, n) });
}

static size_t take_number(struct trigger *t, bool negative)
{
	struct value_number n = { .kind = NUMBER_UNSIGNED };
	const char *start = t->at;
	char *end;

	errno = 0;
	n.u = strtoull(start, &end, 0);
	if (strncmp(start, "0x", 2) != 0 && (*end == '.' || *end == 'e' || *end == 'E')) {
		n.kind = NUMBER_FLOAT;
		n.f = strtod(start, &end);
		n.f = negative ? -n.f : n.f;
	} else if (errno == ERANGE || (negative && n.u > (uint64_t)INT64_MAX + 1)) {
		fail(t, WC_EUSAGE, start, "The number is larger than 64 bits");
	} else if (negative) {
		n.kind = NUMBER_SIGNED;
		n.i = (int64_t)(0 - n.u);
	}
	t->at = end;
	if (is_word(*end))
		fail(t, WC_EUSAGE, end, "Expected the number to end here");
	return number_node(t, n);
}

static size_t take_character(struct trigger *t)
{
	static const char escape[] = "n\nt\tr\r0\0\\\\'\'";
	const char *start = t->at++;
	char value = *t->at;
	size_t i;

	if (value == '\\') {
		t->at++;
		for (i = 0; i + 1 < sizeof(escape) - 1 && escape[i] != *t->at; i += 2)
			;
		value = i + 1 < sizeof(escape) - 1 ? escape[i + 1] : *t->at;
	}
	if (!*t->at || t->at[1] != '\'') {
		fail(t, WC_EUSAGE, start, "Expected one character between quotes");
		return 0;
	}
	t->at += 2;
	return whole(t, value);
}

static size_t take_text(struct trigger *t)
{
	const char *start = ++t->at, *end = strchr(start, '"');

	if (!end) {
		fail(t, WC_EUSAGE, start - 1, "The text has no end");
		return 0;
	}
	t->at = end + 1;
	return trigger_parse_add(
		t, (struct node){ .kind = NODE_TEXT, .text = copy_text(t, start, (size_t)(end - start)) });
}

static size_t value(struct trigger *t)
{
	skip_space(t);
	if (*t->at == '-' && isdigit((unsigned char)t->at[1])) {
		t->at++;
		return take_number(t, true);
	}
	if (isdigit((unsigned char)*t->at))
		return take_number(t, false);
	if (*t->at == '{')
		return take_braced(t);
	if (*t->at == '\'')
		return take_character(t);
	if (*t->at == '"')
		return take_text(t);
	if (is_word(*t->at))
		return take_word(t);
	fail(t, WC_EUSAGE, t->at, *t->at ? "Expected a value" : "Expected a value, not the end");
	return 0;
}

static bool is_watched(const struct trigger *t, size_t i)
{
	return trigger_is(t, i, NODE_WATCH) || trigger_is(t, i, NODE_NEW) || trigger_is(t, i, NODE_OLD);
}

/* What can never be compared is found here, not when it happens. */
static void check_compared(struct trigger *t, const char *at, size_t a, size_t b, enum compare_op op)
{
	bool names = trigger_is(t, a, NODE_THREAD) || trigger_is(t, b, NODE_THREAD) ||
		     trigger_is(t, a, NODE_HIT) || trigger_is(t, b, NODE_HIT);
	bool text = trigger_is(t, a, NODE_TEXT) || trigger_is(t, b, NODE_TEXT);
	bool hit = trigger_is(t, a, NODE_HIT) || trigger_is(t, b, NODE_HIT);

	if (text && !names)
		fail(t, WC_EUSAGE, at, "A text can only be compared with thread and watch");
	else if (hit && !text)
		fail(t, WC_EUSAGE, at, "The watch that was hit can only be compared with a \"name\"");
	else if (names && op != EQUAL && op != NOT_EQUAL)
		fail(t, WC_EUSAGE, at, "Names can only be compared by == and !=");
}

static void check_words(struct trigger *t, const char *at, size_t a, size_t b)
{
	if ((trigger_is(t, a, NODE_WORD) && !is_watched(t, b)) ||
	    (trigger_is(t, b, NODE_WORD) && !is_watched(t, a)))
		fail(t, WC_ENAME, at,
		     "\"%s\" is neither a watch nor an enumerator that can be used here (the name of a watch is the "
		     "text after its -v)",
		     t->v[trigger_is(t, a, NODE_WORD) ? a : b].text);
}

static size_t compared(struct trigger *t)
{
	static const struct {
		const char *token;
		enum compare_op op;
	} ops[] = { { "==", EQUAL },	{ "!=", NOT_EQUAL }, { "<=", NOT_GREATER },
		    { ">=", NOT_LESS }, { "<", LESS },	     { ">", GREATER } };
	const char *start, *at;
	size_t a, b, i;

	skip_space(t);
	start = t->at;
	a = value(t);
	if (t->err)
		return 0;
	skip_space(t);
	at = t->at;
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (trigger_parse_take(t, ops[i].token))
			break;
	if (i == sizeof(ops) / sizeof(ops[0])) {
		if (*at == '=')
			fail(t, WC_EUSAGE, at, "Expected == (a single = compares nothing)");
		else if (trigger_is(t, a, NODE_WORD))
			fail(t, WC_ENAME, start,
			     "\"%s\" is not a watch (the name of a watch is the text after its -v)",
			     t->v[a].text);
		else if (!is_watched(t, a))
			fail(t, WC_EUSAGE, at, "Expected a comparison, like == 0");
		return trigger_parse_add(t, (struct node){ .kind = NODE_HOLDS, .a = a });
	}
	b = value(t);
	if (t->err)
		return 0;
	check_compared(t, at, a, b, ops[i].op);
	check_words(t, start, a, b);
	return trigger_parse_add(t, (struct node){ .kind = NODE_COMPARE, .op = ops[i].op, .a = a, .b = b });
}

/* Function names have nearly all characters in them: up to a space or a parenthesis outside of "...". */
static size_t take_caller(struct trigger *t)
{
	const char *start, *end;

	skip_space(t);
	if (*t->at == '"')
		return take_text(t);
	start = t->at;
	end = start + strcspn(start, " \t()&|!");
	if (end == start) {
		fail(t, WC_EUSAGE, start, "Expected the name of a function after caller");
		return 0;
	}
	t->at = end;
	return trigger_parse_add(
		t, (struct node){ .kind = NODE_TEXT, .text = copy_text(t, start, (size_t)(end - start)) });
}

static size_t term(struct trigger *t)
{
	static const struct {
		const char *word;
		enum access_kind kind;
	} kinds[] = { { "read", ACCESS_READ }, { "write", ACCESS_WRITE }, { "execute", ACCESS_EXECUTE } };
	size_t i;

	skip_space(t);
	if (trigger_watch(t, t->at, name_length(t->at)) < t->nnames)
		return compared(t);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (trigger_parse_take(t, kinds[i].word)) {
			t->of_access = true;
			return trigger_parse_add(t,
						 (struct node){ .kind = NODE_KIND, .index = kinds[i].kind });
		}
	}
	if (trigger_parse_take(t, "kernel")) {
		t->of_access = true;
		return trigger_parse_add(t, (struct node){ .kind = NODE_KERNEL });
	}
	if (trigger_parse_take(t, "caller")) {
		t->of_access = t->stack = true;
		i = take_caller(t);
		return t->err ? 0 : trigger_parse_add(t, (struct node){ .kind = NODE_CALLER, .a = i });
	}
	return compared(t);
}

static size_t negated(struct trigger *t)
{
	size_t a;

	if (++t->depth > DEPTH_MAX) {
		fail(t, WC_EUSAGE, t->at, "The condition is nested too deeply");
		return 0;
	}
	skip_space(t);
	if (*t->at == '!' && t->at[1] != '=') {
		t->at++;
		a = negated(t);
		a = t->err ? 0 : trigger_parse_add(t, (struct node){ .kind = NODE_NOT, .a = a });
	} else if (trigger_parse_take(t, "(")) {
		a = trigger_parse_condition(t);
		if (!t->err && !trigger_parse_take(t, ")"))
			fail(t, WC_EUSAGE, t->at, "Expected )");
	} else {
		a = term(t);
	}
	t->depth--;
	return a;
}

static size_t both(struct trigger *t)
{
	size_t a = negated(t), b;

	while (!t->err && trigger_parse_take(t, "&&")) {
		b = negated(t);
		if (!t->err)
			a = trigger_parse_add(t, (struct node){ .kind = NODE_BOTH, .a = a, .b = b });
	}
	return a;
}

static size_t trigger_parse_condition(struct trigger *t)
{
	size_t a = both(t), b;

	while (!t->err && trigger_parse_take(t, "||")) {
		b = both(t);
		if (!t->err)
			a = trigger_parse_add(t, (struct node){ .kind = NODE_EITHER, .a = a, .b = b });
	}
	return a;
}

struct wc_error *trigger_compile(const char *text, const char *const *watches, unsigned int nwatches,
				 struct trigger **ret)
{
	scoped(trigger_freep) struct trigger *t = calloc(1, sizeof(*t));
	struct wc_error *err;
	unsigned int i;

	if (!t)
		return &wc_enomem;
	t->text = strdup(text);
	if (!t->text)
		return &wc_enomem;
	for (i = 0; i < nwatches && i < WATCHES_MAX; i++) {
		t->name[i] = strdup(watches[i]);
		if (!t->name[i])
			return &wc_enomem;
		t->nnames++;
	}
	t->at = t->text;
	t->root = trigger_parse_condition(t);
	skip_space(t);
	if (!t->err && *t->at)
		fail(t, WC_EUSAGE, t->at, "Expected the condition to end here");
	err = t->err;
	t->err = NULL;
	if (!err)
		*ret = take_ptr(t);
	return err;
}
