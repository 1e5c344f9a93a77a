/* The modules of the program: those that may be patched are planned, and patched. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/elf_mark.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/engine/intake/code_facts.h"
#include "watchctl/monitor/patch/patch_areas_impl.h"
#include "watchctl/patch/plan/free_space.h"
#include "watchctl/patch/apply/patch_apply.h"
#include "watchctl/patch/plan/patch_module.h"
#include "watchctl/patch/plan/patch_plan.h"
#include "watchctl/patch/probe/probe_image.h"
#include "watchctl/patch/probe/probe_place.h"
#include "watchctl/target/proc/proc.h"

/*
 * Goroutines have small stacks, on which there is no room for probes. Of a restartable sequence (rseq(2)) the kernel knows where it
 * lies: in a trampoline it would not be restarted. NULL: it may be patched.
 */
static const char *module_refusal(const struct module *m)
{
	static const struct elf_mark marks[] = { { .section = ".note.go.buildid" },
						 { .section = ".gopclntab" },
						 { .section = "__rseq_cs" } };
	static const char *const why[] = {
		"code of Go: its stacks have no room for probes",
		"code of Go: its stacks have no room for probes",
		"the module has restartable sequences (rseq), which must stay where they are", NULL
	};
	scoped(closep) int fd = open(m->open_path ? m->open_path : m->path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? NULL : why[elf_mark_find(fd, marks, sizeof(marks) / sizeof(*marks))];
}

/* Of the code facts' list, which the log has, too. @room: what is free in the process, filled in later, which is to outlive @ret. */
static struct wc_error *open_modules(struct patch_session *s, const struct free_space *room,
				     struct patch_modules *ret)
{
	const struct module_list *list = code_facts_modules(s->facts);
	const struct memory_view mem = proc_memory(&s->pid);
	const struct patch_taker *taker = s->options.taker;
	const struct module *only = s->options.in ? module_by_name(list, s->options.in) : NULL;
	struct wc_error *err;

	if (s->options.in && !only && !s->nmodules && !s->options.pending)
		return wc_error_new(WC_ENAME, "process %d has no module \"%s\"; it has %s", s->pid,
				    s->options.in, list->n ? list->v[0].path : "none");
	err = session_look_at_known(s, list);
	for (size_t i = 0; i < list->n && list->v && !err; i++) {
		const struct module *now = &list->v[i];
		struct patch_module m;

		if ((s->options.in && only != now) || module_is_jit(now) || session_is_known(s, now) ||
		    (taker && !taker->wants_module(taker->ctx, list, now)))
			continue;
		if (!session_know(s, now))
			return &wc_enomem;
		/* The file's bytes: memory may have been written to by others. The kernel's own has no file. */
		err = patch_module_open(now, strcmp(now->path, "[vdso]") ? NULL : &mem, &m);
		if (err && err->kind == WC_ENAME) {
			struct wc_error *note =
				session_note(s, "nothing is patched in %s: %s", now->path, err->text);

			wc_error_free(err);
			err = note;
			continue;
		}
		m.room = room;
		if (!err && !vec_push(ret->v, ret->n, ret->cap, m)) {
			patch_module_deinit(&m);
			err = &wc_enomem;
		}
	}
	return err;
}

static struct wc_error *tell_taker(struct patch_session *s, size_t i)
{
	const struct patch_taker *taker = s->options.taker;
	const struct session_site *site = &s->site[i];
	const struct patch_placed p = { .site = (uint32_t)i,
					.ip = site->ip,
					.mark = site->mark,
					.applied = site->applied,
					.why = site->why,
					.why_short = site->why_short,
					.counter = site->applied ? &s->place.counter[i] : NULL };

	return taker->placed(taker->ctx, &p);
}

static struct wc_error *report_sites(struct patch_session *s, size_t from)
{
	struct wc_error *err = NULL;

	for (size_t i = from; s->options.taker && i < s->nsites && !err; i++)
		err = tell_taker(s, i);
	if (s->options.taker)
		return err;
	for (size_t i = from; i < s->nsites && !err; i++) {
		const struct session_site *site = &s->site[i];
		struct trace_event e = { .type = EVENT_PROBE_SITE };

		e.probe_site = (struct probe_site_event){
			.id = (uint32_t)i,
			.pid = s->pid,
			.probe = session_function(s, site->rule)->name,
			.pattern = s->options.query->pattern[site->rule].text,
			.ip = site->ip,
			.when = s->options.rule[site->rule].when,
			.tactic = site->tactic,
			.why = site->why[0] ? site->why : NULL,
			.ninsn = site->ninsn,
		};
		memcpy(e.probe_site.insn, site->insn, sizeof(site->insn));
		err = session_put(s, &e);
	}
	return err;
}

static void know_area(const struct area_work *w)
{
	size_t i = 0;

	while (i < w->njobs && w->job[i].result != PATCH_APPLIED)
		i++;
	if (w->njobs)
		session_know_area(w->session, &w->plan.module->module, &w->range,
				  i < w->njobs ? &w->job[i].patch : NULL);
}

static struct wc_error *patch_module(struct patch_session *s, struct area_work *w)
{
	const size_t first = s->nsites;
	struct wc_error *err;

	if (!w->plan.n)
		return NULL;
	s->modules_with_sites++;
	if (!area_add_sites(w, module_refusal(&w->plan.module->module)))
		return &wc_enomem;
	err = area_build(w);
	know_area(w);
	return err ? err : report_sites(s, first);
}

/* Plans all modules; @work: of each of them. Only the @first ones must have what patterns name. */
static struct wc_error *plan_modules(struct patch_session *s, bool first, struct patch_modules *modules,
				     struct area_work *work)
{
	scoped(patch_plan_freep) struct patch_plan *plan = NULL;
	const struct patch_site *site = NULL;
	struct wc_error *err =
		patch_plan_make(s->options.query, modules, !first || s->options.pending, &plan);

	while (!err && !(err = patch_plan_next(plan, &site)) && site)
		if (!area_take_site(&work[site->module - modules->v], site))
			return &wc_enomem;
	return err;
}

struct wc_error *session_patch_modules(struct patch_session *s, bool first)
{
	scoped(free_space_deinit) struct free_space room = { 0 };
	scoped(patch_modules_deinit) struct patch_modules modules = { 0 };
	struct area_work *work;
	struct wc_error *err;
	size_t sites = 0;

	err = open_modules(s, &room, &modules);
	if (err || !modules.n)
		return err;
	if (!free_space_read(s->pid, &room))
		return wc_error_errno(errno == EACCES || errno == EPERM ? WC_EPERM : WC_ETARGET, errno,
				      "cannot read the mappings of process %d", s->pid);
	work = calloc(modules.n, sizeof(*work));
	if (!work)
		return &wc_enomem;
	for (size_t i = 0; i < modules.n; i++)
		work[i].session = s;
	err = plan_modules(s, first, &modules, work);
	for (size_t i = 0; i < modules.n; i++)
		sites += work[i].plan.n;
	if (!err && !s->place.home)
		err = session_place(s, sites);
	for (size_t i = 0; i < modules.n && !err; i++)
		err = patch_module(s, &work[i]);
	if (!err)
		err = s->options.hold ? NULL : patch_switch(&s->place, probe_place_on(&s->place));
	for (size_t i = 0; i < modules.n; i++)
		area_work_deinit(&work[i]);
	free(work);
	return err;
}
