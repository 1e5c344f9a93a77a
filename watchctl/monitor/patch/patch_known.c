/* The modules that were looked at, also when they are unloaded, and loaded again. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module_report.h"
#include "watchctl/monitor/patch/patch_session_impl.h"
#include "watchctl/patch/apply/patch_apply.h"
#include "watchctl/target/proc/proc.h"

static struct file_marks marks_of(const struct module *m)
{
	struct stat st;

	if (stat(m->open_path ? m->open_path : m->path, &st))
		return (struct file_marks){ 0 };
	return (struct file_marks){ st.st_dev, st.st_ino, st.st_size, st.st_mtim };
}

/* Of none is known as little as of another one. */
static bool is_same_file(const struct file_marks *a, const struct file_marks *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static struct session_module *known(const struct patch_session *s, const struct module *m)
{
	for (size_t i = 0; i < s->nmodules; i++)
		if (module_is_same_place(&s->module[i].m, m))
			return &s->module[i];
	return NULL;
}

bool session_is_known(const struct patch_session *s, const struct module *m)
{
	return known(s, m) != NULL;
}

bool session_know(struct patch_session *s, const struct module *m)
{
	struct session_module now = { .file = marks_of(m), .is_there = true };

	if (module_copy(m, &now.m) && vec_push(s->module, s->nmodules, s->module_cap, now))
		return true;
	module_deinit(&now.m);
	return false;
}

void session_know_area(struct patch_session *s, const struct module *m, const struct probe_range *area,
		       const struct probe_patch *mark)
{
	struct session_module *k = known(s, m);

	if (!k)
		return;
	k->area = *area;
	k->mark = mark ? *mark : (struct probe_patch){ 0 };
}

void session_forget_known(struct patch_session *s)
{
	for (size_t i = 0; i < s->nmodules; i++)
		module_deinit(&s->module[i].m);
	free(s->module);
}

/* Where its mark was, at the last look, there are other bytes; where it was not, the file's are. */
static bool is_displaced(const struct patch_session *s, const struct session_module *k)
{
	const struct memory_view mem = proc_memory(&s->pid);
	uint8_t now[PROBE_PATCH_MAX];

	if (!k->mark.len || !memory_read(&mem, k->mark.addr, now, k->mark.len))
		return false;
	return k->is_there ? memcmp(now, k->mark.written, k->mark.len) != 0
			   : !memcmp(now, k->mark.original, k->mark.len);
}

bool session_has_displaced(const struct patch_session *s)
{
	for (size_t i = 0; i < s->nmodules; i++)
		if (is_displaced(s, &s->module[i]))
			return true;
	return false;
}

/* What is in the module's place now, itself before others; NULL: it has gone. */
static const struct module *in_place(const struct session_module *k, const struct module_list *now)
{
	for (size_t i = 0; i < now->n && now->v; i++)
		if (module_is_same_place(&now->v[i], &k->m))
			return &now->v[i];
	for (size_t i = 0; i < now->n && now->v; i++)
		if (now->v[i].start < k->m.end && now->v[i].end > k->m.start)
			return &now->v[i];
	return NULL;
}

/* As long as its patches stand where they were written, whatever became of the file. */
static bool is_still(const struct patch_session *s, const struct session_module *k,
		     const struct module *there)
{
	const struct file_marks file = marks_of(there);

	return module_is_same_place(there, &k->m) &&
	       ((k->is_there && k->mark.len && !is_displaced(s, k)) || is_same_file(&file, &k->file));
}

static struct wc_error *note_again(struct patch_session *s, const struct session_module *k,
				   const struct patch_again *a)
{
	if (!a->missed)
		return session_note(s, "%s was loaded again, and its patches are in it again", k->m.path);
	return session_note(s,
			    "%s was loaded again: %zu of its %zu patches are in it again, the others not: %s",
			    k->m.path, a->applied, a->applied + a->missed, patch_result_text(a->why));
}

/* It may be going just now, or coming: of what is missed, it is tried again, and said the second time. */
static struct wc_error *patch_again_in(struct patch_session *s, struct session_module *k)
{
	struct patch_again a;
	struct wc_error *err;
	bool is_same;

	if (!k->area.code_size || (k->is_there && !is_displaced(s, k)))
		return NULL;
	err = patch_again(&s->place, &k->area, &a, &s->holds);
	if (err)
		return err;
	is_same = a.missed && a.missed == k->again.missed && a.why == k->again.why;
	k->tells = is_same ? k->tells + 1 : 0;
	k->again = a;
	if (a.applied)
		k->mark = a.mark;
	return (a.missed ? k->tells == 1 : a.applied) ? note_again(s, k, &a) : NULL;
}

static void forget(struct patch_session *s, size_t i)
{
	module_deinit(&s->module[i].m);
	s->module[i] = s->module[--s->nmodules];
}

struct wc_error *session_look_at_known(struct patch_session *s, const struct module_list *now)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; i < s->nmodules && !err;) {
		struct session_module *k = &s->module[i];
		const struct module *there = in_place(k, now);
		bool is_it = there && is_still(s, k, there);

		if (is_it)
			err = patch_again_in(s, k);
		else if (k->area.code_size)
			patch_forget_gone(&s->place, &k->area);
		k->is_there = is_it && !k->again.missed;
		if (there && !is_it)
			forget(s, i);
		else
			i++;
	}
	return err;
}
