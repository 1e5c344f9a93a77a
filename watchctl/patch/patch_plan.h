/*
 * patch_plan - where patterns occur in modules, and by which tactic a probe would get there. Reads code, changes none.
 */
#ifndef WATCHCTL_PATCH_PATCH_PLAN_H
#define WATCHCTL_PATCH_PATCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/patch/patch_module.h"
#include "watchctl/patch/patch_tactic.h"
#include "watchctl/patch/pattern.h"

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
	bool may_be_nowhere; /* names, so far: they may come with a library */
};

void patch_query_deinit(struct patch_query *q);

struct patch_site {
	const struct patch_module *module;
	const struct pattern *pattern;	     /* the first that fits */
	uint64_t addr;			     /* of the file */
	const struct map_function *function; /* NULL: in none */
	struct tactic_choice choice;
};

struct patch_totals {
	size_t sites, tactic[TACTICS];
	size_t why[TACTICS][WHY_KINDS];
	size_t modules, functions, instructions, tables, unresolved;
	uint64_t sweep_ns;
};

typedef void patch_site_sink(void *ctx, const struct patch_site *site);

/*
 * Calls @each for every site, in each module by address. WC_ENAME: a name in a pattern, or the glob of functions, is
 * nowhere, with near ones; then nothing has been reported. *@totals is added to.
 */
struct wc_error *patch_plan(struct patch_query *q, struct patch_modules *modules, patch_site_sink *each,
			    void *ctx, struct patch_totals *totals);

#endif
