/* The names in patterns: what they stand for in a module, and what to say when they stand for nothing. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/locate/code_name.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/code/symbols/code_image.h"
#include "watchctl/patch/plan/near_name.h"
#include "watchctl/patch/plan/patch_sites_impl.h"

static void locator_freep(struct locator **l)
{
	locator_free(*l);
}

bool patch_names_wants(const struct patch_query *q, const struct map_function *f)
{
	return !q->function || (f && f->name && code_image_name_fits(f->name, q->function));
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static bool add_address(struct bound_name *b, uint64_t addr)
{
	return !addr || vec_push(b->addr, b->n, b->cap, addr);
}

/* Functions of that name, stubs that lead to one elsewhere, and the pointers that those go through. */
static bool find_addresses(struct bound_name *b, const struct patch_module *m)
{
	const char *name = b->operand->name;
	size_t n;
	const struct code_function *f = code_image_functions(m->image, &n);
	const struct code_stub *s;

	for (size_t i = 0; i < n; i++)
		if (f[i].name && code_image_name_fits(f[i].name, name) && !add_address(b, f[i].start))
			return false;
	s = code_image_stubs(m->image, &n);
	for (size_t i = 0; i < n; i++)
		if (s[i].name && code_image_name_fits(s[i].name, name) &&
		    (!add_address(b, s[i].address) || !add_address(b, s[i].slot)))
			return false;
	if (b->n)
		qsort(b->addr, b->n, sizeof(*b->addr), compare_addresses);
	return true;
}

static bool bind_pattern(const struct pattern *p, const struct patch_module *m, struct pattern_binding *b)
{
	for (size_t i = 0; i < b->nnames; i++)
		free(b->name[i].addr);
	b->nnames = 0;
	for (size_t i = 0; i < p->nelements; i++)
		for (size_t k = 0; k < p->element[i].noperands; k++) {
			struct bound_name now = { .operand = &p->element[i].operand[k] };

			if (now.operand->kind == OPERAND_NAME &&
			    (!vec_push(b->name, b->nnames, b->name_cap, now) ||
			     !find_addresses(&b->name[b->nnames - 1], m)))
				return false;
		}
	return true;
}

bool patch_names_bind(const struct patch_query *q, const struct patch_module *m,
		      struct pattern_binding *binding)
{
	for (size_t i = 0; i < q->npatterns; i++)
		if (!bind_pattern(&q->pattern[i], m, &binding[i]))
			return false;
	return true;
}

/* Whether a function is called so; all names are offered to @near. */
static bool is_called(const char *name, const struct patch_modules *modules, bool with_stubs,
		      struct near_names *near)
{
	for (size_t i = 0; i < modules->n; i++) {
		size_t n;
		const struct code_function *f = code_image_functions(modules->v[i].image, &n);
		const struct code_stub *s;

		for (size_t k = 0; k < n; k++) {
			if (f[k].name && code_image_name_fits(f[k].name, name))
				return true;
			if (f[k].name)
				near_names_offer(near, f[k].name);
		}
		s = code_image_stubs(modules->v[i].image, &n);
		for (size_t k = 0; with_stubs && k < n; k++) {
			if (s[k].name && code_image_name_fits(s[k].name, name))
				return true;
			if (s[k].name)
				near_names_offer(near, s[k].name);
		}
	}
	return false;
}

/* The module that most likely should have the name: the program, or the one that was chosen. */
static const struct module *main_module(const struct patch_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++)
		if (modules->v[i].module.is_program)
			return &modules->v[i].module;
	return modules->n == 1 ? &modules->v[0].module : NULL;
}

/* Says behind @err, which it takes, what the module lacks that most likely should have the name. */
static struct wc_error *with_lack(struct wc_error *err, const struct patch_modules *modules,
				  const char *between)
{
	const struct module *m = main_module(modules);
	scoped(locator_freep) struct locator *l = m ? locator_new() : NULL;
	scoped(freep) char *lack = l ? locate_lack(l, m) : NULL;
	struct wc_error *longer;

	if (!lack)
		return err;
	longer = wc_error_new(err->kind, "%s%s%s", err->text, between, lack);
	wc_error_free(err);
	return longer;
}

static struct wc_error *check_name(const struct pattern *p, const char *name, const char *at,
				   const struct patch_modules *modules, bool with_stubs)
{
	struct near_names near = { .query = name };
	char list[256];

	if (is_called(name, modules, with_stubs, &near))
		return NULL;
	near_names_text(&near, list, sizeof(list));
	return with_lack(pattern_error(p, WC_ENAME, at, "no function is called \"%s\"%s", name, list),
			 modules, "\n");
}

static struct wc_error *check_operands(const struct pattern *p, const struct patch_modules *modules)
{
	for (size_t i = 0; i < p->nelements; i++)
		for (size_t k = 0; k < p->element[i].noperands; k++) {
			const struct pattern_operand *o = &p->element[i].operand[k];
			struct wc_error *err =
				o->kind == OPERAND_NAME ? check_name(p, o->name, o->at, modules, true) : NULL;

			if (err)
				return err;
		}
	return NULL;
}

static bool read_nothing(void *ctx, uint64_t addr, void *buf, size_t len)
{
	return false;
}

/* A line of the source is an address, once it is known. */
static struct wc_error *find_line(const struct pattern *p, const struct patch_modules *modules,
				  struct pattern_binding *ret)
{
	const struct memory_view none = { read_nothing, NULL };
	scoped(locator_freep) struct locator *l = locator_new();
	scoped(freep) struct module *v = calloc(modules->n ? modules->n : 1, sizeof(*v));
	struct module_list list = { v, modules->n, modules->n };
	struct variable where;
	struct wc_error *err;

	if (!l || !v)
		return &wc_enomem;
	for (size_t i = 0; i < modules->n; i++)
		v[i] = modules->v[i].module;
	err = locate_code(l, p->name, &list, &none, &where, NULL);
	if (err)
		return err;
	ret->has_place = true;
	ret->place = where.addr;
	variable_deinit(&where);
	return NULL;
}

static struct wc_error *check_address(const struct pattern *p, uint64_t addr,
				      const struct patch_modules *modules)
{
	for (size_t i = 0; i < modules->n; i++) {
		const struct patch_module *m = &modules->v[i];
		size_t n;
		const struct code_section *s = code_image_sections(m->image, &n);

		for (size_t k = 0; k < n; k++)
			if (addr - m->module.bias - s[k].start < s[k].len)
				return NULL;
	}
	return pattern_error(
		p, WC_ENAME, p->text,
		"there is no code at 0x%llx; of a file, its own addresses are meant, as objdump -d prints them",
		(unsigned long long)addr);
}

static struct wc_error *check_pattern(const struct pattern *p, const struct patch_modules *modules,
				      struct pattern_binding *b)
{
	struct wc_error *err = NULL;

	switch (p->kind) {
	case PATTERN_LINE:
		err = find_line(p, modules, b);
		return err ? err : check_address(p, b->place, modules);
	case PATTERN_ADDRESS:
		return check_address(p, p->number, modules);
	case PATTERN_ENTRY:
	case PATTERN_EXIT:
	case PATTERN_OFFSET:
		return strcmp(p->name, "*") ? check_name(p, p->name, p->name_at, modules, false) : NULL;
	default:
		return check_operands(p, modules);
	}
}

static struct wc_error *check_function(const char *glob, const struct patch_modules *modules)
{
	struct near_names near = { .query = glob };
	char list[256];

	if (!glob || is_called(glob, modules, false, &near))
		return NULL;
	near_names_text(&near, list, sizeof(list));
	return with_lack(
		wc_error_new(WC_ENAME, "no function is called \"%s\", as --function wants%s", glob, list),
		modules, *list ? " " : ". ");
}

struct wc_error *patch_names_check(const struct patch_query *q, const struct patch_modules *modules,
				   struct pattern_binding *binding)
{
	struct wc_error *err = check_function(q->function, modules);

	for (size_t i = 0; i < q->nnamed && !err; i++)
		err = check_function(q->named[i], modules);
	for (size_t i = 0; i < q->npatterns && !err; i++)
		err = check_pattern(&q->pattern[i], modules, &binding[i]);
	return err;
}

struct wc_error *patch_names_find_lines(const struct patch_query *q, const struct patch_modules *modules,
					struct pattern_binding *binding)
{
	for (size_t i = 0; i < q->npatterns; i++) {
		struct wc_error *err = q->pattern[i].kind == PATTERN_LINE
					       ? find_line(&q->pattern[i], modules, &binding[i])
					       : NULL;

		if (err == &wc_enomem)
			return err;
		wc_error_free(err);
	}
	return NULL;
}
