/* `watchctl patch --plan`. */
#include <errno.h>
#include <stdio.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/patch/patch_ask.h"
#include "watchctl/cli/patch/patch_print.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/patch/plan/free_space.h"
#include "watchctl/patch/plan/patch_module.h"
#include "watchctl/target/proc/proc.h"

/* @mem, @room: of a process. */
static struct wc_error *open_module(const struct module *m, const struct memory_view *mem,
				    const struct free_space *room, struct patch_modules *ret)
{
	struct patch_module p;
	struct wc_error *err = patch_module_open(m, mem, &p);

	if (err)
		return err;
	p.room = room;
	if (vec_push(ret->v, ret->n, ret->cap, p))
		return NULL;
	patch_module_deinit(&p);
	return &wc_enomem;
}

static struct wc_error *open_file(const struct patch_ask *q, struct patch_modules *ret)
{
	scoped(module_deinit) struct module m = { 0 };
	struct wc_error *err = patch_module_of_file(q->word[0], &m);

	return err ? err : open_module(&m, NULL, NULL, ret);
}

static struct wc_error *no_such_module(const struct patch_ask *q, const struct module_list *list)
{
	struct wc_error *err =
		wc_error_new(WC_ENAME, "process %d has no module \"%s\"; it has", q->pid, q->in);

	for (size_t i = 0; i < list->n && i < 8; i++)
		err = wc_error_hint(err, "%s", list->v[i].path);
	return err;
}

static struct wc_error *open_process(const struct patch_ask *q, struct free_space *room,
				     struct patch_modules *ret)
{
	scoped(module_list_deinit) struct module_list list = { 0 };
	const struct memory_view mem = proc_memory(&q->pid);
	const struct module *only = NULL;
	struct wc_error *err = module_list_read(q->pid, &list);

	if (!err && !free_space_read(q->pid, room))
		err = wc_error_errno(WC_ETARGET, errno, "cannot read the mappings of process %d", q->pid);
	if (!err && q->in && !(only = module_by_name(&list, q->in)))
		err = no_such_module(q, &list);
	for (size_t i = 0; i < list.n && !err; i++)
		if (!only || only == &list.v[i])
			err = open_module(&list.v[i], &mem, room, ret);
	if (!err && !ret->n)
		err = wc_error_new(WC_ETARGET, "process %d has no code: it is a kernel thread, or has ended",
				   q->pid);
	return err;
}

static struct wc_error *print_plan(const struct patch_query *q, struct patch_modules *modules,
				   struct patch_printer *printer)
{
	scoped(patch_plan_freep) struct patch_plan *plan = NULL;
	const struct patch_site *site = NULL;
	struct wc_error *err = patch_plan_make(q, modules, false, &plan);

	while (!err && !(err = patch_plan_next(plan, &site)) && site)
		patch_print_site(printer, site);
	if (!err)
		patch_print_totals(printer, patch_plan_totals(plan));
	return err;
}

struct wc_error *patch_run_plan(struct patch_ask *q)
{
	scoped(free_space_deinit) struct free_space room = { 0 };
	scoped(patch_modules_deinit) struct patch_modules modules = { 0 };
	scoped(patch_printer_deinit) struct patch_printer printer = { stdout, q->json, q->sites, 0, { 0 } };
	struct wc_error *err = q->pid ? open_process(q, &room, &modules) : open_file(q, &modules);

	return err ? err : print_plan(&q->query, &modules, &printer);
}
