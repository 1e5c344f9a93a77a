/*
 * Types by name. Every unit describes its types anew, so one type is met many times, and two of one name may
 * be different ones: what is declared elsewhere, or is of another size, is another one. The one of the
 * variable's own unit goes before all others. Compilers write "unsigned long" as they like.
 */
#include "watchctl/code/lookup/locate_type_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/lookup/locate_scope.h"
#include "watchctl/code/symbols/locate_match.h"

#define DEPTH_MAX 16
#define NAME_MAX_LEN 512

/* Ranks: what is better counts more than all that follows. */
enum { RANK_ANY = 1, RANK_PLAIN = 2, RANK_WHOLE = 4, RANK_NEAR = 8, RANK_EXACT = 16 };

/* "long unsigned int" of any order of its words: how many of each. False: it is no number of C's. */
static bool count_words(const char *name, unsigned char n[8])
{
	static const char *const words[8] = { "int",  "long",	"short",  "unsigned",
					      "char", "double", "signed", "float" };

	memset(n, 0, 8);
	while (*name) {
		size_t len = strcspn(name, " "), i = 0;

		while (i < 8 && (strlen(words[i]) != len || strncmp(words[i], name, len) != 0))
			i++;
		if (i == 8)
			return false;
		n[i]++;
		name += len + strspn(name + len, " ");
	}
	/* "long", "long int" and "signed long" are one; "signed char" is not "char". */
	if (n[1] || n[2] || n[3] || (n[6] && !n[4]))
		n[0] = !n[4] && !n[5];
	if (n[0])
		n[6] = 0;
	return true;
}

static bool is_same_number(const char *a, const char *b)
{
	unsigned char x[8], y[8];

	return count_words(a, x) && count_words(b, y) && memcmp(x, y, sizeof(x)) == 0;
}

/* Cuts "struct " off *@name; 0: it had no such word. */
static int cut_keyword(const char **name)
{
	static const struct {
		const char *word;
		int tag;
	} keys[] = { { "struct ", DW_TAG_structure_type },
		     { "class ", DW_TAG_structure_type },
		     { "union ", DW_TAG_union_type },
		     { "enum ", DW_TAG_enumeration_type } };

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (strncmp(*name, keys[i].word, strlen(keys[i].word)) == 0) {
			*name += strlen(keys[i].word);
			return keys[i].tag;
		}
	return 0;
}

static bool is_type_tag(int tag)
{
	return dtype_is_aggregate_tag(tag) || tag == DW_TAG_base_type || tag == DW_TAG_typedef ||
	       tag == DW_TAG_enumeration_type;
}

static bool is_kind(int tag, int wanted)
{
	if (tag == DW_TAG_class_type)
		tag = DW_TAG_structure_type;
	return is_type_tag(tag) && (!wanted || tag == wanted);
}

static unsigned int rank_of(const struct type_search *s, Dwarf_Die *die, const char *scope, bool near)
{
	const char *wanted = s->name, *name = dwarf_diename(die);
	int keyword = cut_keyword(&wanted), tag = dwarf_tag(die);
	unsigned int rank = RANK_ANY;
	enum name_fit fit;

	if (!name || !is_kind(tag, keyword))
		return 0;
	fit = tag == DW_TAG_base_type && is_same_number(name, wanted) ? FIT_EXACT
								      : locate_name_fit(scope, name, wanted);
	if (fit == FIT_NONE)
		return 0;
	/* In C "conn" is not "struct conn", but for want of another it will do. */
	if (keyword || tag == DW_TAG_typedef || tag == DW_TAG_base_type)
		rank |= RANK_PLAIN;
	if (!dwarf_hasattr(die, DW_AT_declaration))
		rank |= RANK_WHOLE;
	return rank | (near ? RANK_NEAR : 0) | (fit == FIT_EXACT ? RANK_EXACT : 0);
}

static bool is_declared_alike(const struct dtype *a, const struct dtype *b)
{
	struct dtype x = *a, y = *b;
	const char *one = dwarf_die_decl_file(&x.die, NULL), *other = dwarf_die_decl_file(&y.die, NULL);
	int line = 0, other_line = 0;

	if (!one || !other)
		return !one && !other;
	dwarf_decl_line(&x.die, &line);
	dwarf_decl_line(&y.die, &other_line);
	return line == other_line && strcmp(one, other) == 0;
}

bool dtype_is_same(const struct dtype *a, const struct dtype *b)
{
	struct dtype x = *a, y = *b;
	scoped(freep) char *scope = NULL, *other = NULL;
	const char *name, *other_name;

	if (x.die.addr == y.die.addr)
		return true;
	name = dwarf_diename(&x.die);
	other_name = dwarf_diename(&y.die);
	if (!name || !other_name || strcmp(name, other_name) != 0 || dtype_size(a) != dtype_size(b))
		return false;
	scope = locate_scope_around(&x.die);
	other = locate_scope_around(&y.die);
	return scope && other && strcmp(scope, other) == 0;
}

static void consider(struct type_search *s, struct locate_index *x, Dwarf_Die *die, unsigned int rank)
{
	const struct dwarf_language *l = dwarf_die_language(die);
	struct dtype t = { .index = x, .known = true, .die = *die, .language = l ? l : s->best.language };

	if (rank > s->rank) {
		s->best = t;
		s->rank = rank;
		s->is_ambiguous = false;
	} else if (rank == s->rank && !s->is_ambiguous &&
		   (dtype_size(&t) != dtype_size(&s->best) || !is_declared_alike(&t, &s->best))) {
		s->other = t;
		s->is_ambiguous = true;
	}
}

/* A scope, and what it may be called without its inline namespaces. */
struct scope {
	char full[NAME_MAX_LEN], plain[NAME_MAX_LEN];
	bool near;
};

static bool locate_type_find_append(char name[NAME_MAX_LEN], const char *part)
{
	size_t len = strlen(name);

	return (size_t)snprintf(name + len, NAME_MAX_LEN - len, "%s%s", len ? "::" : "", part) <
	       NAME_MAX_LEN - len;
}

/* False: nothing in there has a name that could be asked for. */
static bool locate_type_find_enter(const struct scope *outer, Dwarf_Die *die, struct scope *ret)
{
	const char *part = locate_scope_part(die);

	if (!part)
		return false;
	*ret = *outer;
	return locate_type_find_append(ret->full, part) &&
	       (dwarf_hasattr(die, DW_AT_export_symbols) || locate_type_find_append(ret->plain, part));
}

static void search_inside(struct type_search *s, struct locate_index *x, Dwarf_Die *parent,
			  const struct scope *scope, unsigned int depth);

static void look_at(struct type_search *s, struct locate_index *x, Dwarf_Die *die, const struct scope *scope,
		    unsigned int depth)
{
	struct scope inner;
	unsigned int rank = 0;

	if (is_type_tag(dwarf_tag(die))) {
		rank = rank_of(s, die, *scope->full ? scope->full : NULL, scope->near);
		if (!rank && strcmp(scope->full, scope->plain) != 0)
			rank = rank_of(s, die, *scope->plain ? scope->plain : NULL, scope->near);
	}
	if (rank)
		consider(s, x, die, rank);
	if (locate_type_find_enter(scope, die, &inner))
		search_inside(s, x, die, &inner, depth + 1);
}

static void search_inside(struct type_search *s, struct locate_index *x, Dwarf_Die *parent,
			  const struct scope *scope, unsigned int depth)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		look_at(s, x, &die, scope, depth);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static bool is_in_unit(const Dwarf_Die *near, Dwarf_Die *unit)
{
	Dwarf_Die copy, own;

	if (!near)
		return false;
	copy = *near;
	return dwarf_diecu(&copy, &own, NULL, NULL) && own.addr == unit->addr;
}

/* -fdebug-types-section of DWARF 4: a section that dwarf_get_units() leaves out. */
static void search_types_section(struct type_search *s, struct locate_index *x, Dwarf *dwarf)
{
	Dwarf_Off at = 0, next, abbrev, type;
	uint8_t address_size, offset_size;
	uint64_t signature;
	Dwarf_Half version;
	size_t header;
	Dwarf_Die unit;

	while (dwarf_next_unit(dwarf, at, &next, &header, &version, &abbrev, &address_size, &offset_size,
			       &signature, &type) == 0) {
		if (dwarf_offdie_types(dwarf, at + header, &unit))
			search_inside(s, x, &unit, &(struct scope){ .near = false }, 0);
		at = next;
	}
}

void type_search_file(struct type_search *s, struct locate_index *x)
{
	Dwarf_Die unit, split, *die;
	Dwarf_CU *cu = NULL;
	Dwarf_Half version;
	uint64_t bias;
	uint8_t type;
	Dwarf *dwarf = locate_index_dwarf(x, &bias);

	/* Partial units too: dwz moves shared types there. */
	while (dwarf && dwarf_get_units(dwarf, cu, &cu, &version, &type, &unit, &split) == 0) {
		die = split.addr ? &split : &unit;
		search_inside(s, x, die, &(struct scope){ .near = is_in_unit(s->near, die) }, 0);
	}
	if (dwarf)
		search_types_section(s, x, dwarf);
}
