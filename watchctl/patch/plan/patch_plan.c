#include "watchctl/patch/plan/patch_plan.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/symbols/code_image.h"
#include "watchctl/patch/plan/patch_sites_impl.h"

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

struct patch_plan {
	const struct patch_query *query;
	struct pattern_binding *binding; /* of each pattern */
	struct patch_modules *modules;
	size_t next;		     /* module */
	struct patch_module *module; /* whose sites are given; its map is made; NULL: none */
	struct found_sites found;    /* in there */
	uint64_t *addr;		     /* of each of them */
	size_t given;		     /* of them */
	struct tactic_choice last;   /* of the last of them that is not refused */
	struct patch_site site;
	struct patch_totals totals;
};

/* The map is as large as the code. */
static void leave_module(struct patch_plan *p)
{
	if (p->module)
		code_map_deinit(&p->module->map);
	p->module = NULL;
	found_sites_deinit(&p->found);
	free(p->addr);
	p->addr = NULL;
	p->given = 0;
	p->last = (struct tactic_choice){ 0 };
}

void patch_plan_free(struct patch_plan *p)
{
	if (!p)
		return;
	leave_module(p);
	for (size_t i = 0; p->binding && i < p->query->npatterns; i++)
		pattern_binding_deinit(&p->binding[i]);
	free(p->binding);
	free(p);
}

void patch_plan_freep(struct patch_plan **p)
{
	patch_plan_free(*p);
}

struct wc_error *patch_plan_make(const struct patch_query *q, struct patch_modules *modules,
				 bool may_be_nowhere, struct patch_plan **ret)
{
	scoped(patch_plan_freep) struct patch_plan *p = calloc(1, sizeof(*p));
	struct wc_error *err;

	if (!p)
		return &wc_enomem;
	p->query = q;
	p->modules = modules;
	p->binding = calloc(q->npatterns + 1, sizeof(*p->binding));
	if (!p->binding)
		return &wc_enomem;
	err = may_be_nowhere ? patch_names_find_lines(q, modules, p->binding)
			     : patch_names_check(q, modules, p->binding);
	if (err)
		return err;
	*ret = take_ptr(p);
	return NULL;
}

const struct patch_totals *patch_plan_totals(const struct patch_plan *p)
{
	return &p->totals;
}

/* Modules */

static void add_module(struct patch_totals *t, const struct patch_module *m)
{
	t->modules++;
	t->functions += m->map.nfunctions;
	t->instructions += m->map.ninstructions;
	t->tables += m->map.ntables;
	t->unresolved += m->map.nunresolved;
	t->sweep_ns += m->sweep_ns;
}

/* False: no memory. */
static bool find_sites(struct patch_plan *p)
{
	patch_sites_find(p->query, p->binding, p->module, &p->found);
	if (p->found.failed)
		return false;
	p->addr = calloc(p->found.n + 1, sizeof(*p->addr));
	if (!p->addr)
		return false;
	for (size_t i = 0; i < p->found.n; i++)
		p->addr[i] = p->found.v[i].addr;
	return true;
}

static struct wc_error *enter_module(struct patch_plan *p, struct patch_module *m)
{
	struct wc_error *err;

	leave_module(p);
	p->module = m;
	err = patch_module_map(m);
	if (err)
		return err;
	if (!patch_names_bind(p->query, m, p->binding))
		return &wc_enomem;
	add_module(&p->totals, m);
	return find_sites(p) ? NULL : &wc_enomem;
}

/* Sites */

/* A reason for which no part of the module may be patched. */
static bool is_refused(const struct patch_module *m, enum tactic_why *why)
{
	bool vdso = !strcmp(m->module.path, "[vdso]");

	*why = vdso ? WHY_VDSO : WHY_LOADER;
	return vdso || code_image_is_loader(m->image);
}

static void choose(struct patch_plan *p, const struct found_site *f, struct tactic_choice *ret)
{
	const struct tactic_sites all = { p->addr, p->found.n };
	enum tactic_why why = WHY_LENGTHS;

	if (is_refused(p->module, &why) || f->disputed)
		*ret = (struct tactic_choice){ .tactic = TACTIC_REFUSED,
					       .why = f->disputed ? WHY_LENGTHS : why };
	else
		tactic_choose(&p->module->map, f->addr, &all, &p->last, ret);
	if (ret->tactic != TACTIC_REFUSED)
		p->last = *ret;
}

static void copy_bytes(struct patch_site *site)
{
	const uint64_t at = site->choice.len ? site->choice.start : site->addr;
	const struct code_part *p = code_map_part(&site->module->map, at);
	const size_t left = p ? p->len - (at - p->start) : 0;

	if (p)
		memcpy(site->bytes, p->bytes + (at - p->start),
		       left < PATCH_SITE_BYTES ? left : PATCH_SITE_BYTES);
}

static void plan_site(struct patch_plan *p, const struct found_site *f)
{
	struct patch_site *site = &p->site;

	*site = (struct patch_site){ .module = p->module,
				     .pattern = &p->query->pattern[f->pattern],
				     .addr = f->addr,
				     .function = code_map_function(&p->module->map, f->addr) };
	choose(p, f, &site->choice);
	copy_bytes(site);
	p->totals.sites++;
	p->totals.tactic[site->choice.tactic]++;
	p->totals.why[site->choice.tactic][site->choice.why]++;
}

struct wc_error *patch_plan_next(struct patch_plan *p, const struct patch_site **ret)
{
	while (p->given == p->found.n) {
		struct wc_error *err;

		if (p->next == p->modules->n) {
			leave_module(p);
			*ret = NULL;
			return NULL;
		}
		err = enter_module(p, &p->modules->v[p->next++]);
		if (err)
			return err;
	}
	plan_site(p, &p->found.v[p->given++]);
	*ret = &p->site;
	return NULL;
}

bool module_plan_keep(struct module_plan *p, const struct patch_site *site)
{
	if (!vec_push(p->site, p->n, p->cap, *site))
		return false;
	p->site[p->n - 1].function = NULL;
	p->module = site->module;
	return true;
}

void module_plan_deinit(struct module_plan *p)
{
	free(p->site);
	*p = (struct module_plan){ 0 };
}
