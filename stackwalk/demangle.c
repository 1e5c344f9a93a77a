#include "stackwalk/demangle.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"

/* From libstdc++; the one thing we use of it. The Itanium C++ ABI, section 3.4. */
extern char *__cxa_demangle(const char *mangled, char *buf, size_t *len, int *status);

/* Rust before v0 mangles as C++ does and appends "::h" and 16 hex digits. */
static bool has_rust_hash(const char *name, size_t len)
{
	const size_t hash = 19;

	if (len <= hash || strncmp(name + len - hash, "::h", 3) != 0)
		return false;
	for (size_t i = len - 16; i < len; i++)
		if (!isxdigit((unsigned char)name[i]) || isupper((unsigned char)name[i]))
			return false;
	return true;
}

static const struct {
	const char *escape;
	char c;
} rust_escapes[] = {
	{ "$SP$", '@' },  { "$BP$", '*' },  { "$RF$", '&' },  { "$LT$", '<' },	{ "$GT$", '>' },
	{ "$LP$", '(' },  { "$RP$", ')' },  { "$C$", ',' },   { "$u20$", ' ' }, { "$u27$", '\'' },
	{ "$u5b$", '[' }, { "$u5d$", ']' }, { "$u7b$", '{' }, { "$u7d$", '}' }, { "$u7e$", '~' },
	{ "$u3b$", ';' }, { "$u2b$", '+' }, { "$u22$", '"' },
};

/* Writes the character that begins at @s to @out; returns how long it was in @s. */
static size_t unescape_rust(const char *s, char *out)
{
	for (size_t i = 0; i < sizeof(rust_escapes) / sizeof(*rust_escapes); i++) {
		size_t len = strlen(rust_escapes[i].escape);

		if (strncmp(s, rust_escapes[i].escape, len) == 0) {
			*out = rust_escapes[i].c;
			return len;
		}
	}
	*out = *s;
	return 1;
}

/* In place: what it becomes is never longer. */
static void clean_rust(char *name, size_t len)
{
	char *out = name;

	name[len - 19] = '\0';
	for (const char *s = name; *s;) {
		/* A component may not begin with '$': an underscore stands before it. */
		if (s[0] == '_' && s[1] == '$' && (s == name || s[-1] == ':'))
			s++;
		if (s[0] == '.' && s[1] == '.') {
			*out++ = ':';
			*out++ = ':';
			s += 2;
			continue;
		}
		s += unescape_rust(s, out++);
	}
	*out = '\0';
}

char *demangle(const char *symbol)
{
	int status = -1;
	char *name;
	size_t len;

	if (strncmp(symbol, "_Z", 2) != 0 && strncmp(symbol, "___Z", 4) != 0)
		return NULL;
	name = __cxa_demangle(symbol, NULL, NULL, &status);
	if (!name || status != 0)
		return NULL;
	len = strlen(name);
	if (has_rust_hash(name, len))
		clean_rust(name, len);
	return name;
}

char *demangle_or_copy(const char *symbol)
{
	const char *version = strchr(symbol, '@');
	scoped(freep) char *plain = NULL;
	char *name;

	plain = version && version != symbol ? strndup(symbol, (size_t)(version - symbol)) : strdup(symbol);
	if (!plain)
		return NULL;
	name = demangle(plain);
	return name ? name : take_ptr(plain);
}
