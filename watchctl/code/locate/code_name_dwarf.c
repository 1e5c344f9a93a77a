/*
 * Every entry of a function that has code is compared by name: the one inside its namespace or class may be
 * far away, so the linkage name stands for the qualified one. What was inlined names its origin, the abstract
 * entry of the function; whether that one fits is remembered, since it is asked for every call.
 */
#include "watchctl/code/locate/code_name_dwarf.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/symbols/code_name_match.h"

#define DEPTH_MAX 256

struct walk {
	const char *query, *word;
	size_t word_len;
	const uint64_t *entry;
	size_t nentries;
	bool inlined;
	uint64_t bias;
	struct map64 fits; /* address of an origin's entry -> enum name_fit + 1 */
	struct code_dies *ret;
	uint32_t unit;
};

/* The abstract entry of a function, whence its copies come. */
static Dwarf_Die origin_of(const Dwarf_Die *die)
{
	Dwarf_Die at = *die, next;
	Dwarf_Attribute mem;

	for (unsigned int i = 0; i < DEPTH_MAX; i++) {
		if (!dwarf_attr(&at, DW_AT_abstract_origin, &mem) || !dwarf_formref_die(&mem, &next))
			break;
		at = next;
	}
	return at;
}

/* Linkage names of Rust do not have the types for which a function was made; those of its entry do. */
static enum name_fit compare_generic(const struct walk *w, const char *linkage, const char *name)
{
	scoped(freep) char *scope = NULL;

	if (!strchr(w->query, '<') || !strchr(name, '<'))
		return FIT_NONE;
	scope = locate_scope_of(demangle_bare(linkage));
	return locate_name_fit(scope, name, w->query);
}

static enum name_fit code_name_dwarf_compare(const struct walk *w, Dwarf_Die *die)
{
	const char *name = dwarf_diename(die), *linkage;
	enum hit_part part;
	enum name_fit fit;

	if (!name || (w->word_len && !memmem(name, strlen(name), w->word, w->word_len)))
		return FIT_NONE;
	linkage = dwarf_die_linkage_name(die);
	fit = code_name_fit(linkage ? linkage : name, w->query, &part);
	return fit || !linkage ? fit : compare_generic(w, linkage, name);
}

/* How well the origin fits, asked once. */
static enum name_fit origin_fit(struct walk *w, Dwarf_Die *origin)
{
	uint64_t key = (uint64_t)(uintptr_t)origin->addr;
	uintptr_t known = (uintptr_t)map64_get(&w->fits, key);
	enum name_fit fit;

	if (known)
		return (enum name_fit)(known - 1);
	fit = code_name_dwarf_compare(w, origin);
	map64_put(&w->fits, key, (void *)((uintptr_t)fit + 1));
	return fit;
}

static bool is_entry(const struct walk *w, struct code_die *d)
{
	uint64_t at = w->nentries ? code_die_entry(d) : 0;

	for (size_t i = 0; i < w->nentries; i++)
		if (at && at == w->entry[i])
			return true;
	return false;
}

static bool has_code(Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;

	return dwarf_ranges(die, 0, &base, &start, &end) > 0;
}

static bool take_function(struct walk *w, Dwarf_Die *die)
{
	struct code_die d = { .die = *die, .function = *die, .unit = w->unit, .bias = w->bias };
	Dwarf_Die origin = origin_of(die);

	if (!has_code(die))
		return true;
	d.fit = origin_fit(w, &origin);
	if (!d.fit && is_entry(w, &d)) {
		/* Its inlined copies are the alias's too. */
		d.fit = FIT_EXACT;
		map64_put(&w->fits, (uint64_t)(uintptr_t)origin.addr, (void *)((uintptr_t)FIT_EXACT + 1));
	}
	return !d.fit || vec_push(w->ret->v, w->ret->n, w->ret->cap, d);
}

static bool take_inlined(struct walk *w, Dwarf_Die *die, const Dwarf_Die *function)
{
	struct code_die d = { .die = *die, .unit = w->unit, .bias = w->bias };
	Dwarf_Die origin = origin_of(die);

	if (!function || origin.addr == die->addr)
		return true;
	d.function = *function;
	d.fit = origin_fit(w, &origin);
	return !d.fit || vec_push(w->ret->v, w->ret->n, w->ret->cap, d);
}

static bool walk_children(struct walk *w, Dwarf_Die *parent, const Dwarf_Die *function, unsigned int depth)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return true;
	do {
		int tag = dwarf_tag(&die);
		bool ok = true;

		switch (tag) {
		case DW_TAG_subprogram:
			ok = take_function(w, &die) &&
			     (!w->inlined || walk_children(w, &die, &die, depth + 1));
			break;
		case DW_TAG_inlined_subroutine:
			ok = take_inlined(w, &die, function) && walk_children(w, &die, function, depth + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			ok = walk_children(w, &die, function, depth + 1);
			break;
		default:
			break;
		}
		if (!ok)
			return false;
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

/* Functions that an alias names come first: their origins must be known before their inlined copies are met.
 */
static bool walk_all(struct walk *w, struct locate_index *x, bool inlined)
{
	size_t n = locate_index_nunits(x);

	w->inlined = inlined;
	for (uint32_t i = 0; i < n; i++) {
		w->unit = i;
		if (!walk_children(w, locate_index_unit(x, i), NULL, 0))
			return false;
	}
	return true;
}

bool code_dies_find(struct locate_index *x, const char *query, const uint64_t *entry, size_t nentries,
		    bool inlined, struct code_dies *ret)
{
	struct walk w = { .query = query, .entry = entry, .nentries = nentries, .ret = ret };
	bool ok;

	w.word = code_name_word(query, &w.word_len);
	if (!locate_index_dwarf(x, &w.bias))
		return true;
	ok = walk_all(&w, x, false);
	if (ok && inlined) {
		ret->n = 0;
		ok = walk_all(&w, x, true);
	}
	map64_deinit(&w.fits);
	return ok;
}

void code_dies_deinit(struct code_dies *d)
{
	free(d->v);
	*d = (struct code_dies){ 0 };
}

uint64_t code_die_entry(struct code_die *d)
{
	Dwarf_Addr entry, base, start, end;

	if (dwarf_entrypc(&d->die, &entry) == 0 && entry)
		return entry + d->bias;
	/* What was split off follows the main part. */
	if (dwarf_ranges(&d->die, 0, &base, &start, &end) > 0 && start)
		return start + d->bias;
	return 0;
}

bool code_dies_same_origin(const Dwarf_Die *a, const Dwarf_Die *b)
{
	return origin_of(a).addr == origin_of(b).addr;
}

bool code_die_ranges(struct code_die *d, bool (*each)(void *ctx, uint64_t start, uint64_t end), void *ctx)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	/* Code that the linker left out is at address 0. */
	while ((at = dwarf_ranges(&d->die, at, &base, &start, &end)) > 0)
		if (start && start < end && !each(ctx, start + d->bias, end + d->bias))
			return false;
	return true;
}

char *code_die_name(Dwarf_Die *die)
{
	const char *linkage = dwarf_die_linkage_name(die), *name = dwarf_diename(die);
	char *pretty = linkage ? demangle(linkage) : NULL;

	if (pretty)
		return pretty;
	if (!name)
		name = linkage;
	return name ? strdup(name) : NULL;
}
