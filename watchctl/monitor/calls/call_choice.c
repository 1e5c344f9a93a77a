#include "watchctl/monitor/calls/call_choice.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/insn/insn_scan.h"
#include "watchctl/code/locate/code_name.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/target/proc/proc.h"

/* Of the range. */
struct choice_end {
	const char *text; /* NULL: there is none */
	uint64_t at;	  /* 0: not found yet */
	bool is_function;
};

struct call_choice {
	pid_t pid;
	const struct step_selection *selection;
	const struct planner_ops *ops;
	struct planner *planner;
	struct step_select *select;
	struct locator *locator;
	struct call_point *point;
	size_t npoints, point_cap;
	struct map64 by_address; /* index of a point plus 1 */
	struct stepper_code *code;
	size_t ncode;
	struct stepper_code *module; /* those that are recorded, as far as functions of them are chosen */
	size_t nmodules, module_cap;
	struct choice_end from, to;
	uint64_t seen; /* hash of the modules of the last look */
};

struct call_choice *call_choice_new(pid_t pid, const struct step_selection *s, const char *from,
				    const char *to, const struct planner_ops *ops, struct planner *planner)
{
	struct call_choice *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct call_choice){ .pid = pid,
				   .selection = s,
				   .ops = ops,
				   .planner = planner,
				   .select = step_select_new(s, ops, planner),
				   .locator = locator_new(),
				   .from = { .text = from },
				   .to = { .text = to } };
	if (c->select && c->locator)
		return c;
	call_choice_free(c);
	return NULL;
}

void call_choice_free(struct call_choice *c)
{
	if (!c)
		return;
	step_select_free(c->select);
	locator_free(c->locator);
	map64_deinit(&c->by_address);
	free(c->point);
	free(c->code);
	free(c->module);
	free(c);
}

/* Looking */

static uint64_t hash_of(const struct module_list *all)
{
	uint64_t h = HASH_START;

	for (size_t i = 0; i < all->n; i++) {
		h = hash_bytes(h, &all->v[i].start, sizeof(all->v[i].start));
		h = hash_text(h, all->v[i].path);
	}
	return h;
}

static int compare_code(const void *a, const void *b)
{
	const struct stepper_code *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static bool keep_code(struct call_choice *c)
{
	const struct stepper_code *code = step_select_code(c->select, &c->ncode);

	free(c->code);
	c->code = malloc((c->ncode + 1) * sizeof(*c->code));
	if (!c->code)
		return false;
	if (c->ncode)
		memcpy(c->code, code, c->ncode * sizeof(*code));
	qsort(c->code, c->ncode, sizeof(*c->code), compare_code);
	return true;
}

bool call_choice_is_in_module(const struct call_choice *c, uint64_t address)
{
	for (size_t i = 0; i < c->nmodules; i++)
		if (address >= c->module[i].start && address < c->module[i].end)
			return true;
	return false;
}

static bool add_modules(struct call_choice *c, const struct module_list *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct module *m = &all->v[i];

		if (step_selection_records(c->selection, m->path) && !call_choice_is_in_module(c, m->start) &&
		    !vec_push(c->module, c->nmodules, c->module_cap,
			      (struct stepper_code){ m->start, m->end }))
			return false;
	}
	return true;
}

/* A function of a module that was there before, and is there again, keeps its number. */
static bool add_point(struct call_choice *c, const struct step_point *p, const struct step_chosen *chosen)
{
	const struct call_point new = { .address = p->address,
					.name = chosen->name,
					.over = chosen->over,
					.leaves = p->leaves,
					.function = CALL_POINT_NEW };

	if (call_choice_point(c, p->address))
		return true;
	return vec_push(c->point, c->npoints, c->point_cap, new) &&
	       map64_put(&c->by_address, p->address, (void *)(uintptr_t)c->npoints);
}

/* Probes come behind an endbr64. */
static uint64_t behind_endbr(const struct memory_view *mem, uint64_t address)
{
	uint8_t code[INSN_MAX] = { 0 };
	struct insn_brief i;

	return memory_read(mem, address, code, 4) && insn_scan(code, sizeof(code), address, &i) && i.is_endbr
		       ? address + i.len
		       : address;
}

static struct wc_error *find_end(struct call_choice *c, struct choice_end *e, const struct module_list *all)
{
	const struct memory_view mem = proc_memory(&c->pid);
	struct variable v = { 0 };
	bool missing = false;
	uint64_t size;
	struct wc_error *err;

	if (!e->text || e->at)
		return NULL;
	err = locate_code(c->locator, e->text, all, &mem, &v, &missing);
	if (err && missing && c->npoints) { /* its library may come later */
		wc_error_free(err);
		return NULL;
	}
	if (err)
		return err;
	e->is_function = step_select_function(c->select, v.addr, &size);
	e->at = behind_endbr(&mem, v.addr);
	variable_deinit(&v);
	return NULL;
}

struct wc_error *call_choice_look(struct call_choice *c, const struct module_list *all)
{
	const uint64_t now = hash_of(all);
	const struct step_chosen *chosen;
	const struct step_point *p;
	struct wc_error *err;
	size_t n = 0;

	if (now == c->seen)
		return NULL;
	c->seen = now;
	err = c->ops->set_modules(c->planner, all);
	if (!err)
		err = step_select_update(c->select, all, &p, &chosen, &n);
	for (size_t i = 0; i < n && !err; i++)
		if (!add_point(c, &p[i], &chosen[i]))
			err = &wc_enomem;
	if (!err && (!keep_code(c) || !add_modules(c, all)))
		err = &wc_enomem;
	if (!err)
		err = find_end(c, &c->from, all);
	return err ? err : find_end(c, &c->to, all);
}

/* Asking */

static bool is_in(const struct module *m, uint64_t address)
{
	return address && address >= m->start && address < m->end;
}

bool call_choice_wants_module(const struct call_choice *c, const struct module *m)
{
	if (is_in(m, c->from.at) || is_in(m, c->to.at) || call_choice_is_in_module(c, m->start))
		return true;
	for (size_t i = 0; i < c->npoints; i++)
		if (is_in(m, c->point[i].address))
			return true;
	return false;
}

struct call_point *call_choice_point(const struct call_choice *c, uint64_t address)
{
	const uintptr_t i = (uintptr_t)map64_get(&c->by_address, address);

	return i ? &c->point[i - 1] : NULL;
}

struct call_point *call_choice_points(const struct call_choice *c, size_t *n)
{
	*n = c->npoints;
	return c->point;
}

bool call_choice_is_code(const struct call_choice *c, uint64_t address)
{
	const size_t above = BISECT(c->ncode, i, c->code[i].start <= address);

	return above && address < c->code[above - 1].end;
}

uint64_t call_choice_from(const struct call_choice *c, bool *is_function)
{
	*is_function = c->from.is_function;
	return c->from.at;
}

uint64_t call_choice_to(const struct call_choice *c)
{
	return c->to.at;
}

void call_choice_count(const struct call_choice *c, size_t *functions, size_t *over, size_t *modules)
{
	step_select_count(c->select, functions, over, modules);
}
