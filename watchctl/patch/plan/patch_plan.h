/*
 * patch_plan - where patterns occur in modules, and by which tactic a probe would get there. Reads code, changes none.
 *
 * A plan is walked: patch_plan_next() plans one site and gives it. So a plan of all instructions of a program, millions of sites,
 * needs memory for the map and the addresses of one module at a time. A site has what is needed to apply it; those that are to be
 * applied are kept in a struct module_plan.
 */
#ifndef WATCHCTL_PATCH_PLAN_PATCH_PLAN_H
#define WATCHCTL_PATCH_PLAN_PATCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/patch/plan/patch_module.h"
#include "watchctl/patch/plan/patch_tactic.h"
#include "watchctl/patch/plan/pattern.h"

struct patch_modules {
	struct patch_module *v;
	size_t n, cap;
};

void patch_modules_deinit(struct patch_modules *m);

struct patch_query {
	struct pattern *pattern;
	size_t npatterns, pattern_cap;
	const char *function; /* a glob; NULL: in any */
	const char *const
		*named; /* globs that some function must be called by; nothing else follows from them */
	size_t nnamed;
};

void patch_query_deinit(struct patch_query *q);

#define PATCH_SITE_BYTES 32

struct patch_site {
	const struct patch_module *module;
	const struct pattern *pattern;	     /* the query's, the first that fits */
	uint64_t addr;			     /* of the file */
	const struct map_function *function; /* of the module's map; NULL: in none */
	struct tactic_choice choice;
	/* As the file has them, from choice.start on, from @addr on where nothing is overwritten; zeros behind the end of the code. */
	uint8_t bytes[PATCH_SITE_BYTES];
};

struct patch_totals {
	size_t sites, tactic[TACTICS];
	size_t why[TACTICS][WHY_KINDS];
	size_t modules, functions, instructions, tables, unresolved;
	uint64_t sweep_ns;
};

struct patch_plan;

/*
 * Of all @modules; they and @q must outlive it, and the plan makes the modules' maps. *@ret: patch_plan_free(). WC_ENAME: a name in a
 * pattern, or the glob of functions, is nowhere, with near ones; but not if it @may_be_nowhere: it may come with a library.
 */
struct wc_error *patch_plan_make(const struct patch_query *q, struct patch_modules *modules,
				 bool may_be_nowhere, struct patch_plan **ret);
void patch_plan_free(struct patch_plan *p); /* accepts NULL */
void patch_plan_freep(struct patch_plan **p);

/*
 * The next site, module by module, in each by address; *@ret is NULL behind the last one, and else the plan's until the next call. The
 * map of its module is there until the call that gives a site of another module.
 */
struct wc_error *patch_plan_next(struct patch_plan *p, const struct patch_site **ret);

/* Of the sites that were given, and the modules that were looked at, so far. */
const struct patch_totals *patch_plan_totals(const struct patch_plan *p);

/* Sites of one module that are kept. The map is gone by the time they are used, and site[].function with it: NULL. */
struct module_plan {
	const struct patch_module *module; /* NULL: there are none */
	struct patch_site *site;	   /* by address */
	size_t n, cap;
};

/* @site: as patch_plan_next() gives it, of the module of those before. False: no memory. */
bool module_plan_keep(struct module_plan *p, const struct patch_site *site);
void module_plan_deinit(struct module_plan *p); /* accepts zeros */

#endif
