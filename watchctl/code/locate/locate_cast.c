/*
 * What a cast needs to know: the type that its name means, and where the parts of a class are in it. The file
 * of the variable that is cast is asked first, then the program, then the libraries.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/locate_path_parts.h"
#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/lookup/locate_type_find.h"

#define BASES_DEPTH 16

/* More types of one name are counted, not listed. */
#define CANDIDATES_MAX 10

/* The module that is cast in would have it, or else the program. */
static struct wc_error *no_such_type(const struct path_place *p, const char *name)
{
	const struct module *m = p->is_tls ? NULL : module_find(p->modules, p->addr);
	struct wc_error *err = wc_error_new(
		WC_ENAME,
		"No module with debug information has a type '%s'. Give the address and the size instead: "
		"0xADDR with -s SIZE, or 0xADDR:SIZE.",
		name);

	return locate_with_lack(err, p->locator, m ? m : search_main_module(p->modules));
}

static int text_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct wc_error *several_types(const struct type_search *s)
{
	char *form[CANDIDATES_MAX] = { NULL };
	scoped(freep) char *list = NULL;
	size_t len, n = 0;
	FILE *f = open_memstream(&list, &len);

	if (!f)
		return &wc_enomem;
	for (size_t i = 0; i < s->nhits && n < CANDIDATES_MAX; i++)
		if ((form[n] = type_search_form(s, i)))
			n++;
	qsort(form, n, sizeof(*form), text_cmp);
	for (size_t i = 0; i < n; i++) {
		fprintf(f, "\n  %s", form[i]);
		free(form[i]);
	}
	if (n < s->nhits)
		fprintf(f, n ? "\n  and %zu more; for those give the address and the size: 0xADDR:SIZE" : "",
			s->nhits - n);
	fclose(f);
	return wc_error_new(
		WC_ENAME, "'%s' is the name of %zu types. %s%s", s->name, s->nhits,
		n ? "Write one of these in the cast:"
		  : "They cannot be told apart by name: give the address and the size, 0xADDR:SIZE.",
		list);
}

static struct wc_error *search_module(const struct path_place *p, const struct module *m,
				      struct type_search *s)
{
	struct locate_index *x = locator_index(p->locator, m);

	if (!x)
		return &wc_enomem;
	type_search_file(s, x, TYPES_OUTER);
	if (!s->rank)
		type_search_file(s, x, TYPES_LOCAL);
	return s->no_memory ? &wc_enomem : NULL;
}

static const struct module *module_of(const struct path_place *p, const struct locate_index *x)
{
	for (size_t i = 0; i < p->modules->n; i++)
		if (locator_index(p->locator, &p->modules->v[i]) == x)
			return &p->modules->v[i];
	return NULL;
}

struct wc_error *path_find_type(const struct path_place *p, const char *name, struct dtype *ret,
				uint64_t *bias)
{
	scoped(type_search_deinit) struct type_search s = { .name = name,
							    .near = p->type.known ? &p->type.die : NULL };
	const struct module *program = search_main_module(p->modules), *own;
	struct wc_error *err = NULL;

	own = p->type.known ? module_of(p, p->type.index) : NULL;
	if (own)
		err = search_module(p, own, &s);
	if (!err && !s.rank && program && program != own)
		err = search_module(p, program, &s);
	for (size_t i = 0; i < p->modules->n && !err && !s.rank; i++)
		if (&p->modules->v[i] != own && &p->modules->v[i] != program)
			err = search_module(p, &p->modules->v[i], &s);
	if (err)
		return err;
	if (!s.rank)
		return no_such_type(p, name);
	if (s.nhits > 1)
		return several_types(&s);
	*ret = s.hit[0].type;
	own = module_of(p, ret->index);
	*bias = own ? own->bias + locate_index_bias(ret->index) : 0;
	return NULL;
}

/* Classes: a part of type @wanted inside of the object of type @t at @addr. */

struct part_search {
	const struct dtype *wanted;
	const struct memory_view *mem;
	unsigned int depth, found;
	bool unplaced; /* there is one, and where is not known */
	uint64_t addr;
};

static void find_part(struct part_search *s, const struct dtype *t, uint64_t addr, bool placed);

struct part_visit {
	struct part_search *s;
	bool placed;
};

static bool visit_base(void *ctx, const struct dmember_reported *m)
{
	struct part_visit *v = ctx;
	struct dtype base;

	if (!m->is_base)
		return true;
	base = dtype_strip(&m->m.type);
	if (!dtype_is_same(&base, v->s->wanted)) {
		find_part(v->s, &base, m->m.addr, v->placed && m->is_placed);
		return true;
	}
	v->s->found += !v->s->found || v->s->addr != m->m.addr;
	v->s->addr = m->m.addr;
	v->s->unplaced |= !v->placed || !m->is_placed;
	return true;
}

static void find_part(struct part_search *s, const struct dtype *t, uint64_t addr, bool placed)
{
	struct part_visit v = { s, placed };

	if (s->depth == BASES_DEPTH)
		return;
	s->depth++;
	dtype_each_member(t, addr, s->mem, visit_base, &v);
	s->depth--;
}

static struct wc_error *check_part(const struct path_place *p, const struct part_search *s)
{
	if (s->unplaced)
		return wc_error_new(
			WC_ENAME,
			"'%s' cannot be cast: there is a virtual base class between the two types, and its location "
			"in the object is not known. Start from a pointer to the derived class, or give the address "
			"(0x...:SIZE).",
			p->text);
	if (s->found > 1)
		return wc_error_new(
			WC_ENAME,
			"'%s' cannot be cast: the derived class contains the base class more than once. Cast to the "
			"intermediate class first, or give the address (0x...:SIZE).",
			p->text);
	return NULL;
}

struct wc_error *path_convert_class(const struct path_place *p, const struct dtype *from,
				    const struct dtype *to, const struct memory_view *mem, uint64_t *addr)
{
	struct dtype own = dtype_strip(from), other = dtype_strip(to);
	struct part_search down = { .wanted = &own }, up = { .wanted = &other, .mem = mem };
	struct wc_error *err;

	if (!dtype_is_aggregate_tag(dtype_tag(&own)) || !dtype_is_aggregate_tag(dtype_tag(&other)) ||
	    dtype_is_same(&own, &other))
		return NULL;
	find_part(&down, &other, 0, true);
	err = check_part(p, &down);
	if (err || down.found) {
		*addr -= err ? 0 : down.addr;
		return err;
	}
	find_part(&up, &own, *addr, true);
	err = check_part(p, &up);
	if (!err && up.found)
		*addr = up.addr;
	return err;
}
