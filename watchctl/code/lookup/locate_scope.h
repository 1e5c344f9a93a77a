/* locate_scope - the namespaces and classes around an entry of debug information; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_SCOPE_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_SCOPE_H

#include <stddef.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

/*
 * "ns::(anonymous namespace)::Class" around @die, malloc'd, "" where there is nothing; NULL: no memory, or
 * the debug information is damaged. Looks through the unit: not for every entry.
 */
char *locate_scope_around(Dwarf_Die *die);

/* The part of a scope that @die is: its name; of a namespace without one LOCATE_ANONYMOUS. NULL: none. */
const char *locate_scope_part(Dwarf_Die *die);

#endif
