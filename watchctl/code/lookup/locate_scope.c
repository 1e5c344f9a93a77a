#include "watchctl/code/lookup/locate_scope.h"

#include <stdio.h>
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/symbols/locate_match.h"

const char *locate_scope_part(Dwarf_Die *die)
{
	const char *name = dwarf_diename(die);

	switch (dwarf_tag(die)) {
	case DW_TAG_namespace:
		return name ? name : LOCATE_ANONYMOUS;
	case DW_TAG_module:
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
		return name;
	default:
		return NULL;
	}
}

char *locate_scope_around(Dwarf_Die *die)
{
	scoped(freep) void *scopes = NULL;
	Dwarf_Die *v = NULL;
	char *text = NULL;
	size_t len;
	FILE *f;
	int n = dwarf_getscopes_die(die, &v);

	scopes = v;
	if (n <= 0)
		return NULL;
	f = open_memstream(&text, &len);
	if (!f)
		return NULL;
	for (int i = n - 1, parts = 0; i > 0; i--) {
		const char *part = locate_scope_part(&v[i]);

		if (part)
			fprintf(f, "%s%s", parts++ ? "::" : "", part);
	}
	return fclose(f) == 0 ? text : (free(text), NULL);
}
