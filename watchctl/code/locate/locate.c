#include "watchctl/code/locate/locate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/fault_guard.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/locate/code_name_find.h"
#include "watchctl/code/locate/code_name_indirect.h"
#include "watchctl/code/locate/locate_object.h"
#include "watchctl/code/locate/locate_path.h"
#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/lookup/locate_parse.h"

/* The largest that one debug register covers. */
#define REGISTER_BYTES 8

struct locator {
	struct locate_index **v;
	size_t n, cap;
};

struct locator *locator_new(void)
{
	return calloc(1, sizeof(struct locator));
}

void locator_free(struct locator *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		locate_index_free(l->v[i]);
	free(l->v);
	free(l);
}

struct wc_error *locator_guarded(struct locator *l, void (*run)(void *ctx), void *ctx)
{
	if (fault_guarded(run, ctx))
		return NULL;
	*l = (struct locator){ 0 };
	return wc_error_new(WC_ENAME,
			    "the debug information of the program, or of a library, is damaged or was "
			    "changed while it was read: names cannot be found in it; a raw address "
			    "(0x...:SIZE) can be given instead");
}

static void run_question(void *ctx)
{
	struct locate_question *q = ctx;

	q->err = q->find(q->l, q->expr, q->modules, q->mem, q->ret, q->missing_module);
}

struct wc_error *locator_ask(struct locate_question *q)
{
	struct wc_error *err = locator_guarded(q->l, run_question, q);

	return err ? err : q->err;
}

struct locate_index *locator_index(struct locator *l, const struct module *m)
{
	struct locate_index *x;

	for (size_t i = 0; i < l->n; i++)
		if (elffile_is_for(locate_index_file(l->v[i]), m))
			return l->v[i];
	x = locate_index_new(m);
	if (!x || !vec_push(l->v, l->n, l->cap, x)) {
		locate_index_free(x);
		return NULL;
	}
	return x;
}

void variable_deinit(struct variable *v)
{
	value_type_deinit(&v->type);
	free(v->name);
	free(v->module);
	free(v->decl_file);
	free(v->members);
	*v = (struct variable){ 0 };
}

static struct wc_error *locate_raw(const struct locate_expr *e, const struct module_list *modules,
				   struct variable *ret)
{
	const struct module *m = module_find(modules, e->addr);
	struct variable v = { .addr = e->addr, .size = e->size };

	if (asprintf(&v.name, "0x%lx", e->addr) < 0)
		return &wc_enomem;
	v.module = m ? strdup(m->path) : NULL;
	if (m && !v.module) {
		free(v.name);
		return &wc_enomem;
	}
	*ret = v;
	return NULL;
}

/* "base.member.member": the first @n steps joined to the base, as Go writes "package.Variable". */
static char *join_members(const struct locate_expr *e, size_t n)
{
	char *name = strdup(e->base), *longer;

	for (size_t i = 0; name && i < n; i++) {
		if (asprintf(&longer, "%s.%s", name, e->step[i].name) < 0)
			longer = NULL;
		free(name);
		name = longer;
	}
	return name;
}

static size_t leading_members(const struct locate_expr *e)
{
	size_t n = 0;

	while (n < e->nsteps && e->step[n].op == LOCATE_MEMBER)
		n++;
	return n;
}

static struct wc_error *search_again(struct search *s, const char *module, const char *source)
{
	struct search next = { .locator = s->locator,
			       .modules = s->modules,
			       .name = s->name,
			       .module = module,
			       .source = source };
	struct wc_error *err = search_run(&next);

	if (err || !next.nhits) {
		search_deinit(&next);
		return err;
	}
	search_deinit(s);
	*s = next;
	return NULL;
}

/*
 * Searches for @name. A prefix may be the name of a module and of a source file: it is tried as both. A
 * source file that only declares the variable means the one that another file defines.
 */
static struct wc_error *search_name(struct search *s, const char *name)
{
	struct wc_error *err;

	s->name = name;
	err = search_run(s);
	if (err || s->nhits)
		return err;
	if (s->module && !s->source)
		return search_again(s, NULL, s->module);
	if (s->source && s->problem_fit && s->problem == PLACE_DECLARATION)
		return search_again(s, s->module, NULL);
	return NULL;
}

/* Searches for the base and the first @n members, read as one name, and keeps what is found in @s. */
static struct wc_error *search_joined(struct search *s, const struct locate_expr *e, size_t n, bool functions)
{
	scoped(freep) char *name = join_members(e, n);
	scoped(search_deinit) struct search joined = { .locator = s->locator, .modules = s->modules };
	struct wc_error *err;

	if (!name)
		return &wc_enomem;
	search_set_prefixes(&joined, e->prefix, e->nprefixes);
	joined.name = name;
	err = functions ? code_name_find(&joined) : search_name(&joined, name);
	if (!err && !joined.nhits && search_is_lost(&joined) && !s->problem_fit)
		search_take_problem(s, &joined);
	if (err || !joined.nhits)
		return err;
	search_deinit(s);
	*s = joined;
	s->name = e->base;
	joined = (struct search){ 0 };
	return NULL;
}

/*
 * Finds the variable: the base, or the base with one or more of the members that follow; else a function of
 * the whole name. *@used says how many members that took. Where nothing is found, @s shows what the plain
 * base met.
 */
static struct wc_error *find_base(struct search *s, const struct locate_expr *e, size_t *used)
{
	size_t members = leading_members(e);
	struct wc_error *err = search_name(s, e->base);

	for (size_t n = 1; n <= members && !err && !s->nhits; n++) {
		err = search_joined(s, e, n, false);
		*used = n;
	}
	if (!err && !s->nhits && members == e->nsteps && !search_is_lost(s))
		err = search_joined(s, e, members, true);
	return err;
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
			    "The elements of '%s' do not lie side by side in memory: name one of them (%s).",
			    p->text, members);
}

static struct wc_error *set_type(const struct path_place *p, struct variable *v)
{
	uint64_t size = p->type.known ? dtype_size(&p->type) : 0;

	v->addr = p->is_tls ? 0 : p->addr;
	v->size = p->bit_size ? p->storage : size ? size : p->size;
	if (!dtype_value_type(&p->type, &v->type))
		return &wc_enomem;
	v->type.bit_offset = (uint8_t)p->bit_offset;
	v->type.bit_size = (uint8_t)p->bit_size;
	if (v->size <= REGISTER_BYTES) {
		free(v->members);
		v->members = NULL;
	} else if (!v->members) {
		v->members = dtype_member_list(&p->type);
	}
	return NULL;
}

static struct wc_error *walk_path(struct hit *h, const struct locate_expr *e, size_t from,
				  const struct memory_view *mem, struct path_place *p)
{
	struct wc_error *err = NULL;

	*p = (struct path_place){ .addr = h->addr,
				  .is_tls = h->is_tls,
				  .size = h->size,
				  .type = h->type,
				  .bias = h->type.known ? h->module->bias + locate_index_bias(h->index) : 0,
				  .text = strdup(h->name) };
	if (!p->text)
		return &wc_enomem;
	for (size_t i = from; i < e->nsteps && !err; i++)
		err = path_step(p, &e->step[i], mem);
	return err ? err : path_open(p, mem);
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

static struct wc_error *make_variable(struct search *s, const struct locate_expr *e, size_t used,
				      const struct memory_view *mem, struct variable *ret)
{
	scoped(variable_deinit) struct variable v = { 0 };
	struct hit *h = &s->hit[0];
	struct path_place p;
	struct wc_error *err = walk_path(h, e, used, mem, &p);

	if (!err)
		err = path_settle(&p, mem, &v.members);
	if (!err)
		err = check_contiguous(&p, v.members);
	if (!err)
		err = set_name(e, p.text, &v);
	free(p.text);
	if (!err)
		err = set_declaration(h, &v);
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

/* One variable or function in @s, of which the first *@used steps are a part. */
static struct wc_error *find_one(struct search *s, const struct locate_expr *e, const struct memory_view *mem,
				 size_t *used, bool *missing_module)
{
	struct wc_error *err;

	*used = 0;
	search_set_prefixes(s, e->prefix, e->nprefixes);
	err = find_base(s, e, used);
	if (err)
		return err;
	if (!s->nhits) {
		scoped(freep) char *whole = join_members(e, leading_members(e));

		s->whole_name = whole;
		err = search_not_found(s, e->nprefixes ? e->prefix[e->nprefixes - 1] : NULL, missing_module);
		s->whole_name = NULL;
		return err;
	}
	if (s->hit[0].is_indirect)
		return code_indirect_error(s, &s->hit[0], mem);
	return s->nhits > 1 ? search_ambiguous(s) : NULL;
}

static struct wc_error *find_variable(struct locator *l, const char *expr, const struct module_list *modules,
				      const struct memory_view *mem, struct variable *ret,
				      bool *missing_module)
{
	scoped(locate_expr_deinit) struct locate_expr e = { 0 };
	scoped(search_deinit) struct search s = { .locator = l, .modules = modules };
	struct wc_error *err;
	size_t used;

	if (missing_module)
		*missing_module = false;
	err = locate_parse(expr, &e);
	if (err)
		return err;
	if (e.is_raw)
		return locate_raw(&e, modules, ret);
	err = find_one(&s, &e, mem, &used, missing_module);
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
	size_t used;

	if (err)
		return err;
	if (e.is_raw) {
		*ret = (struct object){ .place = { .addr = e.addr, .size = e.size } };
		return NULL;
	}
	err = find_one(&s, &e, mem, &used, &missing);
	if (!err)
		err = walk_path(&s.hit[0], &e, used, mem, &o.place);
	if (!err && tls && o.place.is_tls) {
		err = hit_tls_place(&s, &s.hit[0], mem, &o.tls);
		o.tls.offset = o.place.addr;
	}
	if (err)
		return err;
	o.is_function = s.hit[0].is_function;
	*ret = o;
	o = (struct object){ 0 };
	return NULL;
}
