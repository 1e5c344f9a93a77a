#include "watchctl/code/lookup/locator.h"

#include <stdlib.h>

#include "watchctl/base/fault_guard.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/lookup/locate_index.h"

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
	return wc_error_new(
		WC_ENAME,
		"the debug information of the program, or of a library, is damaged or was changed while "
		"it was read: names cannot be found in it; give an address (0x...:SIZE) instead");
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

const struct module *search_main_module(const struct module_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].is_program)
			return &l->v[i];
	return l->n ? &l->v[0] : NULL;
}
