#include "watchctl/code/symbols/code_name_match.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/demangle.h"

/*
 * What compilers append to the names of parts and copies: GCC's passes, then LLVM's, then Go's two calling
 * conventions; most with a number behind. Any other suffix belongs to the name: Go's "main.f" is no copy of
 * "main".
 */
static const struct {
	const char *suffix;
	bool plain, numbered; /* it may stand alone, it may have a number */
	enum hit_part part;
} suffixes[] = {
	{ "cold", true, true, HIT_PART },	 { "part", false, true, HIT_PART },
	{ "constprop", false, true, HIT_CLONE }, { "isra", false, true, HIT_CLONE },
	{ "simdclone", false, true, HIT_CLONE }, { "lto_priv", false, true, HIT_WHOLE },
	{ "localalias", true, true, HIT_WHOLE }, { "llvm", false, true, HIT_WHOLE },
	{ "__uniq", false, true, HIT_WHOLE },	 { "specialized", false, true, HIT_CLONE },
	{ "argprom", true, true, HIT_CLONE },	 { "__part", false, true, HIT_PART },
	{ "abi0", true, false, HIT_WHOLE },	 { "abiinternal", true, false, HIT_WHOLE },
};

bool code_name_cut_suffix(char *name, enum hit_part *part)
{
	char *dot = strrchr(name, '.'), *number = NULL;

	if (dot && dot > name && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1)) {
		number = dot;
		*dot = '\0';
		dot = strrchr(name, '.');
	}
	for (size_t i = 0; dot && dot > name && i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		if (strcmp(dot + 1, suffixes[i].suffix) != 0 ||
		    !(number ? suffixes[i].numbered : suffixes[i].plain))
			continue;
		*dot = '\0';
		if (suffixes[i].part > *part)
			*part = suffixes[i].part;
		return true;
	}
	if (number)
		*number = '.';
	return false;
}

/* Without version, parts and copies: "f@@V1", "f.isra.0.cold" -> "f". NULL: no memory. */
static char *plain_symbol(const char *symbol, enum hit_part *part)
{
	const char *version = strchr(symbol + 1, '@');
	char *plain = version ? strndup(symbol, (size_t)(version - symbol)) : strdup(symbol);

	*part = HIT_WHOLE;
	while (plain && code_name_cut_suffix(plain, part))
		;
	return plain;
}

static bool opens(char c)
{
	return c == '<' || c == '[';
}

static bool closes(char c)
{
	return c == '>' || c == ']';
}

/* In place: "ns::box<int>::get<char>" -> "ns::box::get". Operators are not brackets. */
static void cut_template_arguments(char *name)
{
	const char *op = strstr(name, "operator");
	size_t depth = 0, n = 0;

	for (const char *s = name; *s && !(op && s >= op); s++) {
		/* "<T as Trait>::f" of Rust begins with one: that is part of the name */
		if (opens(*s) && s > name && s[-1] != ':')
			depth++;
		else if (closes(*s) && depth && s[-1] != '-')
			depth--;
		else if (!depth)
			name[n++] = *s;
	}
	if (op)
		memmove(name + n, op, strlen(op) + 1);
	else
		name[n] = '\0';
}

static enum name_fit better(enum name_fit a, enum name_fit b)
{
	return a > b ? a : b;
}

enum name_fit code_name_fit(const char *symbol, const char *query, enum hit_part *part)
{
	scoped(freep) char *plain = plain_symbol(symbol, part);
	scoped(freep) char *bare = NULL;
	scoped(freep) char *full = NULL;
	enum name_fit fit;

	if (!plain)
		return FIT_NONE;
	/* A copy that is called by its own name is what is wanted. */
	if (strcmp(symbol, query) == 0) {
		*part = HIT_WHOLE;
		return FIT_EXACT;
	}
	bare = demangle_bare(plain);
	if (!bare)
		return locate_name_fit(NULL, plain, query);
	fit = locate_name_fit(NULL, bare, query);
	if (strchr(query, '(') && (full = demangle(plain)))
		fit = better(fit, locate_name_fit(NULL, full, query));
	if (!fit && !strpbrk(query, "<[")) {
		cut_template_arguments(bare);
		fit = locate_name_fit(NULL, bare, query);
	}
	return fit;
}

char *code_name_shown(const char *symbol)
{
	enum hit_part part;
	scoped(freep) char *plain = plain_symbol(symbol, &part);
	scoped(freep) char *name = plain ? demangle(plain) : NULL;
	char *shown = NULL;

	if (!plain)
		return NULL;
	/* A C name keeps its suffix, by which it can be selected. */
	if (!name)
		return demangle_or_copy(symbol);
	if (part == HIT_WHOLE)
		return take_ptr(name);
	if (asprintf(&shown, "%s%s", name, symbol + strlen(plain)) < 0)
		return NULL;
	return shown;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

const char *code_name_word(const char *query, size_t *len)
{
	const char *last = locate_last_component(query), *s = last;

	*len = 0;
	/* "operator+" is mangled as "pl"; "{closure#0}" and "<T as U>" have no name of their own. */
	if (strncmp(last, "operator", 8) == 0)
		return last;
	if (*s == '~')
		s++;
	while (is_word(s[*len]))
		(*len)++;
	return s;
}
