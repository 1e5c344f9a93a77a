/* locate_type_find - the type that a name means; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_TYPE_FIND_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_TYPE_FIND_H

#include "watchctl/code/lookup/locate_type.h"

/* One meaning of the name. */
struct type_hit {
	struct dtype type;
	char *name; /* "ns::f(int)::local" */
};

/* The hits so far: those that fit best, of different declarations. Zero-initialised but for the first two. */
struct type_search {
	const char *name;      /* "struct conn", "ns::Derived", "file.c::f::local", "unsigned long" */
	const Dwarf_Die *near; /* something in the unit whose types come first; NULL: nothing */
	struct type_hit *hit;
	size_t nhits, cap;
	unsigned int rank; /* of them; 0: none yet */
	bool no_memory;
};

/* Those that functions have for themselves, or those outside of them. */
enum types_of { TYPES_OUTER, TYPES_LOCAL };

/* Looks in all units of @x. */
void type_search_file(struct type_search *s, struct locate_index *x, enum types_of what);

/* How to write hit @i so that no other is meant: "struct f::local"; NULL: there is no way, or no memory. */
char *type_search_form(const struct type_search *s, size_t i);

void type_search_deinit(struct type_search *s);

/* Whether the two, both stripped, are one type. */
bool dtype_is_same(const struct dtype *a, const struct dtype *b);

#endif
