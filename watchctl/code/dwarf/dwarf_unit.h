/*
 * dwarf_unit - walking the compilation units of a file, and what names in them mean; private to
 * watchctl/code/. Split DWARF is followed to its .dwo file.
 */
#ifndef WATCHCTL_CODE_DWARF_DWARF_UNIT_H
#define WATCHCTL_CODE_DWARF_DWARF_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

struct dwarf_unit_iter {
	Dwarf_CU *cu;
	Dwarf_Die skeleton; /* of a split unit, where its address ranges are; else the unit itself */
};

/* The next compilation unit, zero-initialised @it for the first: partial and type units are left out. */
bool dwarf_unit_next(Dwarf *dwarf, struct dwarf_unit_iter *it, Dwarf_Die *ret);

/* The .dwo file of the first split unit that is not found; NULL: none is missing. */
const char *dwarf_missing_split(Dwarf *dwarf);

/*
 * @path, a full path from the line table of @cu, as the compiler was given it: without the compilation
 * directory if the unit's own name is relative. Part of @path.
 */
const char *dwarf_unit_short_path(Dwarf_Die *cu, const char *path);

/* The full path of file @index of @cu's line table; NULL: none. */
const char *dwarf_unit_file(Dwarf_Die *cu, Dwarf_Word index);

/*
 * The full path of the source file that declares @die; NULL: unknown. *@unit (may be NULL) is the unit that
 * says so, for dwarf_unit_short_path(). Unlike dwarf_decl_file() it reads the number against the unit that
 * it stands in, and bears units without a line table.
 */
const char *dwarf_die_decl_file(Dwarf_Die *die, Dwarf_Die *unit);

/* A number attribute of @die, inherited from its origin or specification if need be. */
bool dwarf_die_number(Dwarf_Die *die, unsigned int attr, Dwarf_Word *ret);
bool dwarf_die_flag(Dwarf_Die *die, unsigned int attr);

/* The number in @attr, signed only where its form says so: GCC writes 200 as one byte. */
bool dwarf_attr_number(Dwarf_Attribute *attr, int64_t *ret);

/* dwarf_getlocation(), also for the block forms that Go writes where DWARF 4 wants DW_FORM_exprloc. */
int dwarf_attr_location(Dwarf_Attribute *attr, Dwarf_Op **op, size_t *n);

/* DW_AT_linkage_name or its vendor's older form; NULL: none. */
const char *dwarf_die_linkage_name(Dwarf_Die *die);

#endif
