/* patch_sites_impl - the places where patterns occur, before tactics; private to patch_plan. */
#ifndef WATCHCTL_PATCH_PLAN_PATCH_SITES_IMPL_H
#define WATCHCTL_PATCH_PLAN_PATCH_SITES_IMPL_H

#include "watchctl/patch/plan/patch_plan.h"

struct found_site {
	uint64_t addr;
	uint32_t pattern; /* index in the query */
	bool disputed;
};

struct found_sites {
	struct found_site *v; /* by address, one at each */
	size_t n, cap;
	bool failed; /* memory ran out */
};

/* In @m, to which @binding, one for each pattern, is bound. */
void patch_sites_find(const struct patch_query *q, const struct pattern_binding *binding,
		      const struct patch_module *m, struct found_sites *ret);
void found_sites_deinit(struct found_sites *s);

/* Binds the names of @q to what they stand for in @m, in place of another module's. False: no memory. */
bool patch_names_bind(const struct patch_query *q, const struct patch_module *m,
		      struct pattern_binding *binding);

/* Finds the lines of the source that @q names. WC_ENAME: one of them, or a name, is in none of @modules. */
struct wc_error *patch_names_check(const struct patch_query *q, const struct patch_modules *modules,
				   struct pattern_binding *binding);

/* Finds the lines alone, those that are there. */
struct wc_error *patch_names_find_lines(const struct patch_query *q, const struct patch_modules *modules,
					struct pattern_binding *binding);

/* Whether @f is one of those that the query wants. */
bool patch_names_wants(const struct patch_query *q, const struct map_function *f);

#endif
