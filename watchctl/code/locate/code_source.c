#include "watchctl/code/locate/code_source.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/interval.h"
#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/lookup/locate_index.h"
#include "watchctl/code/lookup/locate_near.h"
#include "watchctl/code/lookup/locator.h"

#define DEPTH_MAX 256

static void locator_freep(struct locator **l)
{
	locator_free(*l);
}

struct code_source_ranges {
	struct intervals code;
};

struct source_glob {
	const char *text;
	bool is_found;
	struct near near;
};

struct code_source_choice {
	struct source_glob *glob;
	size_t n;
};

bool code_source_fits(const char *path, const char *glob)
{
	scoped(freep) char *folder = NULL;
	size_t len;

	while (!strncmp(glob, "./", 2))
		glob += 2;
	len = strlen(glob);
	if (len > 1 && glob[len - 1] == '/') {
		folder = strndup(glob, len - 1);
		if (!folder)
			return false;
	}
	for (const char *at = path, *slash; at; at = slash ? slash + 1 : NULL) {
		if (!fnmatch(folder ? folder : glob, at, FNM_PATHNAME | (folder ? FNM_LEADING_DIR : 0)))
			return true;
		slash = strchr(at, '/');
	}
	return false;
}

/* The search of one module */

struct search_sources {
	struct code_source_choice *choice;
	struct locator *locator;
	const struct module *m;
	struct locate_index *index;
	uint64_t bias;
	struct map64 fits; /* address of a path -> 1: no glob fits, 2: one does */
	struct code_source_ranges *ret;
	bool has_dwarf, failed;
};

/* All globs are asked, so that each is known to fit something. */
static bool path_fits(struct code_source_choice *c, const char *path)
{
	bool ret = false;

	for (size_t i = 0; i < c->n; i++) {
		struct source_glob *g = &c->glob[i];

		if (code_source_fits(path, g->text))
			ret = g->is_found = true;
		else if (!g->is_found)
			near_offer(&g->near, basename(path), basename(path));
	}
	return ret;
}

/* A path of the debug information lies where it lies: its address stands for it. */
static bool known_path_fits(struct search_sources *s, const char *path)
{
	const uint64_t key = (uint64_t)(uintptr_t)path;
	const uintptr_t known = (uintptr_t)map64_get(&s->fits, key);
	bool fits;

	if (known)
		return known == 2;
	fits = path_fits(s->choice, path);
	s->failed |= !map64_put(&s->fits, key, (void *)(uintptr_t)(fits ? 2 : 1));
	return fits;
}

static bool unit_fits(struct search_sources *s, Dwarf_Die *unit)
{
	const uint64_t key = (uint64_t)(uintptr_t)unit->addr;
	const uintptr_t known = (uintptr_t)map64_get(&s->fits, key);
	const char *name = dwarf_diename(unit), *dir;
	scoped(freep) char *full = NULL;
	Dwarf_Attribute mem;
	bool fits;

	if (known || !name)
		return known == 2;
	dir = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &mem));
	if (dir && name[0] != '/' && asprintf(&full, "%s/%s", dir, name) < 0)
		full = NULL;
	fits = path_fits(s->choice, full ? full : name);
	s->failed |= !map64_put(&s->fits, key, (void *)(uintptr_t)(fits ? 2 : 1));
	return fits;
}

/* Code that the linker left out is at address 0. */
static void add_ranges(struct search_sources *s, Dwarf_Die *die)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	while (!s->failed && (at = dwarf_ranges(die, at, &base, &start, &end)) > 0)
		if (start && start < end)
			s->failed |= !vec_push(
				s->ret->code.v, s->ret->code.n, s->ret->code.cap,
				((struct interval){ .start = start + s->bias, .end = end + s->bias }));
}

static void look_at_function(struct search_sources *s, Dwarf_Die *die, uint32_t unit)
{
	Dwarf_Addr base, start, end;
	Dwarf_Die made_from;
	const char *decl;

	if (dwarf_ranges(die, 0, &base, &start, &end) <= 0 || !start)
		return;
	made_from = locate_made_from(s->index, die, unit);
	decl = dwarf_die_decl_file(die, NULL);
	if ((decl && known_path_fits(s, decl)) || unit_fits(s, &made_from))
		add_ranges(s, die);
}

static void look_below(struct search_sources *s, Dwarf_Die *parent, uint32_t unit, unsigned int depth)
{
	Dwarf_Die die;

	if (depth == DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			look_at_function(s, &die, unit);
			look_below(s, &die, unit, depth + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			look_below(s, &die, unit, depth + 1);
			break;
		default:
			break;
		}
	} while (!s->failed && dwarf_siblingof(&die, &die) == 0);
}

/* Functions of a unit need not have entries: those of assemblers have none. */
static void look_at_unit(struct search_sources *s, uint32_t unit)
{
	Dwarf_Die *die = locate_index_unit(s->index, unit);
	Dwarf_Addr base, start, end;

	if (dwarf_ranges(die, 0, &base, &start, &end) > 0 && unit_fits(s, die))
		add_ranges(s, die);
	look_below(s, die, unit, 0);
}

static void run_search(void *ctx)
{
	struct search_sources *s = ctx;

	s->index = locator_index(s->locator, s->m);
	s->failed = !s->index;
	if (s->failed || !locate_index_has_dwarf(s->index))
		return;
	s->has_dwarf = true;
	s->bias = locate_index_bias(s->index);
	for (uint32_t i = 0; i < locate_index_nunits(s->index) && !s->failed; i++)
		look_at_unit(s, i);
	s->failed |= locate_index_lacks_memory(s->index);
}

static struct wc_error *no_sources(const struct module *m, struct locator *l)
{
	return locate_with_lack(wc_error_new(WC_ENAME,
					     "which source files the functions of %s are from is not known.",
					     basename(m->path)),
				l, m);
}

struct wc_error *code_source_choose(struct code_source_choice *c, const struct module *m,
				    struct code_source_ranges **ret)
{
	scoped(locator_freep) struct locator *l = locator_new();
	struct search_sources s = { .choice = c, .locator = l, .m = m };
	struct wc_error *err;

	s.ret = calloc(1, sizeof(*s.ret));
	err = l && s.ret ? locator_guarded(l, run_search, &s) : &wc_enomem;
	map64_deinit(&s.fits);
	if (!err && s.failed)
		err = &wc_enomem;
	if (!err && !s.has_dwarf)
		err = no_sources(m, l);
	if (err) {
		code_source_ranges_free(s.ret);
		return err;
	}
	intervals_sort(&s.ret->code);
	*ret = s.ret;
	return NULL;
}

void code_source_ranges_free(struct code_source_ranges *r)
{
	if (r)
		intervals_deinit(&r->code);
	free(r);
}

bool code_source_ranges_have(const struct code_source_ranges *r, uint64_t addr)
{
	return intervals_find(&r->code, addr, NULL);
}

/* The choice */

struct code_source_choice *code_source_choice_new(const char *const *glob, size_t n)
{
	struct code_source_choice *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->glob = calloc(n ? n : 1, sizeof(*c->glob));
	if (!c->glob) {
		free(c);
		return NULL;
	}
	c->n = n;
	for (size_t i = 0; i < n; i++)
		c->glob[i] = (struct source_glob){ .text = glob[i], .near = { .query = basename(glob[i]) } };
	return c;
}

void code_source_choice_free(struct code_source_choice *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		near_deinit(&c->glob[i].near);
	free(c->glob);
	free(c);
}

struct wc_error *code_source_check(const struct code_source_choice *c)
{
	for (size_t i = 0; i < c->n; i++) {
		scoped(freep) char *near = NULL;

		if (c->glob[i].is_found)
			continue;
		near = near_text(&c->glob[i].near);
		return wc_error_new(
			WC_ENAME,
			"no function is defined in a source file that \"%s\" fits, as --source wants%s%s%s",
			c->glob[i].text, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	}
	return NULL;
}
