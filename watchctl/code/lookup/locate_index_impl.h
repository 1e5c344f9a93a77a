/*
 * locate_index_impl - what the files of an index share:
 *
 *	locate_index_file.c	the file, its units and its symbols
 *	locate_index.c		its variables by name
 *	locate_place.c		where they are
 *	locate_complete.c	the definitions of types
 */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_INDEX_IMPL_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_INDEX_IMPL_H

#include "watchctl/base/map64.h"
#include "watchctl/code/lookup/locate_index.h"

struct locate_index {
	struct elffile *file;
	struct symbols *symbols;
	bool opened, read, hides_locals, no_memory;
	Dwarf *dwarf;
	uint64_t bias;
	Dwarf_Die *unit;
	size_t nunits, unit_cap;
	struct variable_entry *v;
	size_t n, cap;
	struct map64 by_name;  /* hash of the last component -> index of the first entry + 1 */
	struct map64 outer;    /* of those in inline namespaces: entry -> scope without these */
	struct map64 scopes;   /* of declarations in namespaces: entry -> scope, one of the strings or "" */
	struct map64 complete; /* types that were completed: declaration -> struct completed, owned */
	char **strings;	       /* scopes; owned */
	size_t nstrings, string_cap;
};

/* Reads the list of its units, once. */
void locate_index_open_units(struct locate_index *x);

#endif
