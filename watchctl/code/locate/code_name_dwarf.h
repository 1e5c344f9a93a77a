/*
 * code_name_dwarf - the functions in debug information, and the places where they were inlined; private to
 * watchctl/code/.
 */
#ifndef WATCHCTL_CODE_LOCATE_CODE_NAME_DWARF_H
#define WATCHCTL_CODE_LOCATE_CODE_NAME_DWARF_H

#include "watchctl/base/map64.h"
#include "watchctl/code/lookup/locate_index.h"

/* One place in the code that answers to a query. Addresses are those of the file. */
struct code_die {
	Dwarf_Die die;	    /* DW_TAG_subprogram, or DW_TAG_inlined_subroutine */
	Dwarf_Die function; /* that it is in; equal to die for the function itself */
	uint32_t unit;
	enum name_fit fit;
	uint64_t bias; /* file address = DWARF address + bias */
};

struct code_dies {
	struct code_die *v;
	size_t n, cap;
};

/*
 * Collects the functions with code called @query, and with @inlined the places where they were inlined.
 * Besides those of that name, functions that begin at one of the @nentries file addresses of @entry count as
 * called so: an alias that the debug information does not know. False: no memory.
 */
bool code_dies_find(struct locate_index *x, const char *query, const uint64_t *entry, size_t nentries,
		    bool inlined, struct code_dies *ret);
void code_dies_deinit(struct code_dies *d);

/* The file address at which @d is entered; 0: unknown. */
uint64_t code_die_entry(struct code_die *d);

/* Calls @each for every range of file addresses that belongs to @d. */
bool code_die_ranges(struct code_die *d, bool (*each)(void *ctx, uint64_t start, uint64_t end), void *ctx);

/* Whether two entries stand for one function: it, its copies, its inlined calls. */
bool code_dies_same_origin(const Dwarf_Die *a, const Dwarf_Die *b);

/* Its name as in the source, malloc'd; NULL: none, or no memory. */
char *code_die_name(Dwarf_Die *die);

#endif
