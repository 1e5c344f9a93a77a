/*
 * Operands are expressions of their own, whose values are whole numbers: they are read once, before the path
 * that they belong to is followed, and are constants from then on. A variable in one is looked for where that
 * of the whole expression was said to be, and else everywhere.
 */
#include "watchctl/code/locate/locate_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate_path_parts.h"

struct walk {
	struct locator *locator;
	const struct module_list *modules;
	const struct memory_view *mem;
	const struct locate_expr *outer; /* whose prefixes are tried first */
};

static struct wc_error *locate_walk_begin(struct search *s, const struct hit *h, const struct locate_expr *e,
					  struct path_place *p)
{
	*p = (struct path_place){ .locator = s->locator, .modules = s->modules };
	if (h && e->base) {
		p->addr = h->addr;
		p->is_tls = h->is_tls;
		p->size = h->size;
		p->type = h->type;
		p->bias = h->type.known ? h->module->bias + locate_index_bias(h->index) : 0;
		p->text = strdup(h->name);
		return p->text ? NULL : &wc_enomem;
	}
	p->kind = PATH_NUMBER;
	p->number = e->number;
	if (asprintf(&p->text, e->number < 0 || e->number > 4095 ? "0x%" PRIx64 : "%" PRId64, e->number) < 0)
		p->text = NULL;
	return p->text ? NULL : &wc_enomem;
}

static struct wc_error *locate_walk_follow(const struct walk *w, struct search *s, struct locate_expr *e,
					   size_t from, struct path_place *p);

/* A function is no number, and neither is what it has inside. */
static struct wc_error *place_of(const struct walk *w, struct search *s, struct locate_expr *e,
				 struct path_place *p)
{
	struct wc_error *err = NULL;
	bool missing;
	size_t used = 0;

	if (e->base)
		err = locate_find_one(s, e, w->mem, &used, &missing);
	if (!err && e->base && s->hit[0].is_function)
		err = search_is_function(s, e->base);
	return err ? err : locate_walk_follow(w, s, e, used, p);
}

static struct wc_error *size_of_type(const struct walk *w, const struct locate_expr *e,
				     const struct dtype *near, int64_t *ret)
{
	struct path_place p = { .locator = w->locator, .modules = w->modules, .type = *near };
	struct dtype type = { 0 };
	struct wc_error *err = e->stars ? NULL : path_find_type(&p, e->base, &type, &p.bias);

	*ret = err ? 0 : e->stars ? 8 : (int64_t)dtype_size(&type);
	if (!err && !*ret)
		err = wc_error_new(WC_ENAME, "The size of '%s' is not known: write it as a number.", e->base);
	return err;
}

/* A name may be a variable's, and else a type's. */
static struct wc_error *size_of(const struct walk *w, struct locate_expr *e, int64_t *ret)
{
	scoped(search_deinit) struct search s = { .locator = w->locator, .modules = w->modules };
	const struct dtype none = { 0 };
	struct path_place p = { 0 };
	struct wc_error *err, *other;

	if (e->is_type)
		return size_of_type(w, e, &none, ret);
	err = place_of(w, &s, e, &p);
	if (!err)
		err = path_settle(&p, w->mem, NULL);
	free(p.text);
	if (!err) {
		*ret = (int64_t)path_size(&p);
		return *ret ? NULL
			    : wc_error_new(WC_ENAME,
					   "The size of the operand of sizeof is not known: write it as a "
					   "number.");
	}
	if (!e->base || e->nsteps || s.nhits)
		return err;
	other = size_of_type(w, e, &none, ret);
	if (other) {
		wc_error_free(other);
		return err;
	}
	wc_error_free(err);
	return NULL;
}

static struct wc_error *value_of(const struct walk *w, struct locate_expr *e, bool inherit, int64_t *ret)
{
	scoped(search_deinit) struct search s = { .locator = w->locator, .modules = w->modules };
	struct locate_expr with = *e;
	struct path_place p = { 0 };
	struct wc_error *err;

	if (inherit) {
		memcpy(with.prefix, w->outer->prefix, sizeof(with.prefix));
		with.nprefixes = w->outer->nprefixes;
	}
	err = place_of(w, &s, &with, &p);
	if (!err)
		err = path_number(&p, w->mem, ret);
	free(p.text);
	e->number = with.number;
	e->is_number = with.is_number;
	e->sized = with.sized;
	return err;
}

static struct wc_error *evaluate(const struct walk *w, struct locate_expr *e, int64_t *ret)
{
	bool inherit = w->outer->nprefixes && !e->nprefixes && e->base;
	struct wc_error *err = value_of(w, e, inherit, ret);

	if (!err || !inherit)
		return err;
	wc_error_free(err);
	return value_of(w, e, false, ret);
}

static struct wc_error *resolve_step(const struct walk *w, struct locate_step *step)
{
	struct wc_error *err = NULL;

	for (unsigned int i = 0; step->operand && i < step->nindices && !err; i++)
		if (step->operand[i])
			err = evaluate(w, step->operand[i], &step->index[i]);
	return err;
}

static struct wc_error *locate_walk_follow(const struct walk *w, struct search *s, struct locate_expr *e,
					   size_t from, struct path_place *p)
{
	const struct walk inner = { w->locator, w->modules, w->mem, e };
	struct wc_error *err = NULL;

	if (e->sized) {
		err = size_of(&inner, e->sized, &e->number);
		if (err)
			return err;
	}
	err = locate_walk_begin(s, s->hit, e, p);
	for (size_t i = from; i < e->nsteps && !err; i++) {
		err = resolve_step(&inner, &e->step[i]);
		if (!err)
			err = path_step(p, &e->step[i], w->mem);
	}
	if (err || p->kind != PATH_OBJECT || p->stars || p->slice)
		return err;
	return path_open(p, w->mem);
}

struct wc_error *locate_walk(struct search *s, struct locate_expr *e, size_t from,
			     const struct memory_view *mem, struct path_place *p)
{
	const struct walk w = { s->locator, s->modules, mem, e };

	*p = (struct path_place){ 0 };
	return locate_walk_follow(&w, s, e, from, p);
}
