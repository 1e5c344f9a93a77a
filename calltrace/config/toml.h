/*
 * toml - a file in TOML (toml.io, 0.5), read by a library in C++, as a flat list: enough for settings and rules.
 *
 *	enable = true		{ .table = "", .key = "enable", TOML_BOOL }
 *	[[block]]		{ .table = "block", .index = 0, .key = NULL }	a table of an array, before what is in it
 *	file = ["a", "b"]	{ .table = "block", .index = 0, .key = "file", TOML_STRING } twice
 *
 * Keys are in the order of the alphabet, the tables of an array in that of the file.
 */
#ifndef CALLTRACE_CONFIG_TOML_H
#define CALLTRACE_CONFIG_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wc_error;

enum toml_type { TOML_BOOL, TOML_INTEGER, TOML_STRING, TOML_OTHER };

struct toml_value {
	const char *table; /* "": the top level */
	unsigned int index;
	const char *key; /* NULL: the table itself, of an array of tables */
	enum toml_type type;
	bool is_of_list; /* one of several of that key, perhaps */
	bool is_true;
	int64_t number;
	const char *string;
	size_t len; /* of @string, which may hold NULs */
};

struct toml {
	struct toml_value *value;
	size_t n;
	char *path, *text; /* of the file */
};

/* *@ret: toml_free(). WC_EUSAGE: not TOML, with the line and a caret; WC_EFAIL: the file cannot be read. */
struct wc_error *toml_read(const char *path, struct toml **ret);
void toml_free(struct toml *t); /* accepts NULL */
void toml_freep(struct toml **t);

/* WC_EUSAGE: "@path:LINE: @why", with the line and a caret below @v. */
struct wc_error *toml_error(const struct toml *t, const struct toml_value *v, const char *why);

/* Of toml.c, for toml_parse(): says that the text is no TOML, from @line on (1..; 0: it is not known where). */
struct wc_error *toml_syntax_error(const struct toml *t, unsigned int line, const char *why);

/* In C++: fills @t->value from @t->text. */
struct wc_error *toml_parse(struct toml *t);

#ifdef __cplusplus
}
#endif

#endif
