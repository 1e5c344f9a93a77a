#include "watchctl/code/dwarf/demangle.h"

#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"

static char *demangle_with(const char *symbol, int options)
{
	/* "_Z": C++ and old Rust; "_R": Rust. Other languages' names must not be taken for these. */
	if (symbol[0] != '_' || (symbol[1] != 'Z' && symbol[1] != 'R' && strncmp(symbol, "___Z", 4) != 0))
		return NULL;
	return cplus_demangle(symbol, DMGL_AUTO | DMGL_ANSI | options);
}

char *demangle(const char *symbol)
{
	return demangle_with(symbol, DMGL_PARAMS);
}

char *demangle_bare(const char *symbol)
{
	return demangle_with(symbol, DMGL_RET_DROP);
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
