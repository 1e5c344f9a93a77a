/*
 * Part of locate_index: the definition of a type that is only declared ("struct node;"). Two types of one
 * name in different scopes are two types, and what is in a namespace without a name belongs to its unit.
 */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/lookup/locate_index_impl.h"
#include "watchctl/code/lookup/locate_scope.h"
#include "watchctl/code/symbols/locate_match.h"

#define DEPTH_MAX 64

struct completed {
	bool found;
	Dwarf_Die die;
};

struct wanted {
	int tag;
	const char *name;
	const char *scope;     /* "ns::Class" or "" */
	bool own;	       /* the unit is that of the declaration */
	Dwarf_Die *definition; /* filled in */
};

/* The scope that @die was declared in, if that is elsewhere. */
static bool declared_in(Dwarf_Die *die, const char *scope)
{
	Dwarf_Attribute mem;
	Dwarf_Die declaration;
	scoped(freep) char *around = NULL;

	if (!dwarf_formref_die(dwarf_attr(die, DW_AT_specification, &mem), &declaration))
		return false;
	around = locate_scope_around(&declaration);
	return around && strcmp(around, scope) == 0;
}

/* @left: what is left of the scope here. */
static bool is_definition(const struct wanted *w, Dwarf_Die *die, const char *left)
{
	const char *name;

	if (dwarf_tag(die) != w->tag || dwarf_hasattr(die, DW_AT_declaration))
		return false;
	name = dwarf_diename(die);
	if (!name || strcmp(name, w->name) != 0)
		return false;
	return dwarf_hasattr(die, DW_AT_specification) ? declared_in(die, w->scope) : !*left;
}

/* What is left of the scope @left inside of @die; NULL: it is not on the way. */
static const char *into_scope(const struct wanted *w, Dwarf_Die *die, const char *left)
{
	const char *part = locate_scope_part(die);
	size_t len = part ? strlen(part) : 0;

	if (!len || strncmp(left, part, len) != 0 || (!w->own && strcmp(part, LOCATE_ANONYMOUS) == 0))
		return NULL;
	if (!left[len])
		return left + len;
	return strncmp(left + len, "::", 2) == 0 ? left + len + 2 : NULL;
}

static bool find_definition(const struct wanted *w, Dwarf_Die *parent, const char *left, unsigned int depth)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return false;
	do {
		const char *inside = *left ? into_scope(w, &die, left) : NULL;

		if (is_definition(w, &die, left)) {
			*w->definition = die;
			return true;
		}
		if (inside && find_definition(w, &die, inside, depth + 1))
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

static bool look_for_definition(struct locate_index *x, Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute mem, *signature = dwarf_attr_integrate(die, DW_AT_signature, &mem);
	scoped(freep) char *scope = NULL;
	struct wanted w = { .tag = dwarf_tag(die), .name = dwarf_diename(die), .definition = ret };
	Dwarf_Die unit, split, own;
	Dwarf_CU *cu = NULL;
	Dwarf_Half version;
	uint64_t bias;
	uint8_t type;
	Dwarf *dwarf;

	if (signature && dwarf_formref_die(signature, ret))
		return true;
	scope = w.name ? locate_scope_around(die) : NULL;
	w.scope = scope;
	w.own = true;
	if (!scope)
		return false;
	if (dwarf_diecu(die, &own, NULL, NULL) && find_definition(&w, &own, scope, 0))
		return true;
	w.own = false;
	dwarf = locate_index_dwarf(x, &bias);
	/* Partial units too: dwz moves shared types there. */
	while (dwarf && dwarf_get_units(dwarf, cu, &cu, &version, &type, &unit, &split) == 0)
		if (find_definition(&w, split.addr ? &split : &unit, scope, 0))
			return true;
	return false;
}

bool locate_index_complete_type(struct locate_index *x, Dwarf_Die *die, Dwarf_Die *ret)
{
	struct completed *c = map64_get(&x->complete, (uintptr_t)die->addr);

	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return look_for_definition(x, die, ret);
		c->found = look_for_definition(x, die, &c->die);
		if (!map64_put(&x->complete, (uintptr_t)die->addr, c)) {
			free(c);
			return look_for_definition(x, die, ret);
		}
	}
	if (c->found)
		*ret = c->die;
	return c->found;
}
