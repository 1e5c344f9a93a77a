#include "watchctl/code/symbols/locate_match.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANONYMOUS LOCATE_ANONYMOUS

/* Deeper arguments of templates are compared as they are written. */
#define ARGUMENTS_DEPTH 16

const char *locate_last_component(const char *name)
{
	const char *last = name, *s;

	for (s = name; *s; s++) {
		if (s[0] == '<' || s[0] == '(' || s[0] == '{')
			/* nothing inside a template's arguments separates components of this name */
			for (int depth = 0; *s; s++) {
				depth += strchr("<({", *s) ? 1 : strchr(">)}", *s) ? -1 : 0;
				if (!depth)
					break;
			}
		if (!*s)
			break;
		if (s[0] == ':' && s[1] == ':')
			last = s + 2;
		else if ((s[0] == '.' || s[0] == '/') && s[1])
			last = s + 1;
	}
	return last;
}

static bool is_one_of(const char *s, size_t len, const char *const *names)
{
	for (size_t i = 0; names[i]; i++)
		if (strlen(names[i]) == len && memcmp(s, names[i], len) == 0)
			return true;
	return false;
}

void locate_cut_thread_local(char *full)
{
	/* What std's macro calls the variable, and the items around it, in the releases so far. */
	static const char *const variables[] = { "__KEY", "VAL", "__RUST_STD_INTERNAL_VAL", NULL };
	static const char *const around[] = { "__getit", "{constant#0}", "{{constant}}", "{K#0}", NULL };
	char *last = strrchr(full, ':'), *end;
	bool found = false;

	if (!last || last == full || !is_one_of(last + 1, strlen(last + 1), variables))
		return;
	for (end = last - 1; end > full;) {
		char *start = end;

		while (start > full && start[-1] != ':')
			start--;
		if (start < full + 2 || (*start != '{' && !is_one_of(start, (size_t)(end - start), around)))
			break;
		found |= is_one_of(start, (size_t)(end - start), around);
		end = start - 2;
	}
	if (found)
		*end = '\0';
}

char *locate_scope_of(char *full)
{
	char *name = full ? (char *)locate_last_component(full) : NULL;
	size_t len;

	if (!full || name < full + 2 || name[-1] != ':') {
		free(full);
		return NULL;
	}
	name[-2] = '\0';
	len = strlen(full);
	/* drop "(int) const" of a function */
	if (len && strchr(full, '(') && (full[len - 1] == ')' || strstr(full, ") const"))) {
		char *open = strrchr(full, '(');

		if (open > full && strcmp(open, ANONYMOUS) != 0 &&
		    strncmp(open, ANONYMOUS, strlen(ANONYMOUS)) != 0)
			*open = '\0';
	}
	return full;
}

const char *locate_skip_parameters(const char *s)
{
	static const char *const qualifiers[] = { " const", " volatile", " &&", " &" };
	int depth = 0;

	if (*s != '(' || strncmp(s, ANONYMOUS, strlen(ANONYMOUS)) == 0)
		return NULL;
	do {
		depth += *s == '(' ? 1 : *s == ')' ? -1 : 0;
	} while (*s++ && depth);
	if (depth)
		return NULL;
	for (size_t i = 0; i < sizeof(qualifiers) / sizeof(*qualifiers); i++)
		if (strncmp(s, qualifiers[i], strlen(qualifiers[i])) == 0)
			s += strlen(qualifiers[i]);
	return strncmp(s, "::", 2) == 0 ? s : NULL;
}

/*
 * A name as all compilers and people mean it: without spaces, and in the arguments of templates "long" for
 * "long int", and "charconst" for "const char".
 */
struct simple {
	char *out;
	size_t n, len;
	unsigned int depth;			/* of the arguments of templates */
	unsigned char pending[ARGUMENTS_DEPTH]; /* qualifiers that come behind what they qualify */
};

enum { QUALIFIER_CONST = 1, QUALIFIER_VOLATILE = 2 };

static void simple_put(struct simple *x, const char *s, size_t len)
{
	for (; len && x->n + 1 < x->len; len--)
		x->out[x->n++] = *s++;
}

static bool simple_ends_in(const struct simple *x, const char *end)
{
	size_t len = strlen(end);

	return x->n >= len && memcmp(x->out + x->n - len, end, len) == 0;
}

static size_t word_length(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == '$' || (unsigned char)s[n] >= 0x80)
		n++;
	return n;
}

static void put_pending(struct simple *x)
{
	unsigned char pending = x->depth < ARGUMENTS_DEPTH ? x->pending[x->depth] : 0;

	if (!pending)
		return;
	if (pending & QUALIFIER_CONST)
		simple_put(x, "const", 5);
	if (pending & QUALIFIER_VOLATILE)
		simple_put(x, "volatile", 8);
	x->pending[x->depth] = 0;
}

/* Takes a qualifier at *@s that is to come later. */
static bool take_qualifier(struct simple *x, const char **s, size_t n)
{
	bool is_const = n == 5 && strncmp(*s, "const", 5) == 0;

	if (x->depth >= ARGUMENTS_DEPTH || (!is_const && !(n == 8 && strncmp(*s, "volatile", 8) == 0)))
		return false;
	x->pending[x->depth] |= is_const ? QUALIFIER_CONST : QUALIFIER_VOLATILE;
	*s += n;
	return true;
}

/* "long unsigned int" at *@s, with qualifiers among its words. False: no number. */
static bool take_number(struct simple *x, const char **s)
{
	static const char *const words[] = { "unsigned", "signed", "short", "long", "char",
					     "int",	 "double", "float", NULL };
	unsigned int count[8] = { 0 }, n = 0;

	for (size_t len; (len = word_length(*s)); *s += strspn(*s, " ")) {
		size_t i = 0;

		if (n && take_qualifier(x, s, len))
			continue;
		while (words[i] && (strlen(words[i]) != len || strncmp(words[i], *s, len) != 0))
			i++;
		if (!words[i])
			break;
		count[i]++;
		n++;
		*s += len;
	}
	if (!n)
		return false;
	if (count[0] || count[2] || count[3])
		count[5] = 0; /* "int" */
	if (count[1] && !count[4] && !count[2] && !count[3])
		count[5] = 1;
	if (!count[4])
		count[1] = 0; /* "signed" */
	for (size_t i = 0; i < 8; i++)
		for (; count[i]; count[i]--)
			simple_put(x, words[i], strlen(words[i]));
	return true;
}

/* A word, or a mark, inside the arguments of a template. False: nothing of it is special. */
static bool simplify_argument(struct simple *x, const char **s)
{
	size_t n = word_length(*s);

	if (n && (isalnum((unsigned char)x->out[x->n - 1]) || x->out[x->n - 1] == '_') && (*s)[-1] != ' ')
		return false; /* inside of a word */
	if (n && strchr("<,(", x->out[x->n - 1]) && take_qualifier(x, s, n))
		return true;
	if (n)
		return take_number(x, s);
	if (strchr("*&,>)", **s))
		put_pending(x);
	return false;
}

/* Copies @name without what people leave out: spaces, parameter lists, and with @anonymous those components.
 */
static void simplify(const char *name, bool anonymous, char *out, size_t len)
{
	struct simple x = { out, 0, len, 0, { 0 } };
	size_t skip = strlen(ANONYMOUS "::");

	for (const char *s = name, *end; *s && x.n + 1 < len;) {
		if (strncmp(s, ANONYMOUS, strlen(ANONYMOUS)) == 0) {
			if (anonymous && strncmp(s, ANONYMOUS "::", skip) == 0) {
				s += skip;
				continue;
			}
			simple_put(&x, ANONYMOUS, strlen(ANONYMOUS));
			s += strlen(ANONYMOUS);
			continue;
		}
		/* "operator()(int)::x": the first brackets are its name. */
		if (simple_ends_in(&x, "operator") && !strncmp(s, "()", 2)) {
			simple_put(&x, s, 2);
			s += 2;
			continue;
		}
		end = locate_skip_parameters(s);
		if (end) {
			s = end;
			continue;
		}
		if (x.depth && simplify_argument(&x, &s))
			continue;
		if (*s == '<' && !simple_ends_in(&x, "operator") && !simple_ends_in(&x, "operator<"))
			x.depth++;
		else if (*s == '>' && x.depth)
			x.depth--;
		if (*s != ' ')
			simple_put(&x, s, 1);
		s++;
	}
	out[x.n] = '\0';
}

static bool is_component_end(const char *full, const char *at)
{
	if (at == full)
		return true;
	return at[-1] == '.' || at[-1] == '/' || (at >= full + 2 && at[-1] == ':' && at[-2] == ':');
}

enum name_fit locate_name_fit(const char *scope, const char *name, const char *query)
{
	char full[1024], plain[1024], wanted[1024];
	size_t len, n;

	snprintf(full, sizeof(full), "%s%s%s", scope ? scope : "", scope ? "::" : "", name);
	if (strcmp(full, query) == 0)
		return FIT_EXACT;
	simplify(query, false, wanted, sizeof(wanted));
	n = strlen(wanted);
	/* Without, then with, the anonymous namespaces spelled out. */
	for (int anonymous = 0; anonymous < 2; anonymous++) {
		simplify(full, anonymous, plain, sizeof(plain));
		len = strlen(plain);
		if (strcmp(plain, wanted) == 0)
			return anonymous ? FIT_SUFFIX : FIT_EXACT;
		if (len > n && strcmp(plain + len - n, wanted) == 0 &&
		    is_component_end(plain, plain + len - n))
			return FIT_SUFFIX;
	}
	return FIT_NONE;
}

static char *folded(const char *s)
{
	char *copy = strdup(s);

	for (char *c = copy; c && *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return copy;
}

enum name_fit locate_name_fit_folded(const char *scope, const char *name, const char *query)
{
	char *s = scope ? folded(scope) : NULL, *n = folded(name), *q = folded(query);
	enum name_fit fit = n && q && (s || !scope) ? locate_name_fit(s, n, q) : FIT_NONE;

	free(s);
	free(n);
	free(q);
	return fit;
}

bool locate_path_fit(const char *path, const char *file)
{
	size_t len = strlen(path), n = strlen(file);

	while (strncmp(file, "./", 2) == 0) {
		file += 2;
		n -= 2;
	}
	if (len < n || strcmp(path + len - n, file) != 0)
		return false;
	return len == n || path[len - n - 1] == '/';
}
