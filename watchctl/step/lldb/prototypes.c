/*
 * The list is C declarations, one a line, in alphabetical order of the names, parsed when one is asked for:
 *
 *	"ssize_t read(int fd, void *buf, size_t count)", MINUS_ONE
 *
 * A type is one of the words below, or a pointer. `const char *` is a string that exists when the function is
 * called; `char *` as a parameter is a buffer, of which nothing is known then, and as a result a string.
 * `callback` is a pointer to a function, `chars` one to characters that need not end with a NUL byte.
 */
#include "watchctl/step/lldb/prototypes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEVER PROTOTYPE_FAILS_NEVER
#define MINUS_ONE PROTOTYPE_FAILS_MINUS_ONE
#define NULL_PTR PROTOTYPE_FAILS_NULL

static const struct word {
	const char *name;
	enum type_kind kind;
	uint32_t size;
} words[] = {
	{ "void", TYPE_VOID, 0 },
	{ "int", TYPE_SIGNED, 4 },
	{ "unsigned int", TYPE_UNSIGNED, 4 },
	{ "long", TYPE_SIGNED, 8 },
	{ "unsigned long", TYPE_UNSIGNED, 8 },
	{ "long long", TYPE_SIGNED, 8 },
	{ "unsigned long long", TYPE_UNSIGNED, 8 },
	{ "double", TYPE_FLOAT, 8 },
	{ "float", TYPE_FLOAT, 4 },
	{ "long double", TYPE_FLOAT, 16 },
	{ "bool", TYPE_BOOL, 1 },
	{ "size_t", TYPE_UNSIGNED, 8 },
	{ "ssize_t", TYPE_SIGNED, 8 },
	{ "off_t", TYPE_SIGNED, 8 },
	{ "time_t", TYPE_SIGNED, 8 },
	{ "clock_t", TYPE_SIGNED, 8 },
	{ "clockid_t", TYPE_SIGNED, 4 },
	{ "pid_t", TYPE_SIGNED, 4 },
	{ "uid_t", TYPE_UNSIGNED, 4 },
	{ "gid_t", TYPE_UNSIGNED, 4 },
	{ "mode_t", TYPE_UNSIGNED, 4 },
	{ "socklen_t", TYPE_UNSIGNED, 4 },
	{ "nfds_t", TYPE_UNSIGNED, 8 },
	{ "useconds_t", TYPE_UNSIGNED, 4 },
	{ "wchar_t", TYPE_SIGNED, 4 },
	{ "wint_t", TYPE_UNSIGNED, 4 },
	{ "wctype_t", TYPE_UNSIGNED, 8 },
	{ "pthread_t", TYPE_UNSIGNED, 8 },
	{ "pthread_key_t", TYPE_UNSIGNED, 4 },
	{ "sighandler_t", TYPE_POINTER, 8 },
	{ "callback", TYPE_POINTER, 8 },
	{ "chars", TYPE_POINTER, 8 },
	{ "va_list", TYPE_POINTER, 8 }, /* an array: it is its address that is passed */
	{ "locale_t", TYPE_POINTER, 8 },
	{ "uint16_t", TYPE_UNSIGNED, 2 },
	{ "uint32_t", TYPE_UNSIGNED, 4 },
	{ "uint64_t", TYPE_UNSIGNED, 8 },
	{ "key_t", TYPE_SIGNED, 4 },
	{ "id_t", TYPE_UNSIGNED, 4 },
	{ "eventfd_t", TYPE_UNSIGNED, 8 },
};

static const struct entry {
	const char *text;
	enum prototype_fails fails;
} entries[] = {
#include "watchctl/step/lldb/prototypes_list.h"
};

#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

static const char *skip_blanks(const char *s)
{
	return s + strspn(s, " ");
}

static bool is_word_char(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool type_is(const char *text, size_t len, const char *name)
{
	return strlen(name) == len && memcmp(text, name, len) == 0;
}

static bool parse_type(const char *text, size_t len, bool is_result, struct prototype_type *ret)
{
	while (len && text[len - 1] == ' ')
		len--;
	if (!len || len >= sizeof(ret->name))
		return false;
	memcpy(ret->name, text, len);
	ret->name[len] = '\0';
	if (text[len - 1] == '*') {
		bool is_string =
			type_is(text, len, "const char *") || (is_result && type_is(text, len, "char *"));

		ret->kind = is_string ? TYPE_STRING : TYPE_POINTER;
		ret->size = 8;
		return true;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (type_is(text, len, words[i].name)) {
			if (strcmp(words[i].name, "chars") == 0)
				strcpy(ret->name, "const char *");
			ret->kind = words[i].kind;
			ret->size = words[i].size;
			return true;
		}
	return false;
}

/* "TYPE NAME", of @len characters: the name is the last word. */
static bool parse_declared(const char *text, size_t len, bool is_result, char name[PROTOTYPE_TEXT_MAX],
			   struct prototype_type *type)
{
	size_t at = len;

	while (at && is_word_char(text[at - 1]))
		at--;
	if (at == len || !at || len - at >= PROTOTYPE_TEXT_MAX)
		return false;
	memcpy(name, text + at, len - at);
	name[len - at] = '\0';
	return parse_type(text, at, is_result, type);
}

static bool parse_params(const char *s, struct prototype *ret)
{
	for (;;) {
		size_t len = strcspn(s, ",)");

		if (type_is(s, len, "void") || type_is(s, len, "..."))
			return true;
		if (ret->nparams == PROTOTYPE_PARAMS_MAX ||
		    !parse_declared(s, len, false, ret->param[ret->nparams].name,
				    &ret->param[ret->nparams].type))
			return false;
		ret->nparams++;
		if (s[len] != ',')
			return true;
		s = skip_blanks(s + len + 1);
	}
}

static bool prototypes_parse(const struct entry *e, struct prototype *ret)
{
	size_t head = strcspn(e->text, "(");
	char name[PROTOTYPE_TEXT_MAX];

	memset(ret, 0, sizeof(*ret));
	ret->fails = e->fails;
	return parse_declared(e->text, head, true, name, &ret->result) &&
	       parse_params(e->text + head + 1, ret);
}

/* Where the name stands in the text, and how long it is. */
static const char *name_of(const struct entry *e, size_t *len)
{
	size_t end = strcspn(e->text, "("), start = end;

	while (start && is_word_char(e->text[start - 1]))
		start--;
	*len = end - start;
	return e->text + start;
}

static int prototypes_compare(const void *key, const void *entry)
{
	size_t len;
	const char *name = name_of(entry, &len), *wanted = key;
	int d = strncmp(wanted, name, len);

	return d ? d : wanted[len] != '\0' && wanted[len] != '@';
}

bool prototype_find(const char *name, struct prototype *ret)
{
	const struct entry *e = bsearch(name, entries, ENTRIES, sizeof(entries[0]), prototypes_compare);

	return e && prototypes_parse(e, ret);
}

const char *prototype_name(unsigned int i)
{
	static _Thread_local char name[PROTOTYPE_TEXT_MAX];
	const char *at;
	size_t len;

	if (i >= ENTRIES)
		return NULL;
	at = name_of(&entries[i], &len);
	snprintf(name, sizeof(name), "%.*s", (int)len, at);
	return name;
}
