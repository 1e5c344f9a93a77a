#include "calltrace/config/toml.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"

#define FILE_MAX (1u << 20)
#define DEPTH_MAX 64 /* the library calls itself for each bracket */

/* Places */

/* A line of a text, without its end. */
struct line {
	const char *text;
	size_t len;
	unsigned int number; /* 1.. */
};

static bool next_line(const char *text, struct line *l)
{
	const char *from = l->number ? l->text + l->len : text;

	if (l->number && *from)
		from++;
	if (!*from)
		return false;
	l->text = from;
	l->len = strcspn(from, "\n");
	l->number++;
	return true;
}

/* From its first character that is no blank on. */
static struct line strip(struct line l)
{
	for (; l.len && isblank((unsigned char)*l.text); l.text++)
		l.len--;
	for (; l.len && isspace((unsigned char)l.text[l.len - 1]);)
		l.len--;
	return l;
}

/* @l begins with @word, behind which there is none of its characters. */
static bool begins_with(const struct line *l, const char *word)
{
	const size_t len = strlen(word);

	return l->len > len && !memcmp(l->text, word, len) && !isalnum((unsigned char)l->text[len]) &&
	       l->text[len] != '_' && l->text[len] != '-';
}

/* "[[block]]", whatever blanks are in it. */
static bool is_header(const struct line *l, const char *table)
{
	char packed[128];
	size_t n = 0, i, len = strlen(table);

	for (i = 0; i < l->len && n < sizeof(packed); i++)
		if (!isblank((unsigned char)l->text[i]))
			packed[n++] = l->text[i];
	return n >= len + 4 && n < sizeof(packed) && !memcmp(packed, "[[", 2) &&
	       !memcmp(packed + 2, table, len) && !memcmp(packed + 2 + len, "]]", 2);
}

/* Where @v is: exact for files as people write them. False: it is not found, as it is written in another way. */
static bool find(const struct toml *t, const struct toml_value *v, struct line *ret)
{
	struct line each = { 0 };
	unsigned int seen = 0;
	bool is_inside = !*v->table;

	while (next_line(t->text, &each)) {
		*ret = strip(each);
		if (*v->table && is_header(ret, v->table)) {
			is_inside = seen++ == v->index;
			if (is_inside && !v->key)
				return true;
		} else if (ret->len && *ret->text == '[') {
			if (!*v->table && v->key &&
			    begins_with(&(struct line){ ret->text + 1, ret->len - 1, 0 }, v->key))
				return true;
			is_inside = false;
		} else if (is_inside && v->key && begins_with(ret, v->key)) {
			return true;
		}
	}
	return false;
}

/* Sentences */

/* @place.number 0: there is no line to be shown. */
static struct wc_error *error_at(const struct toml *t, struct line place, size_t width, const char *why)
{
	char caret[120];

	if (!place.number)
		return wc_error_new(WC_EUSAGE, "%s: %s", t->path, why);
	if (place.len > sizeof(caret) - 1)
		place.len = sizeof(caret) - 1;
	if (width > place.len)
		width = place.len;
	memset(caret, '~', sizeof(caret));
	caret[0] = '^';
	caret[width ? width : 1] = '\0';
	return wc_error_new(WC_EUSAGE, "%s:%u: %s\n    %.*s\n    %s", t->path, place.number, why,
			    (int)place.len, place.text, caret);
}

struct wc_error *toml_error(const struct toml *t, const struct toml_value *v, const char *why)
{
	struct line place = { 0 };

	if (!find(t, v, &place))
		place.number = 0;
	return error_at(t, place, v->key ? strlen(v->key) : place.len, why);
}

struct wc_error *toml_syntax_error(const struct toml *t, unsigned int line, const char *why)
{
	struct line place = { 0 };
	char text[256];

	while (place.number < line && next_line(t->text, &place))
		;
	if (place.number != line)
		place.number = 0;
	place = strip(place);
	snprintf(text, sizeof(text), "it is not TOML: %c%s", tolower((unsigned char)*why),
		 *why ? why + 1 : "");
	return error_at(t, place, place.len, text);
}

/* Reading */

static struct wc_error *read_text(struct toml *t)
{
	scoped(closep) int fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n = 0;
	size_t len = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot read %s", t->path);
	if (!S_ISREG(st.st_mode))
		return wc_error_new(WC_EFAIL, "cannot read %s: it is no file", t->path);
	t->text = malloc(FILE_MAX + 1);
	if (!t->text)
		return &wc_enomem;
	while (len <= FILE_MAX && (n = read(fd, t->text + len, FILE_MAX + 1 - len)) > 0)
		len += (size_t)n;
	if (n < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot read %s", t->path);
	if (len > FILE_MAX)
		return wc_error_new(WC_EUSAGE, "%s has more than 1 MiB: that is no file of settings",
				    t->path);
	t->text[len] = '\0';
	return strlen(t->text) == len ? NULL
				      : wc_error_new(WC_EUSAGE, "%s is not TOML: it has a NUL byte", t->path);
}

/* Brackets outside of strings, as far as one can tell without reading these. */
static struct wc_error *check_depth(const struct toml *t)
{
	unsigned int depth = 0, line = 1;
	const char *p;
	char quote = 0;

	for (p = t->text; *p; p++) {
		if (*p == '\n') {
			quote = 0;
			line++;
		} else if (quote) {
			quote = *p == quote ? 0 : quote;
		} else if (*p == '#') {
			p += strcspn(p, "\n") - 1;
		} else if (*p == '"' || *p == '\'') {
			quote = *p;
		} else if (*p == '[' || *p == '{') {
			if (++depth > DEPTH_MAX)
				return toml_syntax_error(t, line, "brackets in brackets, too many of them");
		} else if ((*p == ']' || *p == '}') && depth) {
			depth--;
		}
	}
	return NULL;
}

struct wc_error *toml_read(const char *path, struct toml **ret)
{
	scoped(toml_freep) struct toml *t = calloc(1, sizeof(*t));
	struct wc_error *err;

	*ret = NULL;
	if (t)
		t->path = strdup(path);
	if (!t || !t->path)
		return &wc_enomem;
	err = read_text(t);
	if (!err)
		err = check_depth(t);
	if (!err)
		err = toml_parse(t);
	if (!err)
		*ret = take_ptr(t);
	return err;
}

void toml_free(struct toml *t)
{
	size_t i;

	for (i = 0; t && i < t->n; i++) {
		free((char *)t->value[i].table);
		free((char *)t->value[i].key);
		free((char *)t->value[i].string);
	}
	if (t) {
		free(t->value);
		free(t->path);
		free(t->text);
	}
	free(t);
}

void toml_freep(struct toml **t)
{
	toml_free(*t);
}
