/*
 * The order of the search is the order in which people think of their program: the main executable
 * first, then the libraries; variables outside functions first, then those inside; debug information
 * first, then symbol tables. The first stage that finds something ends the search, so
 * the debug information of libraries is not even opened for a variable of the program.
 */
#include "watchctl/code/lookup/locate_find.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/dwarf/dwarf_unit.h"

void search_deinit(struct search *s)
{
	for (size_t i = 0; i < s->nhits; i++)
		free(s->hit[i].name);
	free(s->hit);
	free(s->problem_name);
	free(s->problem_module);
	s->hit = NULL;
	s->nhits = s->hit_cap = 0;
	s->problem_name = s->problem_module = NULL;
}

bool module_is_called(const struct module_list *l, const struct module *m, const char *name)
{
	return module_answers(l, m, name);
}

/* Whether unit @u was made from the source file @source. */
static bool unit_is_from(Dwarf_Die *u, const char *source)
{
	const char *name = dwarf_diename(u), *dir;
	scoped(freep) char *full = NULL;
	Dwarf_Attribute mem;

	if (!name)
		return false;
	if (locate_path_fit(name, source))
		return true;
	dir = dwarf_formstring(dwarf_attr(u, DW_AT_comp_dir, &mem));
	if (!dir || name[0] == '/' || asprintf(&full, "%s/%s", dir, name) < 0) {
		full = NULL;
		return false;
	}
	return locate_path_fit(full, source);
}

Dwarf_Die locate_made_from(struct locate_index *x, Dwarf_Die *die, uint32_t unit)
{
	Dwarf_Die origin, made_from = *locate_index_unit(x, unit);
	Dwarf_Attribute mem;

	if (dwarf_formref_die(dwarf_attr(die, DW_AT_abstract_origin, &mem), &origin))
		dwarf_diecu(&origin, &made_from, NULL, NULL);
	return made_from;
}

bool locate_is_from(struct locate_index *x, Dwarf_Die *die, uint32_t unit, const char *source)
{
	const char *decl = dwarf_die_decl_file(die, NULL);
	Dwarf_Die made_from = locate_made_from(x, die, unit);

	return (decl && locate_path_fit(decl, source)) || unit_is_from(&made_from, source);
}

static char *qualified_name(const char *scope, const char *name)
{
	char *s;

	return asprintf(&s, "%s%s%s", scope ? scope : "", scope ? "::" : "", name) < 0 ? NULL : s;
}

static void drop_hits(struct search *s)
{
	for (size_t i = 0; i < s->nhits; i++)
		free(s->hit[i].name);
	s->nhits = 0;
}

bool hit_is_same(const struct hit *a, const struct hit *b)
{
	if (a->is_tls != b->is_tls || a->addr != b->addr)
		return false;
	return !a->is_tls || a->module == b->module;
}

/* Takes the name of @h, which is what @have is. */
static void add_debug_information(struct hit *have, struct hit *h)
{
	if (have->is_function) {
		/* Its symbol reports its parameters, and which of its copies it is. */
		have->has_die = true;
		have->die = h->die;
		have->unit = h->unit;
		free(h->name);
	} else {
		free(have->name);
		*have = *h;
	}
}

void search_add_hit(struct search *s, struct hit h)
{
	if (s->nhits && h.fit > s->hit[0].fit)
		drop_hits(s);
	if (!h.name || (s->nhits && h.fit < s->hit[0].fit)) {
		s->no_memory |= !h.name;
		free(h.name);
		return;
	}
	for (size_t i = 0; i < s->nhits; i++) {
		if (!hit_is_same(&s->hit[i], &h))
			continue;
		if (!s->hit[i].has_die && h.has_die) {
			add_debug_information(&s->hit[i], &h);
		} else {
			free(h.name);
		}
		return;
	}
	if (!vec_push(s->hit, s->nhits, s->hit_cap, h)) {
		s->no_memory = true;
		free(h.name);
	}
}

/* How much a reason says: a variable that once was beats one that is only declared. */
static int problem_weight(enum variable_place place)
{
	return place == PLACE_ADDRESS ? 0 : place == PLACE_DECLARATION ? 1 : place == PLACE_OPTIMISED ? 2 : 3;
}

static void note_problem(struct search *s, const struct module *m, const struct variable_entry *e,
			 enum name_fit fit, enum variable_place place)
{
	if (s->problem_fit > fit ||
	    (s->problem_fit == fit && problem_weight(s->problem) >= problem_weight(place)))
		return;
	free(s->problem_name);
	free(s->problem_module);
	s->problem = place;
	s->problem_fit = fit;
	s->problem_name = qualified_name(e->scope, e->name);
	s->problem_module = strdup(m->path);
}

struct in_module {
	struct search *s;
	const struct module *m;
	struct locate_index *x;
	bool only_addresses; /* do not speak of what has none */
};

/* Fits the shape of locate_index_find(). */
static bool each_entry(void *ctx, const struct variable_entry *e, enum name_fit fit)
{
	struct in_module *in = ctx;
	struct search *s = in->s;
	Dwarf_Die die = e->die;
	enum variable_place place;
	uint64_t vaddr;

	if (s->source && !locate_is_from(in->x, &die, e->unit, s->source))
		return true;
	place = locate_index_place(in->x, &die, &vaddr);
	if (place == PLACE_DECLARATION && fit == FIT_EXACT && !s->declared.known)
		s->declared = dtype_of(in->x, &die);
	if (place != PLACE_ADDRESS && place != PLACE_TLS) {
		if (in->only_addresses)
			return true;
		note_problem(s, in->m, e, fit, place);
		return true;
	}
	search_add_hit(s, (struct hit){ .module = in->m,
					.index = in->x,
					.addr = place == PLACE_TLS ? vaddr : vaddr + in->m->bias,
					.is_tls = place == PLACE_TLS,
					.type = dtype_of(in->x, &die),
					.has_die = true,
					.die = die,
					.unit = e->unit,
					.fit = fit,
					.name = qualified_name(e->scope, e->name) });
	return !s->no_memory;
}

void search_strip_clone_suffix(char *name)
{
	size_t len = strlen(name), end = len;

	while (end && isdigit((unsigned char)name[end - 1]))
		end--;
	if (end < 2 || end == len || name[end - 1] != '.')
		return;
	name[end - 1] = '\0';
	end = strlen(name);
	if (end > 9 && strcmp(name + end - 9, ".lto_priv") == 0)
		name[end - 9] = '\0';
	else if (end > 8 && strcmp(name + end - 8, ".llvm") == 0)
		name[end - 5] = '\0';
}

/* Which symbols a stage looks at. */
enum symbol_stage { SYMBOLS_OUTER, SYMBOLS_LOCAL };

/* "f()::x" and "C::f() const::x" are inside a function, "(anonymous namespace)::x" is not. */
static bool name_is_local(const char *name)
{
	static const char *const qualifiers[] = { " const", " volatile", " &&", " &", "[abi:cxx11]" };

	for (const char *end = name; (end = strchr(end, ')')); end++) {
		const char *after = end + 1;

		for (size_t i = 0; i < sizeof(qualifiers) / sizeof(*qualifiers); i++)
			if (strncmp(after, qualifiers[i], strlen(qualifiers[i])) == 0)
				after += strlen(qualifiers[i]);
		if (strncmp(after, "::", 2) == 0 &&
		    (end - name < 20 || strncmp(end - 20, "(anonymous namespace", 20) != 0))
			return true;
	}
	return false;
}

/* What clang calls the static variable of a C function: "function.name", which is an outer name in Go. */
static bool is_static_of_function(const struct symbol *sym)
{
	return sym->bind == STB_LOCAL && strncmp(sym->name, "_Z", 2) != 0 &&
	       strncmp(sym->name, "_R", 2) != 0 && strchr(sym->name, '.');
}

/* How well a symbol fits in @stage; *@ret is its name for people. */
static enum name_fit symbol_fit(const struct symbol *sym, const char *query, enum symbol_stage stage,
				char **ret)
{
	char *name = demangle_or_copy(sym->name);
	enum name_fit fit = FIT_NONE;

	*ret = NULL;
	if (!name)
		return FIT_NONE;
	if (stage == SYMBOLS_LOCAL) {
		search_strip_clone_suffix(name);
		fit = locate_name_fit(NULL, name, query) ? FIT_SUFFIX : FIT_NONE;
	} else if (strcmp(sym->name, query) == 0) {
		fit = FIT_EXACT;
	} else if (!name_is_local(name) && !is_static_of_function(sym)) {
		if (sym->use == SYMBOL_TLS)
			locate_cut_thread_local(name);
		fit = locate_name_fit(NULL, name, query);
	}
	if (!fit)
		free(name);
	else
		*ret = name;
	return fit;
}

const char *search_last_word(const char *query)
{
	const char *last = query;

	for (const char *c = query; *c; c++)
		if (*c == ':' || *c == ')' || *c == '>')
			last = c + 1;
	return last;
}

static void search_symbols(struct search *s, const struct module *m, struct locate_index *x,
			   enum symbol_stage stage)
{
	struct symbols *table = locate_index_symbols(x);
	const char *word = search_last_word(s->name);
	const struct symbol *v;
	size_t n;

	if (!table) {
		s->no_memory = true;
		return;
	}
	v = symbols_all(table, &n);
	for (size_t i = 0; i < n; i++) {
		bool is_tls = v[i].use == SYMBOL_TLS;
		enum name_fit fit;
		char *name;

		if (v[i].use == SYMBOL_CODE || !strstr(v[i].name, word))
			continue;
		fit = symbol_fit(&v[i], s->name, stage, &name);
		if (!fit)
			continue;
		search_add_hit(s, (struct hit){ .module = m,
						.index = x,
						.addr = is_tls ? v[i].addr : v[i].addr + m->bias,
						.is_tls = is_tls,
						.size = v[i].size,
						.fit = fit,
						.name = name });
	}
}

/* A symbol table without the name cannot hide a variable of that name inside a function. */
static bool may_have_local(struct search *s, struct locate_index *x)
{
	struct symbols *table = locate_index_symbols(x);
	const char *word = search_last_word(s->name);
	const struct symbol *v;
	size_t n, locals = 0;

	if (!table)
		return false;
	if (locate_index_hides_locals(x))
		return true;
	v = symbols_all(table, &n);
	for (size_t i = 0; i < n; i++) {
		locals += v[i].bind == STB_LOCAL;
		if (v[i].use != SYMBOL_CODE && strstr(v[i].name, word))
			return true;
	}
	return !locals;
}

static void stage_outer(struct search *s, const struct module *m, struct locate_index *x)
{
	struct in_module in = { s, m, x, false };
	size_t before = s->nhits;

	locate_index_find(x, s->name, false, each_entry, &in);
	if (s->nhits == before && !s->source)
		search_symbols(s, m, x, SYMBOLS_OUTER);
}

static void stage_local(struct search *s, const struct module *m, struct locate_index *x)
{
	struct in_module in = { s, m, x, true };
	size_t before = s->nhits;

	if (may_have_local(s, x))
		locate_index_find(x, s->name, true, each_entry, &in);
	if (s->nhits == before && !s->source)
		search_symbols(s, m, x, SYMBOLS_LOCAL);
}

/* To be able to say that it is a local variable, of no fixed address. */
static void stage_automatic(struct search *s, const struct module *m, struct locate_index *x)
{
	struct in_module in = { s, m, x, false };

	/* Libraries are only looked through to the bottom where the user pointed at them. */
	if (!s->problem_fit && (s->module || s->source || m == search_main_module(s->modules)))
		locate_index_find(x, s->name, true, each_entry, &in);
}

struct wc_error *search_run_stage(struct search *s, search_stage *stage, bool others)
{
	const struct module *only = search_main_module(s->modules);

	for (size_t i = 0; i < s->modules->n; i++) {
		const struct module *m = &s->modules->v[i];
		struct locate_index *x;

		if ((m == only) == others || (s->module && !module_is_called(s->modules, m, s->module)))
			continue;
		x = locator_index(s->locator, m);
		if (!x)
			return &wc_enomem;
		stage(s, m, x);
		if (s->no_memory || locate_index_lacks_memory(x))
			return &wc_enomem;
	}
	return NULL;
}

static struct wc_error *settle_hits(struct search *s)
{
	struct wc_error *err = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < s->nhits && !err; i++)
		if (!s->hit[i].is_function && !s->hit[i].is_tls)
			err = hit_follow_copy(s, &s->hit[i]);
	/* Two libraries may turn out to mean one object. */
	for (size_t i = 0; i < s->nhits; i++) {
		bool seen = false;

		for (size_t k = 0; k < kept; k++)
			seen |= hit_is_same(&s->hit[k], &s->hit[i]);
		if (seen)
			free(s->hit[i].name);
		else
			s->hit[kept++] = s->hit[i];
	}
	s->nhits = kept;
	search_prefer_exports(s);
	if (err || s->nhits != 1 || s->hit[0].has_die || s->hit[0].is_function)
		return err;
	err = hit_find_entry(&s->hit[0]);
	return err || s->hit[0].has_die ? err : hit_find_type(s, &s->hit[0]);
}

struct wc_error *search_take_hit(struct search *s, struct hit h)
{
	drop_hits(s);
	search_add_hit(s, h);
	return s->no_memory ? &wc_enomem : hit_find_entry(&s->hit[0]);
}

struct wc_error *search_symbol(struct search *s, const char *name, struct hit *ret)
{
	for (size_t i = 0; i < s->modules->n; i++) {
		const struct module *m = &s->modules->v[i];
		struct locate_index *x;
		struct symbols *table;
		const struct symbol *v;
		size_t n;

		if (s->module ? !module_is_called(s->modules, m, s->module)
			      : m != search_main_module(s->modules) && m != s->hit[0].module)
			continue;
		x = locator_index(s->locator, m);
		table = x ? locate_index_symbols(x) : NULL;
		if (!table)
			return &wc_enomem;
		v = symbols_all(table, &n);
		for (size_t k = 0; k < n; k++) {
			bool is_tls = v[k].use == SYMBOL_TLS;

			if (v[k].use == SYMBOL_CODE || strcmp(v[k].name, name) != 0)
				continue;
			*ret = (struct hit){ .module = m,
					     .index = x,
					     .addr = is_tls ? v[k].addr : v[k].addr + m->bias,
					     .is_tls = is_tls,
					     .size = v[k].size,
					     .fit = FIT_EXACT,
					     .name = strdup(name) };
			return ret->name ? NULL : &wc_enomem;
		}
	}
	return NULL;
}

bool search_is_lost(const struct search *s)
{
	return s->problem_fit && s->problem != PLACE_DECLARATION;
}

void search_take_problem(struct search *s, struct search *from)
{
	free(s->problem_name);
	free(s->problem_module);
	s->problem = from->problem;
	s->problem_fit = from->problem_fit;
	s->problem_name = take_ptr(from->problem_name);
	s->problem_module = take_ptr(from->problem_module);
	from->problem_fit = FIT_NONE;
}

struct wc_error *search_run(struct search *s)
{
	static const struct {
		search_stage *run;
		bool others;
	} stages[] = {
		{ stage_outer, false }, { stage_local, false },	    { stage_outer, true },
		{ stage_local, true },	{ stage_automatic, false }, { stage_automatic, true },
	};
	struct wc_error *err = NULL;

	/* What the program once had is not taken for another one's of that name. */
	for (size_t i = 0; i < sizeof(stages) / sizeof(*stages) && !err && !s->nhits && !search_is_lost(s);
	     i++)
		err = search_run_stage(s, stages[i].run, stages[i].others);
	return err ? err : settle_hits(s);
}

struct wc_error *search_run_libraries(struct search *s)
{
	struct wc_error *err = search_run_stage(s, stage_outer, true);

	return err ? err : settle_hits(s);
}

/* A single prefix names a module if one is called so, else a source file. */
void search_set_prefixes(struct search *s, char *const *prefix, size_t n)
{
	if (!n)
		return;
	if (n == 2) {
		s->module = prefix[0];
		s->source = prefix[1];
	} else if (module_by_name(s->modules, prefix[0])) {
		s->module = prefix[0];
	} else {
		s->source = prefix[0];
	}
}
