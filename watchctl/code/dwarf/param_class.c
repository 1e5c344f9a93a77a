/*
 * clang says it (DW_AT_calling_convention). Of GCC's classes it is found as the compiler finds it: an object
 * is passed by address if copying, moving or destroying it is code (Itanium C++ ABI, 1.1: non-trivial for the
 * purposes of calls). That is so if such a function was written for its class, or the class has virtual
 * functions or bases, or it is so of a part of it. Functions that are defaulted where they are declared, or
 * that the compiler has made up, are what the parts are.
 */
#include "watchctl/code/dwarf/param_class.h"

#include <string.h>

#include <dwarf.h>

#include "watchctl/code/dwarf/dwarf_unit.h"

#define DEPTH_MAX 32

bool param_type_of(const Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute mem;
	Dwarf_Die at = *die;

	for (unsigned int depth = 0; depth < DEPTH_MAX; depth++) {
		if (!dwarf_formref_die(dwarf_attr_integrate(&at, DW_AT_type, &mem), ret))
			return false;
		switch (dwarf_tag(ret)) {
		case DW_TAG_typedef:
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type:
			at = *ret;
			break;
		default:
			return true;
		}
	}
	return false;
}

/* The class's name is "list<int>", its constructors' "list". */
static bool is_constructor(Dwarf_Die *class, const char *name)
{
	const char *own = dwarf_diename(class);
	size_t n = own ? strcspn(own, "<") : 0;

	return n && strncmp(own, name, n) == 0 && (!name[n] || name[n] == '<');
}

/* Takes, besides `this`, one reference to an object of its class. */
static bool takes_own_class(Dwarf_Die *class, Dwarf_Die *function)
{
	Dwarf_Die param, type, to;
	unsigned int n = 0;
	bool own = false;
	int tag;

	if (dwarf_child(function, &param) != 0)
		return false;
	do {
		if (dwarf_tag(&param) != DW_TAG_formal_parameter || dwarf_die_flag(&param, DW_AT_artificial))
			continue;
		if (n++ || !param_type_of(&param, &type))
			continue;
		tag = dwarf_tag(&type);
		own = (tag == DW_TAG_reference_type || tag == DW_TAG_rvalue_reference_type) &&
		      param_type_of(&type, &to) && to.addr == class->addr;
	} while (dwarf_siblingof(&param, &param) == 0);
	return own && n == 1;
}

static bool is_virtual(Dwarf_Die *die)
{
	Dwarf_Word n;

	return dwarf_die_number(die, DW_AT_virtuality, &n) && n != DW_VIRTUALITY_none;
}

static bool is_written(Dwarf_Die *function)
{
	Dwarf_Word n;

	return !dwarf_die_flag(function, DW_AT_artificial) && !dwarf_die_flag(function, DW_AT_deleted) &&
	       !(dwarf_die_number(function, DW_AT_defaulted, &n) && n == DW_DEFAULTED_in_class);
}

static bool function_makes_copying_code(Dwarf_Die *class, Dwarf_Die *function)
{
	const char *name = dwarf_diename(function);

	if (is_virtual(function))
		return true;
	if (!name || !is_written(function))
		return false;
	return name[0] == '~' || (is_constructor(class, name) && takes_own_class(class, function));
}

static enum param_passing passing_of(Dwarf_Die *type, unsigned int depth);

/* Of a member or base class. */
static enum param_passing part_passing(Dwarf_Die *part, unsigned int depth)
{
	Dwarf_Die type;

	if (dwarf_tag(part) == DW_TAG_inheritance && is_virtual(part))
		return PARAM_BY_REFERENCE;
	if (dwarf_die_flag(part, DW_AT_external) || dwarf_die_flag(part, DW_AT_declaration))
		return PARAM_BY_VALUE; /* a static one */
	if (!param_type_of(part, &type))
		return PARAM_PASSING_UNKNOWN;
	while (dwarf_tag(&type) == DW_TAG_array_type) {
		Dwarf_Die element;

		if (depth++ > DEPTH_MAX || !param_type_of(&type, &element))
			return PARAM_PASSING_UNKNOWN;
		type = element;
	}
	return passing_of(&type, depth + 1);
}

/* Something that copies or moves must be left: a class whose all such functions are deleted stays put. */
static bool is_deleted_copy(Dwarf_Die *class, Dwarf_Die *function)
{
	const char *name = dwarf_diename(function);

	return name && dwarf_die_flag(function, DW_AT_deleted) && is_constructor(class, name) &&
	       takes_own_class(class, function);
}

static bool is_copy(Dwarf_Die *class, Dwarf_Die *function)
{
	const char *name = dwarf_diename(function);

	return name && !dwarf_die_flag(function, DW_AT_deleted) && is_constructor(class, name) &&
	       takes_own_class(class, function);
}

static enum param_passing class_passing(Dwarf_Die *class, unsigned int depth)
{
	enum param_passing worst = PARAM_BY_VALUE, part;
	bool deleted = false, copies = false;
	Dwarf_Die die;

	if (dwarf_die_flag(class, DW_AT_declaration))
		return PARAM_PASSING_UNKNOWN;
	if (dwarf_child(class, &die) != 0)
		return PARAM_BY_VALUE;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			if (function_makes_copying_code(class, &die))
				return PARAM_BY_REFERENCE;
			deleted |= is_deleted_copy(class, &die);
			copies |= is_copy(class, &die);
			break;
		case DW_TAG_member:
		case DW_TAG_inheritance:
			part = part_passing(&die, depth);
			if (part == PARAM_BY_REFERENCE)
				return part;
			if (part == PARAM_PASSING_UNKNOWN)
				worst = part;
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return deleted && !copies ? PARAM_BY_REFERENCE : worst;
}

static bool is_cpp(Dwarf_Die *die)
{
	Dwarf_Word language;
	Dwarf_Die unit;

	if (!dwarf_diecu(die, &unit, NULL, NULL) || !dwarf_die_number(&unit, DW_AT_language, &language))
		return true;
	switch (language) {
	case DW_LANG_C:
	case DW_LANG_C89:
	case DW_LANG_C99:
	case DW_LANG_C11:
		return false;
	default:
		return true;
	}
}

static enum param_passing passing_of(Dwarf_Die *type, unsigned int depth)
{
	int tag = dwarf_tag(type);
	Dwarf_Word n;

	if (tag != DW_TAG_structure_type && tag != DW_TAG_class_type && tag != DW_TAG_union_type)
		return PARAM_BY_VALUE;
	if (dwarf_die_number(type, DW_AT_calling_convention, &n) &&
	    (n == DW_CC_pass_by_reference || n == DW_CC_pass_by_value))
		return n == DW_CC_pass_by_reference ? PARAM_BY_REFERENCE : PARAM_BY_VALUE;
	if (depth > DEPTH_MAX)
		return PARAM_PASSING_UNKNOWN;
	return is_cpp(type) ? class_passing(type, depth) : PARAM_BY_VALUE;
}

enum param_passing param_passing_of(Dwarf_Die *type)
{
	return passing_of(type, 0);
}
