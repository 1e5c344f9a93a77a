/* locate_find - which variable of which module a name means; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_FIND_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_FIND_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/base/error.h"
#include "watchctl/code/lookup/locate_index.h"
#include "watchctl/code/lookup/locate_type.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/code/symbols/code_name_match.h"
#include "watchctl/code/tls/tls.h"

struct variable; /* locate.h */

/* A variable or function that fits. */
struct hit {
	const struct module *module; /* that it lies in */
	struct locate_index *index;
	uint64_t addr; /* of the process; of a thread-local variable the offset in its module's block */
	uint64_t size; /* of its symbol; 0: unknown */
	struct dtype type;
	bool has_die, is_function, is_tls;
	bool is_indirect; /* a function that returns the function to be used */
	enum hit_part part;
	Dwarf_Die die;
	uint32_t unit;
	enum name_fit fit;
	char *name; /* qualified, for people */
};

/* What is searched for, and what has been found so far. */
struct search {
	struct locator *locator;
	const struct module_list *modules;
	const char *name;
	const char *whole_name; /* with the members that follow it: what Go calls a variable; may be NULL */
	const char *module, *source; /* from the prefix; NULL: any */
	struct hit *hit;
	size_t nhits, hit_cap;
	/* The best reason why a variable of that name cannot be watched. */
	enum variable_place problem;
	enum name_fit problem_fit;
	char *problem_name, *problem_module;
	bool source_seen;      /* a unit of that source file exists */
	struct dtype declared; /* the type in a declaration of it, for a symbol without one */
	bool functions;	       /* that is what is searched for */
	unsigned int nclones;  /* of functions that were found, where there are whole ones */
	bool no_memory;
};

/* Whether they are one and the same variable. */
bool hit_is_same(const struct hit *a, const struct hit *b);

/* All that tls_address() needs to know about @h, which is thread-local. */
struct wc_error *hit_tls_place(struct search *s, const struct hit *h, const struct memory_view *mem,
			       struct tls_place *ret);

/* Moves a library's exported variable to the object in the executable that took its place, if one did. */
struct wc_error *hit_follow_copy(struct search *s, struct hit *h);

/* The name by which the linker knows @h: mangled, without a version; malloc'd. */
char *hit_linker_name(struct hit *h);

/*
 * Of hits in several libraries keeps those that are exported, if any is. While the program's libraries are
 * still to be loaded, what only the loader has for itself is dropped.
 */
void search_prefer_exports(struct search *s);

/*
 * Finds the debug information of @h, which was met as a symbol, by its address: for the symbol of a function's
 * static variable is not called as the variable is. *@h is left as it is where there is none.
 */
struct wc_error *hit_find_entry(struct hit *h);

/*
 * A symbol without a type: some module may describe the variable, as its definer (libc for a copy of
 * "environ" in the executable) or in a declaration.
 */
struct wc_error *hit_find_type(struct search *s, struct hit *h);

/* Whether @m is what the user calls @name. */
bool module_is_called(const struct module_list *l, const struct module *m, const char *name);

/* The same in libraries alone. */
struct wc_error *search_run_libraries(struct search *s);

/* There is, or was, such a variable, and it has no address that could be watched: s->problem. */
bool search_is_lost(const struct search *s);

/* Moves what is known of it from @from, which has met it, to @s. */
void search_take_problem(struct search *s, struct search *from);

/*
 * Finds the variable whose symbol is called @name as it is, in the modules that @s leaves: *@ret, with a name of
 * its own, or with none if there is no such symbol.
 */
struct wc_error *search_symbol(struct search *s, const char *name, struct hit *ret);

/* Makes @h, which it takes, the only hit. */
struct wc_error *search_take_hit(struct search *s, struct hit h);

/* Fills in the hits: none, one, or several to choose from. Name, module and source are set by the caller. */
struct wc_error *search_run(struct search *s);

typedef void search_stage(struct search *s, const struct module *m, struct locate_index *x);

/* Runs @stage on the program, or with @others on all else that the module's name leaves. */
struct wc_error *search_run_stage(struct search *s, search_stage *stage, bool others);

/*
 * Takes @h and its name. A better fit replaces the hits so far; one object counts once, with debug
 * information if any of its hits had some.
 */
void search_add_hit(struct search *s, struct hit h);

/* What @prefix, of @n parts, says of the module and the source file. */
void search_set_prefixes(struct search *s, char *const *prefix, size_t n);

/* Cuts what compilers append to local names: "calls.0", "flag.lto_priv.3". */
void search_strip_clone_suffix(char *name);

/* What of @query a mangled name contains as it is. */
const char *search_last_word(const char *query);

/*
 * The unit of the source file that @die, of unit @unit, was compiled from: what is optimised at link time has a
 * unit "<artificial>", and only an origin in the one of its file.
 */
Dwarf_Die locate_made_from(struct locate_index *x, Dwarf_Die *die, uint32_t unit);

/* Whether @die, of unit @unit, comes from the source file @source. */
bool locate_is_from(struct locate_index *x, Dwarf_Die *die, uint32_t unit, const char *source);

void search_deinit(struct search *s);

/* The sentence for zero hits; sets *@missing_module. */
struct wc_error *search_not_found(struct search *s, const char *prefix, bool *missing_module);

/* The sentence for a source file that no module knows, or NULL: it is known, or none was named. */
struct wc_error *search_unknown_source(struct search *s, bool *missing_module);

/* The sentence for a function, which is no variable. */
struct wc_error *search_is_function(struct search *s, const char *expr);

/* The sentence for several. */
struct wc_error *search_ambiguous(struct search *s);

/* The same for a member of the variable that @s has found, where there is a symbol of the whole name, too. */
struct wc_error *search_member_or_symbol(struct search *s, const char *symbol);

#endif
