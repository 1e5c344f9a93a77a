#include "watchctl/code/symbols/bare_name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Where the parameters in @name begin; its end: it has none. */
static size_t params_at(const char *name)
{
	static const char operator_name[] = "operator";
	const char *last = strrchr(name, ')');
	size_t end = strlen(name), at, depth = 0;

	/* They may be followed by " const", " &&", " [clone .part.0]", but not more of the name. */
	if (!last || strchr(last, ':'))
		return end;
	for (at = (size_t)(last - name) + 1; at--;) {
		depth += name[at] == ')';
		if (name[at] == '(' && --depth == 0)
			break;
	}
	if (depth || !at || at == SIZE_MAX)
		return end;
	/* "operator()" is a name. */
	if (at >= sizeof(operator_name) - 1 &&
	    !memcmp(name + at - (sizeof(operator_name) - 1), operator_name, sizeof(operator_name) - 1) &&
	    last == name + at + 1)
		return end;
	return at;
}

char *bare_name(const char *name, char *buf, size_t cap)
{
	snprintf(buf, cap, "%.*s", (int)params_at(name), name);
	return buf;
}
