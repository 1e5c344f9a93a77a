#include "watchctl/patch/patch_plan.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/symbols/code_image.h"
#include "watchctl/patch/patch_sites_impl.h"

void patch_modules_deinit(struct patch_modules *m)
{
	for (size_t i = 0; i < m->n; i++)
		patch_module_deinit(&m->v[i]);
	free(m->v);
	*m = (struct patch_modules){ 0 };
}

void patch_query_deinit(struct patch_query *q)
{
	for (size_t i = 0; i < q->npatterns; i++)
		pattern_deinit(&q->pattern[i]);
	free(q->pattern);
	*q = (struct patch_query){ 0 };
}

struct planning {
	struct patch_module *m;
	const struct patch_query *q;
	struct patch_totals *totals;
	patch_site_sink *each;
	void *ctx;
};

/* What no part of the module may be patched for. */
static bool is_refused(const struct patch_module *m, enum tactic_why *why)
{
	bool vdso = !strcmp(m->module.path, "[vdso]");

	*why = vdso ? WHY_VDSO : WHY_LOADER;
	return vdso || code_image_is_loader(m->image);
}

static void choose(struct planning *p, const struct found_site *f, const struct tactic_sites *all,
		   const struct tactic_choice *last, struct tactic_choice *ret)
{
	enum tactic_why why = WHY_LENGTHS;

	if (is_refused(p->m, &why) || f->disputed)
		*ret = (struct tactic_choice){ .tactic = TACTIC_REFUSED,
					       .why = f->disputed ? WHY_LENGTHS : why };
	else
		tactic_choose(&p->m->map, f->addr, all, last, ret);
}

static void report(struct planning *p, const struct found_site *f, const struct tactic_choice *c)
{
	struct patch_site site = { p->m, &p->q->pattern[f->pattern], f->addr,
				   code_map_function(&p->m->map, f->addr), *c };

	p->totals->sites++;
	p->totals->tactic[c->tactic]++;
	p->totals->why[c->tactic][c->why]++;
	p->each(p->ctx, &site);
}

/* False: no memory. */
static bool plan_sites(struct planning *p, const struct found_sites *found)
{
	scoped(freep) uint64_t *addr = calloc(found->n + 1, sizeof(*addr));
	const struct tactic_sites all = { addr, found->n };
	struct tactic_choice last = { 0 }, now;

	if (!addr)
		return false;
	for (size_t i = 0; i < found->n; i++)
		addr[i] = found->v[i].addr;
	for (size_t i = 0; i < found->n; i++) {
		choose(p, &found->v[i], &all, &last, &now);
		report(p, &found->v[i], &now);
		if (now.tactic != TACTIC_REFUSED)
			last = now;
	}
	return true;
}

static void add_module(struct patch_totals *t, const struct patch_module *m)
{
	t->modules++;
	t->functions += m->map.nfunctions;
	t->instructions += m->map.ninstructions;
	t->tables += m->map.ntables;
	t->unresolved += m->map.nunresolved;
	t->sweep_ns += m->sweep_ns;
}

static struct wc_error *plan_module(struct planning *p, struct patch_query *q)
{
	scoped(found_sites_deinit) struct found_sites found = { 0 };
	struct wc_error *err = patch_module_map(p->m);

	if (err)
		return err;
	if (!patch_names_bind(q, p->m))
		return &wc_enomem;
	add_module(p->totals, p->m);
	patch_sites_find(q, p->m, &found);
	return found.failed || !plan_sites(p, &found) ? &wc_enomem : NULL;
}

struct wc_error *patch_plan(struct patch_query *q, struct patch_modules *modules, patch_site_sink *each,
			    void *ctx, struct patch_totals *totals)
{
	struct planning p = { NULL, q, totals, each, ctx };
	struct wc_error *err = q->may_be_nowhere ? NULL : patch_names_check(q, modules);

	for (size_t i = 0; i < modules->n && !err; i++) {
		p.m = &modules->v[i];
		err = plan_module(&p, q);
		/* The map is as large as the code; who asks for a site's has been told all of it. */
		code_map_deinit(&p.m->map);
	}
	return err;
}
