/*
 * dwarf_language - what the rules of a source language are, as far as finding a variable needs them; private
 * to watchctl/code/.
 */
#ifndef WATCHCTL_CODE_DWARF_DWARF_LANGUAGE_H
#define WATCHCTL_CODE_DWARF_DWARF_LANGUAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

/* Languages that write and lay out their variables alike. */
enum dwarf_family {
	FAMILY_OTHER, /* its rules are not known here: nothing inside a variable is found */
	FAMILY_C,
	FAMILY_CXX,
	FAMILY_GO,
	FAMILY_RUST,
	FAMILY_FORTRAN,
	FAMILY_ADA,
	FAMILY_PASCAL,
};

struct dwarf_language {
	Dwarf_Word code;  /* DW_LANG_* */
	const char *name; /* for people */
	enum dwarf_family family;
};

/* Never NULL: of a code that is not known the name says so. 0, nothing said, is taken for C. */
const struct dwarf_language *dwarf_language(Dwarf_Word code);

/* Of the unit that @die is in; NULL: it does not say (a partial unit, which dwz makes). */
const struct dwarf_language *dwarf_die_language(Dwarf_Die *die);

/* The first index of a dimension for which no other is said. */
int64_t dwarf_family_lower(enum dwarf_family family);

/* "FLAG" and "flag" are one name. */
bool dwarf_family_ignores_case(enum dwarf_family family);

/* "table[3]", from 0 on, an index of its own for each dimension. */
bool dwarf_family_indexes_as_c(enum dwarf_family family);

/* "x.member" also where x is a pointer to the object. */
bool dwarf_family_dot_follows(enum dwarf_family family);

#endif
