/*
 * param_class - whether objects of a type are passed as they are, or by the address of a copy; private to
 * watchctl/code/.
 */
#ifndef WATCHCTL_CODE_DWARF_PARAM_CLASS_H
#define WATCHCTL_CODE_DWARF_PARAM_CLASS_H

#include <stdbool.h>

#include <elfutils/libdw.h>

#include "watchctl/code/dwarf/param_place.h"

/* The type of @die without typedefs and qualifiers. False: void, or not reported. */
bool param_type_of(const Dwarf_Die *die, Dwarf_Die *ret);

/* Of a stripped type. */
enum param_passing param_passing_of(Dwarf_Die *type);

#endif
