#include "watchctl/trace/change_note.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define VALUES " changed from "
#define TIMES " between "
#define END " without an access by this process"

char *change_note_text(const struct change_note *n)
{
	bool shown = n->from && n->to;
	char *text;

	if (asprintf(&text, "%s%s%s%s%s" TIMES "%s and %s" END " (likely: %s)", n->name,
		     shown ? VALUES : " changed", shown ? n->from : "", shown ? " to " : "",
		     shown ? n->to : "", n->after, n->before, n->reasons) < 0)
		return NULL;
	return text;
}

/* The last one in @text before @end; NULL: there is none. */
static const char *last_before(const char *text, const char *end, const char *what)
{
	const char *found = NULL, *at;

	for (at = text; (at = strstr(at, what)) && at < end; at++)
		found = at;
	return found;
}

char *change_note_withhold(const char *text, bool *ok)
{
	const char *from = strstr(text, VALUES), *end = from ? strstr(from, END) : NULL;
	const char *times = end ? last_before(from, end, TIMES) : NULL;
	char *cut;

	*ok = true;
	if (!times)
		return NULL;
	*ok = asprintf(&cut, "%.*s changed%s", (int)(from - text), text, times) >= 0;
	return *ok ? cut : NULL;
}
