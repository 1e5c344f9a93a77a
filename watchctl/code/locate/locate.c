#include "watchctl/code/locate/locate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/locate/locate_object.h"
#include "watchctl/code/locate/locate_path.h"
#include "watchctl/code/locate/locate_walk.h"
#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/lookup/locate_parse.h"
#include "watchctl/code/lookup/locator.h"

/* The largest that one debug register covers. */
#define REGISTER_BYTES 8

void variable_deinit(struct variable *v)
{
	value_type_deinit(&v->type);
	free(v->name);
	free(v->module);
	free(v->decl_file);
	free(v->members);
	*v = (struct variable){ 0 };
}

static struct wc_error *set_module(const struct module_list *modules, uint64_t addr, struct variable *v)
{
	const struct module *m = module_find(modules, addr);

	v->module = m ? strdup(m->path) : NULL;
	return m && !v->module ? &wc_enomem : NULL;
}

static struct wc_error *locate_raw(const struct locate_expr *e, const struct module_list *modules,
				   struct variable *ret)
{
	struct variable v = { .addr = e->addr, .size = e->size };
	struct wc_error *err;

	if (asprintf(&v.name, "0x%lx", e->addr) < 0)
		return &wc_enomem;
	err = set_module(modules, e->addr, &v);
	if (err) {
		free(v.name);
		return err;
	}
	*ret = v;
	return NULL;
}

static struct wc_error *set_declaration(struct hit *h, struct variable *v)
{
	const char *file;
	Dwarf_Die unit;
	int line;

	v->module = strdup(h->module->path);
	if (!v->module)
		return &wc_enomem;
	if (!h->has_die)
		return NULL;
	file = dwarf_die_decl_file(&h->die, &unit);
	if (!file)
		return NULL;
	v->decl_file = strdup(dwarf_unit_short_path(&unit, file));
	if (!v->decl_file)
		return &wc_enomem;
	if (dwarf_decl_line(&h->die, &line) == 0 && line > 0)
		v->decl_line = (unsigned int)line;
	return NULL;
}

/* A range of elements that do not lie side by side: there is nothing to watch from its address on. */
static struct wc_error *check_contiguous(const struct path_place *p, const char *members)
{
	if (!members || p->size || dtype_size(&p->type))
		return NULL;
	return wc_error_new(WC_ENAME,
			    "The elements of '%s' are not contiguous in memory: name one of them (%s).",
			    p->text, members);
}

static struct wc_error *set_type(const struct path_place *p, struct variable *v)
{
	v->addr = p->is_tls ? 0 : p->addr;
	v->size = p->bit_size ? p->storage : path_size(p);
	if (!path_value_type(p, &v->type))
		return &wc_enomem;
	if (v->size <= REGISTER_BYTES) {
		free(v->members);
		v->members = NULL;
	} else if (p->slice) {
		if (asprintf(&v->members, "[0] .. [%" PRIu64 "]", p->slice - 1) < 0)
			v->members = NULL;
	} else if (!v->members) {
		v->members = dtype_member_list(&p->type);
	}
	return NULL;
}

static struct wc_error *set_name(const struct locate_expr *e, const char *path, struct variable *v)
{
	scoped(freep) char *one = e->nprefixes > 0 ? locate_quote_prefix(e->prefix[0]) : strdup(""),
			   *two = e->nprefixes > 1 ? locate_quote_prefix(e->prefix[1]) : strdup("");

	if (!one || !two ||
	    asprintf(&v->name, "%s%s%s%s%s", one, *one ? ":" : "", two, *two ? ":" : "", path) < 0) {
		v->name = NULL;
		return &wc_enomem;
	}
	return NULL;
}

static void set_pointers(const struct path_place *p, struct variable *v)
{
	memcpy(v->pointer, p->pointer, sizeof(v->pointer));
	v->npointers = p->npointers;
	v->bounds = p->bounds;
	v->null_pointer = p->null_pointer;
}

/* The variable of one thread is as far into the module's block as @p is. */
static struct wc_error *set_tls(struct search *s, const struct hit *h, const struct path_place *p,
				const struct memory_view *mem, struct variable *v)
{
	struct wc_error *err;

	if (!p->is_tls)
		return NULL;
	err = hit_tls_place(s, h, mem, &v->tls);
	if (err)
		return err;
	v->thread_local_storage = true;
	v->tls.offset = p->addr;
	return NULL;
}

static struct wc_error *make_variable(struct search *s, struct locate_expr *e, size_t used,
				      const struct memory_view *mem, struct variable *ret)
{
	scoped(variable_deinit) struct variable v = { 0 };
	struct hit *h = e->base ? &s->hit[0] : NULL;
	struct path_place p;
	struct wc_error *err = locate_walk(s, e, used, mem, &p);

	if (!err)
		err = path_check_place(&p);
	if (!err)
		err = path_settle(&p, mem, &v.members);
	if (!err)
		err = check_contiguous(&p, v.members);
	if (!err)
		err = set_name(e, p.text, &v);
	free(p.text);
	if (!err)
		err = h ? set_declaration(h, &v) : set_module(s->modules, p.addr, &v);
	if (!err)
		err = set_type(&p, &v);
	if (!err)
		err = set_tls(s, h, &p, mem, &v);
	set_pointers(&p, err && p.null_pointer ? ret : &v);
	if (err)
		return err;
	*ret = v;
	v = (struct variable){ 0 };
	return NULL;
}

static struct wc_error *find_variable(struct locator *l, const char *expr, const struct module_list *modules,
				      const struct memory_view *mem, struct variable *ret,
				      bool *missing_module)
{
	scoped(locate_expr_deinit) struct locate_expr e = { 0 };
	scoped(search_deinit) struct search s = { .locator = l, .modules = modules };
	struct wc_error *err;
	size_t used = 0;

	if (missing_module)
		*missing_module = false;
	err = locate_parse(expr, &e);
	if (err)
		return err;
	if (e.is_raw)
		return locate_raw(&e, modules, ret);
	err = e.base ? locate_find_one(&s, &e, mem, &used, missing_module) : NULL;
	if (s.nhits && s.hit[0].is_function) {
		wc_error_free(err);
		err = search_is_function(&s, expr);
	}
	return err ? err : make_variable(&s, &e, used, mem, ret);
}

struct wc_error *locate(struct locator *l, const char *expr, const struct module_list *modules,
			const struct memory_view *mem, struct variable *ret, bool *missing_module)
{
	struct locate_question q = { find_variable, l, expr, modules, mem, ret, missing_module, NULL };

	return locator_ask(&q);
}

void object_deinit(struct object *o)
{
	free(o->place.text);
	*o = (struct object){ 0 };
}

struct wc_error *locate_object(struct locator *l, const char *expr, const struct module_list *modules,
			       const struct memory_view *mem, bool tls, struct object *ret)
{
	scoped(locate_expr_deinit) struct locate_expr e = { 0 };
	scoped(search_deinit) struct search s = { .locator = l, .modules = modules };
	scoped(object_deinit) struct object o = { 0 };
	struct wc_error *err = locate_parse(expr, &e);
	bool missing;
	size_t used = 0;

	if (err)
		return err;
	if (e.is_raw) {
		*ret = (struct object){ .place = { .addr = e.addr, .size = e.size } };
		return NULL;
	}
	if (e.base)
		err = locate_find_one(&s, &e, mem, &used, &missing);
	if (!err)
		err = locate_walk(&s, &e, used, mem, &o.place);
	if (!err && tls && o.place.is_tls) {
		err = hit_tls_place(&s, &s.hit[0], mem, &o.tls);
		o.tls.offset = o.place.addr;
	}
	if (err)
		return err;
	o.is_function = e.base && s.hit[0].is_function && o.place.kind == PATH_OBJECT;
	*ret = o;
	o = (struct object){ 0 };
	return NULL;
}
