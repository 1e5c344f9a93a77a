#include "watchctl/code/symbols/locate_match.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANONYMOUS LOCATE_ANONYMOUS

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

/* Copies @name without what people leave out: spaces, parameter lists, and with @anonymous those components.
 */
static void simplify(const char *name, bool anonymous, char *out, size_t len)
{
	size_t n = 0, skip = strlen(ANONYMOUS "::");

	for (const char *s = name; *s && n + 1 < len;) {
		if (strncmp(s, ANONYMOUS, strlen(ANONYMOUS)) == 0) {
			if (anonymous && strncmp(s, ANONYMOUS "::", skip) == 0) {
				s += skip;
				continue;
			}
			for (const char *end = s + strlen(ANONYMOUS); s < end && n + 1 < len;)
				out[n++] = *s++;
			continue;
		}
		if (*s == '(') {
			const char *end = strstr(s, ")::");

			if (end) {
				s = end + 1;
				continue;
			}
		}
		if (*s != ' ')
			out[n++] = *s;
		s++;
	}
	out[n] = '\0';
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
