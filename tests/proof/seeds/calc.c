/* A calculator: a tokenizer, a parser by recursive descent, variables. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { END, NUMBER, NAME, SIGN };

struct token {
	enum kind kind;
	long number;
	char text[16];
};

struct lexer {
	const char *at;
	struct token now;
};

struct variable {
	char name[16];
	long value;
};

static struct variable variables[16];
static int nvariables;

static const char *skip_space(const char *s)
{
	while (*s == ' ')
		s++;
	return s;
}

static long read_number(const char **s)
{
	long n = 0;

	while (isdigit((unsigned char)**s)) {
		n = n * 10 + (**s - '0');
		(*s)++;
	}
	return n;
}

static int read_name(const char **s, char *buf, int cap)
{
	int n = 0;

	while (isalpha((unsigned char)**s) && n < cap - 1)
		buf[n++] = *(*s)++;
	buf[n] = '\0';
	return n;
}

static enum kind next_token(struct lexer *l)
{
	l->at = skip_space(l->at);
	l->now.text[0] = '\0';
	if (!*l->at) {
		l->now.kind = END;
	} else if (isdigit((unsigned char)*l->at)) {
		l->now.kind = NUMBER;
		l->now.number = read_number(&l->at);
	} else if (isalpha((unsigned char)*l->at)) {
		l->now.kind = NAME;
		read_name(&l->at, l->now.text, sizeof(l->now.text));
	} else {
		l->now.kind = SIGN;
		l->now.text[0] = *l->at++;
		l->now.text[1] = '\0';
	}
	return l->now.kind;
}

static struct variable *find_variable(const char *name)
{
	for (int i = 0; i < nvariables; i++)
		if (strcmp(variables[i].name, name) == 0)
			return &variables[i];
	return NULL;
}

static long get_variable(const char *name)
{
	struct variable *v = find_variable(name);

	return v ? v->value : 0;
}

static void set_variable(const char *name, long value)
{
	struct variable *v = find_variable(name);

	if (!v && nvariables < 16) {
		v = &variables[nvariables++];
		snprintf(v->name, sizeof(v->name), "%s", name);
	}
	if (v)
		v->value = value;
}

static int is_sign(const struct lexer *l, char sign)
{
	return l->now.kind == SIGN && l->now.text[0] == sign;
}

static long parse_sum(struct lexer *l);

static long parse_atom(struct lexer *l)
{
	long value = 0;

	if (l->now.kind == NUMBER) {
		value = l->now.number;
		next_token(l);
	} else if (l->now.kind == NAME) {
		value = get_variable(l->now.text);
		next_token(l);
	} else if (is_sign(l, '(')) {
		next_token(l);
		value = parse_sum(l);
		if (is_sign(l, ')'))
			next_token(l);
	} else if (is_sign(l, '-')) {
		next_token(l);
		value = -parse_atom(l);
	}
	return value;
}

static long divide(long a, long b)
{
	if (b == 0)
		return 0;
	return a / b;
}

static long parse_product(struct lexer *l)
{
	long value = parse_atom(l);

	while (is_sign(l, '*') || is_sign(l, '/')) {
		char sign = l->now.text[0];
		long right;

		next_token(l);
		right = parse_atom(l);
		value = sign == '*' ? value * right : divide(value, right);
	}
	return value;
}

static long parse_sum(struct lexer *l)
{
	long value = parse_product(l);

	while (is_sign(l, '+') || is_sign(l, '-')) {
		char sign = l->now.text[0];
		long right;

		next_token(l);
		right = parse_product(l);
		value = sign == '+' ? value + right : value - right;
	}
	return value;
}

static long evaluate(const char *line)
{
	struct lexer l = { .at = line };
	char name[16];
	long value;

	next_token(&l);
	if (l.now.kind == NAME && *skip_space(l.at) == '=') {
		snprintf(name, sizeof(name), "%s", l.now.text);
		next_token(&l);
		next_token(&l);
		value = parse_sum(&l);
		set_variable(name, value);
		return value;
	}
	return parse_sum(&l);
}

int main(void)
{
	static const char *const lines[] = { "1 + 2 * 3",    "x = (4 + 5) * 2",	  "y = x / 3 - 1",
					     "x * y - -2",   "100 / (5 - 5) + 1", "longname = 12",
					     "longname * 3", "((2)) * (3 + 4)" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		printf("%s -> %ld\n", lines[i], evaluate(lines[i]));
	return 0;
}
