#include "watchctl/code/dwarf/static_owner.h"

#include <stdlib.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "watchctl/base/map64.h"
#include "watchctl/code/dwarf/dwarf_unit.h"

#define DEPTH_MAX 64

struct static_owners {
	struct map64 function; /* by the variable's address */
	uint64_t bias;
	size_t entries;
	bool no_memory;
};

static bool address_of(Dwarf_Die *die, uint64_t *ret)
{
	Dwarf_Attribute attr, at;
	Dwarf_Op *op;
	size_t n;

	if (!dwarf_attr(die, DW_AT_location, &attr) || dwarf_attr_location(&attr, &op, &n) != 0 || n != 1)
		return false;
	if (op->atom == DW_OP_addr) {
		*ret = op->number;
		return true;
	}
	return (op->atom == DW_OP_addrx || op->atom == DW_OP_GNU_addr_index) &&
	       dwarf_getlocation_attr(&attr, op, &at) == 0 && dwarf_formaddr(&at, ret) == 0;
}

static void add_variable(struct static_owners *o, Dwarf_Die *die, uint64_t function)
{
	uint64_t address;

	if (function && address_of(die, &address) &&
	    !map64_put(&o->function, address + o->bias, (void *)(uintptr_t)(function + o->bias)))
		o->no_memory = true;
}

/* @function: whose entries these are; 0: nobody's, or where it lies is not known. */
static void walk(struct static_owners *o, Dwarf_Die *parent, uint64_t function, unsigned int depth)
{
	uint64_t start = 0;
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		if (++o->entries > STATIC_OWNER_ENTRIES_MAX)
			return;
		switch (dwarf_tag(&die)) {
		case DW_TAG_variable:
			add_variable(o, &die, function);
			break;
		case DW_TAG_subprogram:
			walk(o, &die, dwarf_lowpc(&die, &start) == 0 ? start : 0, depth + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
			walk(o, &die, function, depth + 1);
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
}

struct static_owners *static_owners_new(struct elffile *f)
{
	struct static_owners *o = calloc(1, sizeof(*o));
	struct dwarf_unit_iter it = { 0 };
	Dwarf *dwarf = o ? elffile_dwarf(f, &o->bias) : NULL;
	Dwarf_Die unit;

	while (dwarf && o->entries <= STATIC_OWNER_ENTRIES_MAX && dwarf_unit_next(dwarf, &it, &unit))
		walk(o, &unit, 0, 0);
	if (o && o->no_memory) {
		static_owners_free(o);
		return NULL;
	}
	return o;
}

void static_owners_free(struct static_owners *o)
{
	if (!o)
		return;
	map64_deinit(&o->function);
	free(o);
}

bool static_owners_find(const struct static_owners *o, uint64_t vaddr, uint64_t *function)
{
	*function = (uintptr_t)map64_get(&o->function, vaddr);
	return *function != 0;
}
