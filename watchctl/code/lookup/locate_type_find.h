/* locate_type_find - the type that a name means; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_TYPE_FIND_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_TYPE_FIND_H

#include "watchctl/code/lookup/locate_type.h"

/* What was found so far; zero-initialised but for the first two. */
struct type_search {
	const char *name;      /* "struct conn", "ns::Derived", "unsigned long" */
	const Dwarf_Die *near; /* something in the unit whose types come first; NULL: nothing */
	struct dtype best;
	unsigned int rank; /* of it; 0: none yet */
	/* Another type, as good as the best, and different. */
	struct dtype other;
	bool is_ambiguous;
};

/* Looks in all units of @x. */
void type_search_file(struct type_search *s, struct locate_index *x);

/* Whether the two, both stripped, are one type. */
bool dtype_is_same(const struct dtype *a, const struct dtype *b);

#endif
