#include <string.h>

#include "watchctl/flow/rules/flow_rules_impl.h"

/* Name, NUL, text, NUL, and so on; an empty name is the end. The build puts it together from the files. */
extern const char flow_rules_texts[];

bool flow_rules_set(size_t i, const char **name, const char **text)
{
	const char *at = flow_rules_texts;

	for (; *at && i; i--)
		for (int part = 0; part < 2; part++)
			at += strlen(at) + 1;
	if (!*at)
		return false;
	*name = at;
	*text = at + strlen(at) + 1;
	return true;
}

const char *flow_rules_set_text(const char *name, size_t len)
{
	const char *of, *text;

	for (size_t i = 0; flow_rules_set(i, &of, &text); i++)
		if (strlen(of) == len && !memcmp(of, name, len))
			return text;
	return NULL;
}

/* The text stands behind its name. */
const char *flow_rules_set_name(const char *text)
{
	const char *at = text - 1;

	while (at > flow_rules_texts && at[-1])
		at--;
	return at;
}
