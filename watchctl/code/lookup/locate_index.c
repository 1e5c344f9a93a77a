/*
 * The outer variables of a file are indexed once, from the entries directly in its units and namespaces:
 * function bodies and types, the bulk of debug information, are skipped. Variables inside functions are
 * searched for by name when no outer one fits.
 *
 * libdw has no way from an entry to its parent, so scopes are collected on the way down. A definition
 * outside its namespace (DW_AT_specification) has lost its scope: the linkage name still has it.
 */
#include "watchctl/code/lookup/locate_index.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/dwarf/dwarf_language.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/lookup/locate_index_impl.h"
#include "watchctl/code/lookup/locate_scope.h"

#define DEPTH_MAX 256

/* Keeps @s until the index is freed. NULL: no memory. */
static const char *locate_index_keep(struct locate_index *x, char *s)
{
	if (s && vec_push(x->strings, x->nstrings, x->string_cap, s))
		return s;
	x->no_memory |= s != NULL;
	free(s);
	return NULL;
}

static char *join_scope(const char *scope, const char *name)
{
	char *s;

	if (asprintf(&s, "%s%s%s", scope ? scope : "", scope ? "::" : "", name) < 0)
		return NULL;
	return s;
}

/* Of the last component of @name, without the arguments of a template, whatever its case. */
static uint64_t key_of(const char *name)
{
	uint64_t hash = HASH_START;

	for (const char *c = locate_last_component(name); *c && *c != '<'; c++)
		hash = hash_bytes(hash, &(char){ (char)tolower((unsigned char)*c) }, 1);
	return hash;
}

static bool add_entry(struct locate_index *x, struct variable_entry e)
{
	uint64_t key = key_of(e.name);

	e.next = (uint32_t)(uintptr_t)map64_get(&x->by_name, key);
	return vec_push(x->v, x->n, x->cap, e) && map64_put(&x->by_name, key, (void *)(uintptr_t)x->n);
}

static enum name_fit fit_in(const struct variable_entry *e, const char *scope, const char *query)
{
	return e->ignores_case ? locate_name_fit_folded(scope, e->name, query)
			       : locate_name_fit(scope, e->name, query);
}

static enum name_fit entry_fit(const struct variable_entry *e, const char *query)
{
	enum name_fit fit = fit_in(e, e->scope, query);

	if (!fit && e->block)
		fit = fit_in(e, *e->block ? e->block : NULL, query);
	if (!fit && e->bare)
		fit = locate_name_fit(e->scope, e->bare, query);
	return fit;
}

static enum dwarf_family family_of(Dwarf_Die *die)
{
	const struct dwarf_language *l = dwarf_die_language(die);

	return l ? l->family : FAMILY_C;
}

/* GNAT calls "store.values" "store__values". NULL: no memory. */
static const char *ada_name(struct locate_index *x, const char *name)
{
	char *copy = strdup(name), *to = copy;

	for (const char *from = name; copy && *from;) {
		bool dot = from > name && from[0] == '_' && from[1] == '_' && from[2] && from[2] != '_';

		*to++ = dot ? '.' : *from;
		from += dot ? 2 : 1;
	}
	if (copy)
		*to = '\0';
	return locate_index_keep(x, copy);
}

/* Of a definition that stands outside of what it was declared in, and has no linkage name: it is internal. */
static const char *declared_scope(struct locate_index *x, Dwarf_Die *die)
{
	const char *scope;
	Dwarf_Attribute mem;
	Dwarf_Die declaration;
	char *around;

	if (!dwarf_formref_die(dwarf_attr(die, DW_AT_specification, &mem), &declaration))
		return NULL;
	scope = map64_get(&x->scopes, (uintptr_t)declaration.addr);
	if (scope)
		return *scope ? scope : NULL;
	around = locate_scope_around(&declaration); /* in a class */
	if (around && !*around)
		free(take_ptr(around));
	scope = around ? locate_index_keep(x, around) : NULL;
	map64_put(&x->scopes, (uintptr_t)declaration.addr, (void *)(uintptr_t)(scope ? scope : ""));
	return scope;
}

static const char *variable_scope(struct locate_index *x, Dwarf_Die *die, const char *scope)
{
	const char *linkage, *own;

	/* clang defines the static member of a template in the namespace, and outside of the class. */
	if (scope && !dwarf_hasattr(die, DW_AT_specification))
		return scope;
	linkage = dwarf_die_linkage_name(die);
	own = linkage ? locate_index_keep(x, locate_scope_of(demangle(linkage))) : declared_scope(x, die);
	return own ? own : scope;
}

/*
 * Gives an instance of a variable template the arguments that only its linkage name has; e->bare is without
 * them.
 */
static void name_template(struct locate_index *x, struct variable_entry *e)
{
	const char *linkage = dwarf_die_linkage_name(&e->die),
		   *at = linkage ? strstr(linkage, e->name) : NULL;
	const char *last;
	char *full;

	if (!at || at[strlen(e->name)] != 'I')
		return;
	full = demangle(linkage);
	last = full ? locate_last_component(full) : NULL;
	if (!last || strncmp(last, e->name, strlen(e->name)) != 0 || last[strlen(e->name)] != '<') {
		free(full);
		return;
	}
	if (!locate_index_keep(x, full))
		return;
	e->bare = e->name;
	e->name = last;
}

/* Gives a variable of Rust's thread_local!() the name that the program gave it. */
static void rename_thread_local(struct locate_index *x, struct variable_entry *e)
{
	char *full = e->scope ? join_scope(e->scope, e->name) : NULL, *name;

	if (!full)
		return;
	locate_cut_thread_local(full);
	name = (char *)locate_last_component(full);
	if (strlen(full) >= strlen(e->scope)) {
		free(full);
		return;
	}
	if (!locate_index_keep(x, full))
		return;
	e->name = name;
	e->scope = name > full + 2 ? full : NULL;
	if (e->scope)
		name[-2] = '\0';
}

/* Of a definition that stands outside of the inline namespace that it was declared in. */
static const char *declared_outer(struct locate_index *x, Dwarf_Die *die)
{
	Dwarf_Attribute mem;
	Dwarf_Die declaration;

	if (!dwarf_formref_die(dwarf_attr(die, DW_AT_specification, &mem), &declaration))
		return NULL;
	return map64_get(&x->outer, (uintptr_t)declaration.addr);
}

static bool index_variable(struct locate_index *x, Dwarf_Die *die, uint32_t unit, const char *scope,
			   const char *block)
{
	enum dwarf_family family = family_of(&x->unit[unit]);
	const char *name = dwarf_diename(die);
	struct variable_entry e = { .name = name, .die = *die, .unit = unit };
	Dwarf_Attribute mem;

	if (!name)
		return true;
	e.declaration = dwarf_hasattr(die, DW_AT_declaration) && !dwarf_attr(die, DW_AT_location, &mem);
	e.ignores_case = dwarf_family_ignores_case(family);
	e.block = block ? block : declared_outer(x, die);
	if (family == FAMILY_ADA && !(e.name = ada_name(x, name)))
		return false;
	if (e.declaration && scope)
		map64_put(&x->scopes, (uintptr_t)die->addr, (void *)(uintptr_t)scope);
	if (e.declaration && block)
		map64_put(&x->outer, (uintptr_t)die->addr, (void *)(uintptr_t)block);
	e.scope = variable_scope(x, die, scope);
	name_template(x, &e);
	rename_thread_local(x, &e);
	return add_entry(x, e);
}

static const char *inner_scope(struct locate_index *x, Dwarf_Die *die, const char *scope)
{
	const char *name = dwarf_diename(die);

	return locate_index_keep(x, join_scope(scope, name ? name : LOCATE_ANONYMOUS));
}

/*
 * What the members of the namespace @die may be called, too: without the inline namespaces around them. NULL:
 * there are none.
 */
static const char *outer_scope(struct locate_index *x, Dwarf_Die *die, const char *scope, const char *outer)
{
	if (dwarf_hasattr(die, DW_AT_export_symbols) && dwarf_diename(die))
		return outer ? outer : scope ? scope : "";
	return outer ? inner_scope(x, die, *outer ? outer : NULL) : NULL;
}

/* @block: the COMMON block whose children these are, or the scope without inline namespaces. */
static bool index_children(struct locate_index *x, Dwarf_Die *parent, uint32_t unit, const char *scope,
			   const char *block, unsigned int depth)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return true;
	do {
		bool ok = true;

		switch (dwarf_tag(&die)) {
		case DW_TAG_variable:
			ok = index_variable(x, &die, unit, scope, block);
			break;
		case DW_TAG_common_block:
			ok = index_children(x, &die, unit, scope, dwarf_diename(&die), depth + 1);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
			ok = index_children(x, &die, unit, inner_scope(x, &die, scope),
					    outer_scope(x, &die, scope, block), depth + 1);
			break;
		default:
			break;
		}
		if (!ok)
			return false;
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

static void read_index(struct locate_index *x)
{
	locate_index_open_units(x);
	if (x->read)
		return;
	x->read = true;
	for (size_t i = 0; i < x->nunits && !x->no_memory; i++)
		x->no_memory |= !index_children(x, &x->unit[i], (uint32_t)i, NULL, NULL, 0);
}

typedef bool each_fn(void *ctx, const struct variable_entry *e, enum name_fit fit);

struct local_search {
	const char *query, *last;
	each_fn *each;
	void *ctx;
	struct locate_index *x;
	uint32_t unit;
	bool ignores_case;
};

static const char *function_scope(struct locate_index *x, Dwarf_Die *die, const char *scope)
{
	const char *name = dwarf_diename(die), *linkage = scope ? NULL : dwarf_die_linkage_name(die);
	/* Bare: what a function template returns stands before its name. */
	char *outer = linkage ? locate_scope_of(demangle_bare(linkage)) : NULL, *full;

	if (!name) {
		free(outer);
		return scope;
	}
	full = join_scope(outer ? outer : scope, name);
	free(outer);
	return locate_index_keep(x, full);
}

/*
 * clang at -O2 leaves the static variables of an inlined function in a function without a name. The symbol
 * still has it: "function.name", or in C++ the mangled form of "function()::name".
 */
static const char *scope_from_symbol(struct locate_index *x, Dwarf_Die *variable, const char *name)
{
	struct symbols *table = locate_index_symbols(x);
	uint64_t vaddr, start, end;
	const struct symbol *sym;
	const char *dot;

	if (!table || locate_index_place(x, variable, &vaddr) != PLACE_ADDRESS)
		return NULL;
	sym = symbols_find(table, vaddr, true, &start, &end);
	if (!sym)
		return NULL;
	if (sym->name[0] == '_' && (sym->name[1] == 'Z' || sym->name[1] == 'R'))
		return locate_index_keep(x, locate_scope_of(demangle(sym->name)));
	dot = strchr(sym->name, '.');
	if (!dot || strncmp(dot + 1, name, strlen(name)) != 0)
		return NULL;
	return locate_index_keep(x, strndup(sym->name, (size_t)(dot - sym->name)));
}

/*
 * Looks for the variable inside functions below @parent. @function is the innermost function's entry, whose
 * scope is made only when a variable of that name is met. False: stop.
 */
static bool search_locals(struct local_search *s, Dwarf_Die *parent, Dwarf_Die *function, const char *scope,
			  unsigned int depth);

/* Variable @die of @function, in the COMMON block @block if that is not NULL. False: stop. */
static bool look_at_local(struct local_search *s, Dwarf_Die *die, Dwarf_Die *function, const char *scope,
			  const char *block)
{
	struct variable_entry e = {
		.unit = s->unit, .die = *die, .ignores_case = s->ignores_case, .block = block
	};
	enum name_fit fit;

	e.name = function ? dwarf_diename(die) : NULL;
	if (!e.name || (s->ignores_case ? strcasecmp(e.name, s->last) : strcmp(e.name, s->last)) != 0)
		return true;
	e.scope = dwarf_diename(function) ? function_scope(s->x, function, scope)
					  : scope_from_symbol(s->x, die, e.name);
	fit = entry_fit(&e, s->query);
	return !fit || s->each(s->ctx, &e, fit);
}

static bool look_at_common(struct local_search *s, Dwarf_Die *block, Dwarf_Die *function, const char *scope)
{
	Dwarf_Die die;

	if (dwarf_child(block, &die) != 0)
		return true;
	do {
		if (dwarf_tag(&die) == DW_TAG_variable &&
		    !look_at_local(s, &die, function, scope, dwarf_diename(block)))
			return false;
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

static bool search_locals(struct local_search *s, Dwarf_Die *parent, Dwarf_Die *function, const char *scope,
			  unsigned int depth)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return true;
	do {
		const char *inner;

		switch (dwarf_tag(&die)) {
		case DW_TAG_variable:
		case DW_TAG_formal_parameter:
			if (!look_at_local(s, &die, function, scope, NULL))
				return false;
			break;
		case DW_TAG_common_block:
			if (!look_at_common(s, &die, function, scope))
				return false;
			break;
		case DW_TAG_subprogram:
			/* A function in another one, or a method: the outer function is part of its scope. */
			inner = function ? function_scope(s->x, function, scope) : scope;
			if (!search_locals(s, &die, &die, inner, depth + 1))
				return false;
			break;
		case DW_TAG_lexical_block:
			if (!search_locals(s, &die, function, scope, depth + 1))
				return false;
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
			if (!search_locals(s, &die, NULL, inner_scope(s->x, &die, scope), depth + 1))
				return false;
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

void locate_index_find(struct locate_index *x, const char *query, bool local, each_fn *each, void *ctx)
{
	const char *last = locate_last_component(query);
	uint32_t i;

	read_index(x);
	if (local) {
		for (size_t unit = 0; unit < x->nunits; unit++) {
			struct local_search s = { query, last, each, ctx, x, (uint32_t)unit, false };

			s.ignores_case = dwarf_family_ignores_case(family_of(&x->unit[unit]));
			if (!search_locals(&s, &x->unit[unit], NULL, NULL, 0))
				return;
		}
		return;
	}
	for (i = (uint32_t)(uintptr_t)map64_get(&x->by_name, key_of(query)); i; i = x->v[i - 1].next) {
		const struct variable_entry *e = &x->v[i - 1];
		enum name_fit fit = entry_fit(e, query);

		if (fit && !each(ctx, e, fit))
			return;
	}
}

const struct variable_entry *locate_index_all(struct locate_index *x, size_t *n)
{
	read_index(x);
	*n = x->n;
	return x->v;
}
