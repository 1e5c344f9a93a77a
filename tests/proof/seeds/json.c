/* Prints a tree as JSON, with escapes, and measures it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum type { NUMBER, TEXT, LIST, MAP };

struct value {
	enum type type;
	const char *name, *text;
	double number;
	struct value *child, *next;
};

struct out {
	char buf[1024];
	int n, column, widest;
};

static void put_char(struct out *o, char c)
{
	if (o->n < (int)sizeof(o->buf) - 1)
		o->buf[o->n++] = c;
	o->column = c == '\n' ? 0 : o->column + 1;
	if (o->column > o->widest)
		o->widest = o->column;
}

static void put_text(struct out *o, const char *s)
{
	while (*s)
		put_char(o, *s++);
}

static char escape_of(char c)
{
	switch (c) {
	case '\n':
		return 'n';
	case '\t':
		return 't';
	case '"':
	case '\\':
		return c;
	default:
		return 0;
	}
}

static void put_string(struct out *o, const char *s)
{
	put_char(o, '"');
	for (; *s; s++) {
		char escape = escape_of(*s);

		if (escape) {
			put_char(o, '\\');
			put_char(o, escape);
		} else {
			put_char(o, *s);
		}
	}
	put_char(o, '"');
}

static void put_number(struct out *o, double v)
{
	char text[32];

	if (v == (long)v)
		snprintf(text, sizeof(text), "%ld", (long)v);
	else
		snprintf(text, sizeof(text), "%.3f", v);
	put_text(o, text);
}

static void indent(struct out *o, int depth)
{
	put_char(o, '\n');
	for (int i = 0; i < depth * 2; i++)
		put_char(o, ' ');
}

static void put_value(struct out *o, const struct value *v, int depth);

static void put_children(struct out *o, const struct value *v, int depth)
{
	const struct value *c;

	for (c = v->child; c; c = c->next) {
		indent(o, depth + 1);
		if (v->type == MAP) {
			put_string(o, c->name);
			put_text(o, ": ");
		}
		put_value(o, c, depth + 1);
		if (c->next)
			put_char(o, ',');
	}
	if (v->child)
		indent(o, depth);
}

static void put_value(struct out *o, const struct value *v, int depth)
{
	switch (v->type) {
	case NUMBER:
		put_number(o, v->number);
		break;
	case TEXT:
		put_string(o, v->text);
		break;
	case LIST:
		put_char(o, '[');
		put_children(o, v, depth);
		put_char(o, ']');
		break;
	default:
		put_char(o, '{');
		put_children(o, v, depth);
		put_char(o, '}');
	}
}

static int count(const struct value *v)
{
	int n = 1;

	for (const struct value *c = v->child; c; c = c->next)
		n += count(c);
	return n;
}

static int depth_of(const struct value *v)
{
	int deepest = 0;

	for (const struct value *c = v->child; c; c = c->next) {
		int d = depth_of(c);

		if (d > deepest)
			deepest = d;
	}
	return deepest + 1;
}

static double sum_of(const struct value *v)
{
	double sum = v->type == NUMBER ? v->number : 0;

	for (const struct value *c = v->child; c; c = c->next)
		sum += sum_of(c);
	return sum;
}

static struct value *add(struct value *to, enum type type, const char *name)
{
	struct value *v = calloc(1, sizeof(*v)), **at;

	v->type = type;
	v->name = name;
	for (at = &to->child; *at; at = &(*at)->next)
		;
	*at = v;
	return v;
}

int main(void)
{
	struct value root = { .type = MAP }, *list;
	struct out o = { .n = 0 };

	add(&root, TEXT, "title")->text = "a \"quoted\"\ttitle\n";
	add(&root, NUMBER, "pi")->number = 3.14159;
	list = add(&root, LIST, "items");
	for (int i = 0; i < 4; i++)
		add(list, NUMBER, NULL)->number = i * i;
	add(add(&root, MAP, "inner"), TEXT, "path")->text = "c:\\temp";
	add(&root, LIST, "empty");
	put_value(&o, &root, 0);
	o.buf[o.n] = '\0';
	printf("%s\n%d values, depth %d, sum %.2f, widest %d\n", o.buf, count(&root), depth_of(&root),
	       sum_of(&root), o.widest);
	return 0;
}
