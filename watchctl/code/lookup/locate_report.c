/* What is said when a name means nothing, cannot be watched, or means several things. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/read_failure.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/elf/debug_package.h"
#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/lookup/locate_near.h"
#include "watchctl/code/lookup/locate_parse.h"

/* Candidates and modules beyond these are counted, not listed. */
#define CANDIDATES_MAX 10
#define MODULES_MAX 8

/* How long the separator that ends before @s is: of "ns::x" and "main.x" before the x. 0: none. */
static size_t separator_before(const char *name, const char *s)
{
	if (s >= name + 2 && s[-1] == ':' && s[-2] == ':')
		return 2;
	return s > name && s[-1] == '.' ? 1 : 0;
}

/* The next character of a name, behind brackets and what is in them. */
static const char *next_in_name(const char *s)
{
	const char *behind = *s == '<' || *s == '(' || *s == '{' ? locate_skip_balanced(s) : NULL;

	return behind ? behind : s + 1;
}

static size_t count_separators(const char *name)
{
	size_t n = 0;

	for (const char *s = name; *s; s = next_in_name(s))
		n += separator_before(name, s) > 0;
	return n;
}

/* Names are compared by as many of their last components as were given. */
static const char *near_key(const struct near *near, const char *full)
{
	size_t wanted = count_separators(near->query), have = count_separators(full);

	for (const char *s = full; *s && have > wanted; s = next_in_name(s))
		if (separator_before(full, s) && --have == wanted)
			return s;
	return full;
}

static char *full_name(const struct variable_entry *e)
{
	char *s;

	return asprintf(&s, "%s%s%s", e->scope ? e->scope : "", e->scope ? "::" : "", e->name) < 0 ? NULL : s;
}

/* Functions, by their symbols. */
static void offer_functions(struct near *near, struct locate_index *x)
{
	struct symbols *table = locate_index_symbols(x);
	const struct symbol *sym;
	size_t n;

	if (!table)
		return;
	sym = symbols_all(table, &n);
	for (size_t i = 0; i < n; i++) {
		scoped(freep) char *bare = sym[i].use == SYMBOL_CODE ? demangle_bare(sym[i].name) : NULL;
		scoped(freep) char *plain = NULL;

		if (sym[i].use != SYMBOL_CODE)
			continue;
		plain = bare ? NULL : demangle_or_copy(sym[i].name);
		if (bare || plain)
			near_offer(near, near_key(near, bare ? bare : plain), bare ? bare : plain);
	}
}

static bool has_address(struct locate_index *x, const struct variable_entry *e)
{
	Dwarf_Die die = e->die;
	uint64_t addr;
	enum variable_place place = locate_index_place(x, &die, &addr);

	return place == PLACE_ADDRESS || place == PLACE_TLS;
}

static void offer_module(struct near *near, struct locate_index *x, bool with_source)
{
	size_t n, m;
	const struct variable_entry *v = locate_index_all(x, &n);
	struct symbols *table = locate_index_symbols(x);
	const struct symbol *sym = table ? symbols_all(table, &m) : NULL;

	for (size_t i = 0; i < n; i++) {
		const char *unit = dwarf_diename(locate_index_unit(x, v[i].unit));
		scoped(freep) char *full = NULL;
		scoped(freep) char *shown = NULL;

		full = v[i].declaration ? NULL : full_name(&v[i]);
		if (!full || !near_takes(near, near_key(near, full)) || !has_address(x, &v[i]))
			continue;
		if (asprintf(&shown, "%s%s%s", with_source && unit ? basename(unit) : "",
			     with_source && unit ? ":" : "", full) < 0)
			shown = NULL;
		if (shown)
			near_offer(near, near_key(near, full), shown);
	}
	for (size_t i = 0; sym && !with_source && i < m; i++) {
		scoped(freep) char *name = NULL;

		if (sym[i].use != SYMBOL_DATA || !sym[i].size || strncmp(sym[i].name, "_ZT", 3) == 0 ||
		    strncmp(sym[i].name, "_ZGV", 4) == 0)
			continue;
		name = demangle_or_copy(sym[i].name);
		if (!name || strncmp(name, "__PRETTY_FUNCTION__", 19) == 0 ||
		    strncmp(name, "__func__", 8) == 0)
			continue;
		near_offer(near, near_key(near, name), name);
	}
}

/* @own: of the program, or of the module that was named, and not the name itself. */
static char *near_in_modules(struct search *s, const char *query, bool own)
{
	const struct module *exe = search_main_module(s->modules);
	struct near near = { .query = query, .but_itself = own };
	char *text;

	for (size_t i = 0; i < s->modules->n; i++) {
		const struct module *m = &s->modules->v[i];
		struct locate_index *x;

		if (s->module ? !module_is_called(s->modules, m, s->module) : own && m != exe)
			continue;
		x = locator_index(s->locator, m);
		if (x && s->functions)
			offer_functions(&near, x);
		else if (x)
			offer_module(&near, x, s->source != NULL);
	}
	text = near_text(&near);
	near_deinit(&near);
	return text;
}

/* In Go the variable is "package.name", which was read as a member of "package". */
static char *near_names(struct search *s)
{
	char *near = s->whole_name && strcmp(s->whole_name, s->name) != 0
			     ? near_in_modules(s, s->whole_name, false)
			     : NULL;

	return near ? near : near_in_modules(s, s->name, false);
}

/* One more sentence behind the text of @err, which it takes. */
static struct wc_error *add_sentence(struct wc_error *err, const char *format, const char *what)
{
	char sentence[512];
	struct wc_error *longer;

	snprintf(sentence, sizeof(sentence), format, what);
	longer = wc_error_new(err->kind, "%s %s", err->text, sentence);
	wc_error_free(err);
	return longer;
}

static struct wc_error *with_near(struct wc_error *err, char *near)
{
	if (near)
		err = add_sentence(err, "Did you mean %s?", near);
	free(near);
	return err;
}

/* Why the variable that was met cannot be watched. */
static struct wc_error *problem_error(const struct search *s)
{
	const char *name = s->problem_name ? s->problem_name : s->name;
	const char *where = s->problem_module ? s->problem_module : "the program";

	switch (s->problem) {
	case PLACE_OPTIMISED:
		return wc_error_new(WC_ENAME,
				    "'%s' was optimised out of %s: it has no address. Build with -O0, or "
				    "make it volatile.",
				    name, where);
	case PLACE_CONSTANT:
		return wc_error_new(WC_ENAME,
				    "'%s' was optimised out of %s: the compiler put its value, a constant, "
				    "into the code. It has no address and never changes.",
				    name, where);
	case PLACE_STACK:
	case PLACE_REGISTER:
		return wc_error_new(
			WC_ENAME,
			"'%s' in %s is a local variable, %s: it has no address of its own outside its "
			"function's calls. Watch a global or static variable, or what a global points to.",
			name, where,
			s->problem == PLACE_REGISTER ? "held in a register" : "on the stack or in registers");
	case PLACE_DISCARDED:
		return wc_error_new(
			WC_ENAME,
			"The linker removed '%s' from %s, because nothing uses it: it has no address.", name,
			where);
	case PLACE_COMPLEX:
		return wc_error_new(
			WC_ENAME,
			"The location of '%s' in %s is computed at run time: it has no fixed address.", name,
			where);
	default:
		return wc_error_new(
			WC_ENAME,
			"'%s' is declared in %s, but no loaded module defines it. It may belong to a library "
			"that is not loaded yet.",
			name, where);
	}
}

static bool looks_like_source(const char *name)
{
	static const char *const ends[] = { "c",   "cc",  "cpp", "cxx", "c++", "C",   "h",   "hh",
					    "hpp", "hxx", "rs",	 "go",	"s",   "S",   "asm", "f",
					    "f90", "F90", "adb", "ads", "d",   "zig", "m",   "mm",
					    "pas", "nim", "inc", "y",	"l",   "tcc", "ipp" };
	const char *dot = strrchr(basename(name), '.');

	for (size_t i = 0; dot && i < sizeof(ends) / sizeof(*ends); i++)
		if (strcmp(dot + 1, ends[i]) == 0)
			return true;
	return false;
}

static char *near_sources(struct search *s)
{
	struct near near = { .query = basename(s->source) };
	char *text;

	for (size_t i = 0; i < s->modules->n; i++) {
		struct locate_index *x = locator_index(s->locator, &s->modules->v[i]);

		for (size_t u = 0; x && u < locate_index_nunits(x); u++) {
			const char *name = dwarf_diename(locate_index_unit(x, (uint32_t)u));

			if (name)
				near_offer(&near, basename(name), basename(name));
		}
	}
	text = near_text(&near);
	near_deinit(&near);
	return text;
}

/* "a, b, c", or the names like @name when there are many. */
static struct wc_error *not_loaded(struct search *s, const char *name)
{
	struct near near = { .query = basename(name) };
	scoped(freep) char *list = NULL;
	size_t len, n = 0;
	FILE *f = open_memstream(&list, &len);
	char *text;

	if (!f)
		return &wc_enomem;
	for (size_t i = 0; i < s->modules->n; i++) {
		const char *base = basename(s->modules->v[i].path);

		near_offer(&near, base, base);
		fprintf(f, "%s%s", n++ ? ", " : "", base);
	}
	fclose(f);
	text = near_text(&near);
	near_deinit(&near);
	if (n > MODULES_MAX || !n)
		return with_near(wc_error_new(WC_ENAME,
					      "No module '%s' is loaded, and no source file is called so.",
					      name),
				 text);
	free(text);
	return wc_error_new(WC_ENAME,
			    "No module '%s' is loaded, and no source file is called so. Loaded are: %s.",
			    name, list);
}

struct lack {
	struct locator *locator;
	const struct module *m;
	char *text;
};

static void find_lack(void *ctx)
{
	struct lack *l = ctx;
	const char *name = basename(l->m->path);
	struct locate_index *x = locator_index(l->locator, l->m);
	struct symbols *table = x ? locate_index_symbols(x) : NULL;
	scoped(freep) char *advice = NULL;
	size_t n = 0;

	if (!table)
		return;
	l->text = locate_index_missing(x);
	if (l->text || locate_index_has_dwarf(x))
		return;
	advice = debug_package_advice(l->m);
	if (advice)
		advice[0] = (char)toupper((unsigned char)advice[0]);
	symbols_all(table, &n);
	if (asprintf(
		    &l->text, "%s has %s%s%s%s", name,
		    n ? "no debug information: only the names of its symbols are known."
		      : "neither debug information nor symbols: it was stripped or linked with -s. Use a build "
			"that has them, or give an address (0x...).",
		    advice ? " " : "", advice ? advice : "", advice ? "." : "") < 0)
		l->text = NULL;
}

char *locate_lack(struct locator *l, const struct module *m)
{
	struct lack lack = { l, m, NULL };

	wc_error_free(locator_guarded(l, find_lack, &lack));
	return lack.text;
}

struct wc_error *locate_with_lack(struct wc_error *err, struct locator *l, const struct module *m)
{
	scoped(freep) char *lack = m ? locate_lack(l, m) : NULL;
	struct wc_error *longer;

	if (!lack)
		return err;
	longer = wc_error_new(err->kind, "%s %s", err->text, lack);
	wc_error_free(err);
	return longer;
}

/* Says what the module that is most likely meant lacks, as one more sentence behind @err, which it takes. */
static struct wc_error *with_lack(struct wc_error *err, struct search *s)
{
	return locate_with_lack(err, s->locator,
				s->module ? module_by_name(s->modules, s->module)
					  : search_main_module(s->modules));
}

static bool source_is_known(struct search *s)
{
	for (size_t i = 0; i < s->modules->n; i++) {
		struct locate_index *x = locator_index(s->locator, &s->modules->v[i]);

		for (size_t u = 0; x && u < locate_index_nunits(x); u++) {
			const char *name = dwarf_diename(locate_index_unit(x, (uint32_t)u));

			if (name && locate_path_fit(name, s->source))
				return true;
		}
	}
	return false;
}

struct wc_error *search_unknown_source(struct search *s, bool *missing_module)
{
	if (!s->source || source_is_known(s))
		return NULL;
	if (looks_like_source(s->source))
		return with_near(
			with_lack(wc_error_new(WC_ENAME,
					       "No source file '%s' is known to the debug information of %s.",
					       s->source, s->module ? s->module : "the loaded modules"),
				  s),
			near_sources(s));
	if (s->module)
		return NULL;
	if (missing_module)
		*missing_module = true;
	return not_loaded(s, s->source);
}

/* One way to write a hit, and whether it selects that hit alone. */
struct form {
	const char *module, *file; /* NULL: not given */
};

static bool form_fits(const struct search *s, const struct form *f, struct hit *h, const char *name)
{
	Dwarf_Die unit;
	const char *decl, *made_from;

	if (f->module && !module_is_called(s->modules, h->module, f->module))
		return false;
	if (!f->file)
		return locate_name_fit(NULL, h->name, name) != FIT_NONE;
	if (!h->has_die)
		return false;
	unit = locate_made_from(h->index, &h->die, h->unit);
	made_from = dwarf_diename(&unit);
	decl = dwarf_die_decl_file(&h->die, NULL);
	return locate_name_fit(NULL, h->name, name) && ((decl && locate_path_fit(decl, f->file)) ||
							(made_from && locate_path_fit(made_from, f->file)));
}

static bool form_selects(struct search *s, const struct form *f, size_t wanted)
{
	for (size_t i = 0; i < s->nhits; i++)
		if (form_fits(s, f, &s->hit[i], s->hit[wanted].name) != (i == wanted))
			return false;
	return true;
}

static char *print_form(const struct form *f, const char *name)
{
	scoped(freep) char *module = f->module ? locate_quote_prefix(f->module) : strdup("");
	scoped(freep) char *file = f->file ? locate_quote_prefix(f->file) : strdup("");
	char *text;

	if (!module || !file ||
	    asprintf(&text, "%s%s%s%s%s", module, f->module ? ":" : "", file, f->file ? ":" : "", name) < 0)
		return NULL;
	return text;
}

/* Whether @name can be typed: not all that compilers call something is an expression. */
static bool is_typeable(const char *name)
{
	struct locate_expr e = { 0 };
	struct wc_error *err = locate_parse(name, &e);
	bool is = !err && e.base && !e.nprefixes;

	for (size_t i = 0; is && i < e.nsteps; i++)
		is = e.step[i].op == LOCATE_MEMBER;
	wc_error_free(err);
	locate_expr_deinit(&e);
	return is;
}

/* The symbol at the address of @h; NULL: there is none. */
static const char *symbol_of(const struct hit *h)
{
	struct symbols *table = locate_index_symbols(h->index);
	uint64_t addr = h->is_tls ? h->addr : h->addr - h->module->bias;
	const struct symbol *v;
	size_t n = 0;

	v = table ? symbols_all(table, &n) : NULL;
	for (size_t i = 0; i < n; i++)
		if (v[i].addr == addr && v[i].use == (h->is_tls ? SYMBOL_TLS : SYMBOL_DATA))
			return v[i].name;
	return NULL;
}

/* Whether @name, in @module if that is not NULL, means @h alone. */
static bool name_selects(struct search *s, const char *module, const char *name, const struct hit *h)
{
	scoped(search_deinit) struct search again = {
		.locator = s->locator, .modules = s->modules, .name = name, .module = module
	};

	wc_error_free(search_run(&again));
	return again.nhits == 1 && hit_is_same(&again.hit[0], h);
}

/* For variables of one name in one function: the symbols have different names. NULL: no symbol will do. */
static char *symbol_form(struct search *s, const struct hit *h)
{
	const char *name = h->is_function ? NULL : symbol_of(h);
	const char *modules[] = { NULL, basename(h->module->path), h->module->path };
	scoped(freep) char *quoted = NULL;

	if (!name || strpbrk(name, "'\\") || asprintf(&quoted, "'%s'", name) < 0) {
		quoted = NULL;
		return NULL;
	}
	for (size_t m = 0; m < sizeof(modules) / sizeof(*modules); m++)
		if (name_selects(s, modules[m], name, h))
			return print_form(&(struct form){ modules[m], NULL }, quoted);
	return NULL;
}

/* The shortest text that means hit @i and no other; @module: with the module's name in any case. */
static char *form_of(struct search *s, size_t i, bool module)
{
	struct hit *h = &s->hit[i];
	bool typeable = h->is_function || is_typeable(h->name);
	const char *modules[] = { NULL, basename(h->module->path), h->module->path };
	Dwarf_Die unit = h->has_die ? locate_made_from(h->index, &h->die, h->unit) : (Dwarf_Die){ 0 };
	const char *paths[] = { h->has_die ? dwarf_diename(&unit) : NULL,
				h->has_die ? dwarf_die_decl_file(&h->die, NULL) : NULL };
	uint64_t size = h->type.known ? dtype_size(&h->type) : h->size;
	char *text;

	for (size_t m = module ? 1 : 0; m < 3 && typeable; m++) {
		struct form f = { modules[m], NULL };

		if (form_selects(s, &f, i))
			return print_form(&f, h->name);
		for (size_t p = 0; p < 2; p++) {
			for (const char *end = NULL; paths[p] && (end = locate_longer_end(paths[p], end));) {
				f.file = end;
				if (form_selects(s, &f, i))
					return print_form(&f, h->name);
			}
		}
	}
	text = symbol_form(s, h);
	if (text)
		return text;
	if (h->is_tls && typeable)
		return print_form(&(struct form){ h->module->path, NULL }, h->name);
	if (asprintf(&text, size ? "0x%" PRIx64 ":%" PRIu64 : "0x%" PRIx64, h->addr, size) < 0)
		return NULL;
	return text;
}

static int text_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Other modules have one of that name: how to say so. */
static struct wc_error *with_elsewhere(struct wc_error *err, struct search *s)
{
	scoped(search_deinit) struct search other = { .locator = s->locator,
						      .modules = s->modules,
						      .name = s->name };
	scoped(freep) char *form = NULL;

	if (!search_is_lost(s) || s->module || s->source)
		return err;
	wc_error_free(search_run_libraries(&other));
	form = other.nhits ? form_of(&other, 0, true) : NULL;
	return form ? add_sentence(err, "Another variable of that name is '%s'.", form) : err;
}

/* Libraries may have variables of one name: what one lost, another that is not loaded yet may have. */
static bool may_come(const struct search *s)
{
	const struct module *main = search_main_module(s->modules);

	return !s->module && !s->source && main && s->problem_module &&
	       strcmp(s->problem_module, main->path) != 0;
}

struct wc_error *search_not_found(struct search *s, const char *prefix, bool *missing_module)
{
	bool joined = s->whole_name && strcmp(s->whole_name, s->name) != 0;
	const char *what = s->functions ? "function" : "variable";
	struct wc_error *err;

	if (read_failure_of_descriptors())
		return wc_error_new(
			WC_EFAIL,
			"Too few file descriptors to look for the %s '%s': raise the limit (ulimit -n).",
			what, s->name);
	if (s->problem_fit) {
		if (missing_module && may_come(s))
			*missing_module = true;
		return with_near(with_elsewhere(problem_error(s), s),
				 search_is_lost(s) ? near_in_modules(s, s->name, true) : NULL);
	}
	err = search_unknown_source(s, missing_module);
	if (err)
		return err;
	err = wc_error_new(WC_ENAME, "There is no %s '%s'%s%s%s in %s.", what, s->name,
			   joined ? ", nor '" : "", joined ? s->whole_name : "", joined ? "'," : "",
			   prefix ? prefix : "the loaded modules");
	return with_near(with_lack(err, s), near_names(s));
}

struct wc_error *search_ambiguous(struct search *s)
{
	const char *what = s->hit[0].is_function ? "functions" : "variables";
	scoped(freep) char *list = NULL;
	char **form = calloc(s->nhits, sizeof(*form));
	size_t len, n = 0;
	FILE *f = form ? open_memstream(&list, &len) : NULL;

	if (!f) {
		free(form);
		return &wc_enomem;
	}
	for (size_t i = 0; i < s->nhits; i++)
		if ((form[n] = form_of(s, i, false)))
			n++;
	qsort(form, n, sizeof(*form), text_cmp);
	for (size_t i = 0; i < n && i < CANDIDATES_MAX; i++)
		fprintf(f, "\n  %s", form[i]);
	if (n > CANDIDATES_MAX)
		fprintf(f, "\n  and %zu more", n - CANDIDATES_MAX);
	fclose(f);
	for (size_t i = 0; i < n; i++)
		free(form[i]);
	free(form);
	return wc_error_new(WC_ENAME, "'%s' is the name of %zu %s. Say which one:%s", s->name, s->nhits, what,
			    list);
}

struct wc_error *search_member_or_symbol(struct search *s, const char *symbol)
{
	scoped(freep) char *prefix = s->module ? locate_quote_prefix(s->module) : strdup("");
	const char *members = symbol + strlen(s->name) + 1, *colon = s->module ? ":" : "";

	if (!prefix)
		return &wc_enomem;
	return wc_error_new(WC_ENAME,
			    "'%s' is a member of the variable '%s', and the name of a symbol. Say which one:"
			    "\n  %s%s'%s'.%s\n  %s%s'%s'",
			    symbol, s->name, prefix, colon, s->name, members, prefix, colon, symbol);
}

struct wc_error *search_is_function(struct search *s, const char *expr)
{
	const struct hit *h = &s->hit[0];

	s->functions = false;
	return with_near(
		wc_error_new(
			WC_ENAME,
			"'%s' is a function, not a variable. Use -x to record each execution of it (-v '%s' -x); "
			"to watch bytes of its code, give their address (0x%" PRIx64 ":1).",
			h->name, expr, h->addr),
		near_in_modules(s, h->name, true));
}
