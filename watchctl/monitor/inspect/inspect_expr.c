#include "watchctl/monitor/inspect/inspect_expr.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"

struct expression {
	bool address;	/* "&" in front */
	bool is_number; /* no name at all */
	uint64_t number;
	int64_t offset;
	char *path;
};

static void expression_deinit(struct expression *e)
{
	free(e->path);
}

static bool number(const char *text, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*ret = strtoull(text, &end, !strncmp(text, "0x", 2) || !strncmp(text, "0X", 2) ? 16 : 10);
	return !errno && !end[strspn(end, " \t")];
}

/* "path + 4": cuts what is added off @text. An arrow is no minus: no number follows it. */
static int64_t cut_offset(char *text)
{
	for (char *c = text + strlen(text); c > text + 1; c--) {
		const char *after = c + strspn(c, " \t");
		uint64_t n;

		if (c[-1] != '+' && c[-1] != '-')
			continue;
		if (!number(after, &n) || n > INT64_MAX)
			return 0;
		after = c[-1] == '-' ? "-" : "+";
		c[-1] = '\0';
		return *after == '-' ? -(int64_t)n : (int64_t)n;
	}
	return 0;
}

/* "&x + i": what is added there is no part of what '&' applies to. */
static bool is_sum(const char *text)
{
	int depth = 0;

	for (const char *c = text; *c; c++) {
		depth += (*c == '(' || *c == '[') - (*c == ')' || *c == ']');
		if (!depth && c > text && (*c == '+' || *c == '@' || (*c == '-' && c[1] != '>')))
			return true;
	}
	return false;
}

static struct wc_error *inspect_expr_parse(const char *text, struct expression *ret)
{
	struct expression e = { 0 };
	size_t len;

	text += strspn(text, " \t");
	if (*text == '&' && (!is_sum(text))) {
		e.address = true;
		text += 1 + strspn(text + 1, " \t");
	}
	e.path = strdup(text);
	if (!e.path)
		return &wc_enomem;
	e.offset = cut_offset(e.path);
	for (len = strlen(e.path); len && isspace((unsigned char)e.path[len - 1]); len--)
		e.path[len - 1] = '\0';
	e.is_number = number(e.path, &e.number);
	if (!*e.path || (e.is_number && e.address)) {
		expression_deinit(&e);
		return wc_error_new(
			WC_EUSAGE,
			"\"%s\" is not an expression: name a variable, like flag, &flag or head->next->len",
			text);
	}
	*ret = e;
	return NULL;
}

static struct wc_error *print_number(const struct show_source *s, uint64_t n, char format, char **ret)
{
	char buf[320];

	show_number(s, format ? format : 'd', 8, n, false, buf, sizeof(buf));
	*ret = strdup(buf);
	return *ret ? NULL : &wc_enomem;
}

static struct wc_error *unreadable(const char *path, uint64_t addr)
{
	return wc_error_new(WC_ENAME, "'%s' at 0x%" PRIx64 " cannot be read", path, addr);
}

/* &object + n, pointer + n, number + n. */
static struct wc_error *add_up(const struct show_source *s, const struct expression *e, uint64_t *ret,
			       bool *is_address)
{
	struct shown at;
	struct wc_error *err;
	uint64_t stride;

	*is_address = true;
	if (e->is_number) {
		*ret = e->number + (uint64_t)e->offset;
		return NULL;
	}
	err = show_locate(s, e->path, &at);
	if (err)
		return err;
	if (e->address || at.is_lvalue_address) {
		/* &array + 1 is behind the array, array + 1 in it. */
		stride = e->address && at.size ? at.size : at.stride;
		*ret = at.addr + (uint64_t)e->offset * stride;
		return NULL;
	}
	if (!at.is_scalar)
		return wc_error_new(WC_ENAME, "'%s' is not an address, and nothing can be added to it",
				    e->path);
	if (!at.has_value)
		return unreadable(e->path, at.addr);
	*is_address = at.is_pointer;
	*ret = at.value + (uint64_t)e->offset * at.stride;
	return NULL;
}

struct wc_error *inspect_expr_print(const struct show_source *s, const char *expr, char format, char **ret)
{
	scoped(expression_deinit) struct expression e = { 0 };
	struct wc_error *err = inspect_expr_parse(expr, &e);
	bool is_address = false;
	uint64_t n;

	if (err)
		return err;
	if (!e.offset && !e.is_number && !(e.address && format))
		return e.address ? show_address(s, e.path, ret) : show_value(s, e.path, format, ret);
	if (e.is_number)
		return print_number(s, e.number + (uint64_t)e.offset,
				    format		   ? format
				    : e.number > INT64_MAX ? 'u'
							   : 'd',
				    ret);
	err = add_up(s, &e, &n, &is_address);
	return err ? err : print_number(s, n, format ? format : is_address ? 'a' : 'd', ret);
}

struct wc_error *inspect_expr_address(const struct show_source *s, const char *expr, uint64_t *ret)
{
	scoped(expression_deinit) struct expression e = { 0 };
	struct wc_error *err = inspect_expr_parse(expr, &e);
	bool is_address;

	return err ? err : add_up(s, &e, ret, &is_address);
}
