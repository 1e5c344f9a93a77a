/*
 * Two tables, each built when first needed: which unit covers an address, and for a unit, which of its
 * functions does. Both come from the DW_AT_ranges of the entries, for .debug_aranges is optional and
 * clang leaves it out. Inside a function the few entries that cover the address are walked each time; the
 * symbolizer remembers the result.
 */
#include "watchctl/code/dwarf/dwarf_names.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/interval.h"

/* Deeper nesting of blocks and inlined calls than any compiler makes. */
#define DEPTH_MAX 256

struct unit {
	Dwarf_Die cu;
	bool read, read_nested;
	struct intervals functions; /* item: index of die */
	Dwarf_Die *die;
	size_t ndies, die_cap;
};

struct dwarf_names {
	struct elffile *file;
	bool read;
	Dwarf *dwarf;
	uint64_t bias; /* vaddr = DWARF address + bias */
	struct unit *unit;
	size_t nunits, unit_cap;
	struct intervals ranges; /* item: index of unit */
};

struct dwarf_names *dwarf_names_new(struct elffile *f)
{
	struct dwarf_names *d = calloc(1, sizeof(*d));

	if (d)
		d->file = f;
	return d;
}

void dwarf_names_free(struct dwarf_names *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->nunits; i++) {
		intervals_deinit(&d->unit[i].functions);
		free(d->unit[i].die);
	}
	free(d->unit);
	intervals_deinit(&d->ranges);
	free(d);
}

/* Adds the address ranges of @die. Code that the linker discarded is left at address 0: not ours. */
static bool add_ranges(struct intervals *l, Dwarf_Die *die, size_t item)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &start, &end)) > 0)
		if (start && start < end &&
		    !vec_push(l->v, l->n, l->cap, (struct interval){ start, end, 0, 0, (uint32_t)item }))
			return false;
	return true;
}

static void read_units(struct dwarf_names *d)
{
	struct dwarf_unit_iter it = { 0 };
	Dwarf_Die cu;

	d->read = true;
	d->dwarf = elffile_dwarf(d->file, &d->bias);
	while (d->dwarf && dwarf_unit_next(d->dwarf, &it, &cu))
		if (!vec_push(d->unit, d->nunits, d->unit_cap, (struct unit){ .cu = cu }) ||
		    !add_ranges(&d->ranges, &it.skeleton, d->nunits - 1))
			break;
	intervals_sort(&d->ranges);
}

/* Entries follow one another: in a damaged file a link back would lead round for ever. */
static bool is_behind(const Dwarf_Die *die, const void **last)
{
	bool ret = (uintptr_t)die->addr > (uintptr_t)*last;

	*last = die->addr;
	return ret;
}

/* Collects the functions with code among the children of @parent; with @nested, those inside others too. */
static bool read_functions(struct unit *u, Dwarf_Die *parent, bool nested, unsigned int depth)
{
	Dwarf_Die die;

	const void *last = parent->addr;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return true;
	do {
		if (!is_behind(&die, &last))
			break;
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			if (!vec_push(u->die, u->ndies, u->die_cap, die) ||
			    !add_ranges(&u->functions, &die, u->ndies - 1))
				return false;
			if (!nested)
				break;
			/* fall through */
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			if (!read_functions(u, &die, nested, depth + 1))
				return false;
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return true;
}

/* The innermost function of @u around @addr, a DWARF address. */
static const struct interval *unit_function(struct unit *u, uint64_t addr)
{
	const struct interval *i;

	if (!u->read) {
		u->read = true;
		read_functions(u, &u->cu, false, 0);
		intervals_sort(&u->functions);
	}
	i = intervals_find(&u->functions, addr, NULL);
	if (i || u->read_nested)
		return i;
	/* Rare: a function inside another one, in GNU C, Ada or D. */
	u->read_nested = true;
	intervals_deinit(&u->functions);
	u->ndies = 0;
	read_functions(u, &u->cu, true, 0);
	intervals_sort(&u->functions);
	return intervals_find(&u->functions, addr, NULL);
}

static char *function_name(Dwarf_Die *die)
{
	const char *linkage = dwarf_die_linkage_name(die), *name = dwarf_diename(die);
	char *pretty = linkage ? demangle(linkage) : NULL;

	if (pretty)
		return pretty;
	if (!name)
		name = linkage;
	return name ? strdup(name) : NULL;
}

/*
 * The inlined calls around @addr below @parent, outermost first. Blocks are walked through. Returns how
 * many there are.
 */
static size_t inlined_chain(const Dwarf_Die *parent, uint64_t addr, Dwarf_Die *chain, size_t cap)
{
	Dwarf_Die die, at = *parent;
	size_t n = 0;

	for (unsigned int depth = 0; depth < DEPTH_MAX; depth++) {
		const void *last = at.addr;
		bool found = false;

		if (dwarf_child(&at, &die) != 0)
			break;
		do {
			int tag = dwarf_tag(&die);

			if (!is_behind(&die, &last))
				break;
			if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block)
				continue;
			if (dwarf_haspc(&die, addr) != 1)
				continue;
			if (tag == DW_TAG_inlined_subroutine && n < cap)
				chain[n++] = die;
			found = true;
			break;
		} while (dwarf_siblingof(&die, &die) == 0);
		if (!found)
			break;
		at = die;
	}
	return n;
}

static void set_line(Dwarf_Die *cu, uint64_t addr, struct dwarf_frame *ret)
{
	Dwarf_Line *line = dwarf_getsrc_die(cu, addr);
	const char *path;
	int number;

	if (!line || dwarf_lineno(line, &number) != 0 || number <= 0)
		return;
	path = dwarf_linesrc(line, NULL, NULL);
	if (!path)
		return;
	ret->file = dwarf_unit_short_path(cu, path);
	ret->line = (unsigned int)number;
}

/* Where @call was inlined: a place in the function around it. */
static void set_call_site(Dwarf_Die *cu, Dwarf_Die *call, struct dwarf_frame *ret)
{
	Dwarf_Word file, line;
	const char *path;

	if (!dwarf_die_number(call, DW_AT_call_file, &file) ||
	    !dwarf_die_number(call, DW_AT_call_line, &line))
		return;
	path = dwarf_unit_file(cu, file);
	if (!path)
		return;
	ret->file = dwarf_unit_short_path(cu, path);
	ret->line = (unsigned int)line;
}

static bool fill_frames(struct unit *u, Dwarf_Die *function, uint64_t addr, struct dwarf_place *p)
{
	Dwarf_Die chain[DEPTH_MAX];
	size_t n = function ? inlined_chain(function, addr, chain, DEPTH_MAX) : 0;

	p->frame = calloc(n + 1, sizeof(*p->frame));
	if (!p->frame)
		return false;
	p->nframes = n + 1;
	set_line(&u->cu, addr, &p->frame[0]);
	for (size_t i = 0; i < n; i++) {
		p->frame[i].function = function_name(&chain[n - 1 - i]);
		p->frame[i].id = chain[n - 1 - i].addr;
		set_call_site(&u->cu, &chain[n - 1 - i], &p->frame[i + 1]);
	}
	if (function) {
		p->frame[n].function = function_name(function);
		p->frame[n].id = function->addr;
	}
	return true;
}

/* Where calls enter: what DW_AT_entry_pc says, or else the first of the ranges, which is the main part. */
static bool is_entry_range(Dwarf_Die *function, uint64_t start)
{
	Dwarf_Addr base, entry = start, end;
	Dwarf_Attribute mem;

	if (dwarf_attr_integrate(function, DW_AT_entry_pc, &mem) && dwarf_entrypc(function, &entry) == 0)
		return entry == start;
	return dwarf_ranges(function, 0, &base, &entry, &end) <= 0 || entry == start;
}

static struct unit *unit_around(struct dwarf_names *d, uint64_t addr, const struct interval **function)
{
	const struct interval *range = NULL;
	struct unit *first = NULL;

	/* Units may overlap where linkers merged equal functions: one that knows a function is better. */
	while ((range = intervals_find(&d->ranges, addr, range))) {
		struct unit *u = &d->unit[range->item];

		*function = unit_function(u, addr);
		if (*function)
			return u;
		if (!first)
			first = u;
	}
	return first;
}

bool dwarf_names_lookup(struct dwarf_names *d, uint64_t vaddr, struct dwarf_place *ret)
{
	const struct interval *range = NULL;
	struct dwarf_place p = { 0 };
	Dwarf_Die *function;
	struct unit *u;
	uint64_t addr;

	if (!d->read)
		read_units(d);
	addr = vaddr - d->bias;
	u = unit_around(d, addr, &range);
	if (!u)
		return false;
	function = range ? &u->die[range->item] : NULL;
	if (!fill_frames(u, function, addr, &p))
		return false;
	if (range) {
		p.has_function = true;
		p.start = range->start + d->bias;
		p.end = range->end + d->bias;
		p.in_entry_range = is_entry_range(function, range->start);
	}
	*ret = p;
	return true;
}

bool dwarf_names_function(struct dwarf_names *d, uint64_t vaddr, Dwarf_Die *ret, Dwarf_Die *unit,
			  uint64_t *bias)
{
	const struct interval *range = NULL;
	struct unit *u;

	if (!d->read)
		read_units(d);
	u = unit_around(d, vaddr - d->bias, &range);
	if (!u || !range || range->start != vaddr - d->bias)
		return false;
	*ret = u->die[range->item];
	if (!is_entry_range(ret, range->start))
		return false;
	*unit = u->cu;
	*bias = d->bias;
	return true;
}

void dwarf_place_deinit(struct dwarf_place *p)
{
	for (size_t i = 0; i < p->nframes; i++)
		free(p->frame[i].function);
	free(p->frame);
	*p = (struct dwarf_place){ 0 };
}
