#include "watchctl/cli/output/slots_print.h"

#include <stdio.h>

#include "watchctl/base/utf8.h"

static const char *access_words(enum access_kind access)
{
	switch (access) {
	case ACCESS_READ:
		return "reads of";
	case ACCESS_WRITE:
		return "writes to";
	case ACCESS_EXECUTE:
		return "executions of";
	default:
		return "reads and writes of";
	}
}

void slots_what(char *buf, size_t cap, enum access_kind access, const char *name, uint64_t addr,
		uint64_t size)
{
	const char *what = access_words(access);
	char clean[SLOT_NAME + 1];

	if (!addr)
		snprintf(buf, cap, "%s a thread-local variable (%llu byte%s)", what, (unsigned long long)size,
			 size == 1 ? "" : "s");
	else if (access == ACCESS_EXECUTE)
		snprintf(buf, cap, "%s %s%s0x%llx%s", what,
			 name && *name ? utf8_clean(name, clean, sizeof(clean)) : "",
			 name && *name ? " (" : "", (unsigned long long)addr, name && *name ? ")" : "");
	else
		snprintf(buf, cap, "%s %s (%llu byte%s at 0x%llx)", what,
			 name && *name ? utf8_clean(name, clean, sizeof(clean)) : "memory without a name",
			 (unsigned long long)size, size == 1 ? "" : "s", (unsigned long long)addr);
}

const char *slots_access(enum access_kind access)
{
	switch (access) {
	case ACCESS_READ:
		return "r";
	case ACCESS_WRITE:
		return "w";
	case ACCESS_EXECUTE:
		return "x";
	default:
		return "rw";
	}
}

const char *slots_engine(enum slot_engine engine)
{
	static const char *const name[] = { "handler", "ring", "ptrace" };

	return name[engine];
}

bool slots_is_first(const struct slots *s, size_t i, slots_like *like, size_t *ret_n)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (like(&s->thread[k], &s->thread[i]))
			return false;
	*ret_n = 0;
	for (; k < s->nthreads; k++)
		*ret_n += like(&s->thread[k], &s->thread[i]);
	return true;
}
