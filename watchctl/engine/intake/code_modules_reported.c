#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/code/elf/module_report.h"
#include "watchctl/engine/intake/code_modules_impl.h"

#define JIT_MAX 4096u	   /* pieces of memory without a file */
#define CHILDREN_MAX 8192u /* modules that children have mapped themselves */

/*
 * A JIT's memory, for when nobody can look any more: pieces that touch each other are one, as they are for
 * who looks at the maps.
 */
static bool note_jit(struct code_modules *c, const struct module_report *r)
{
	struct code_range all = { r->start, r->end };
	size_t i, n = 0;

	for (i = 0; i < c->njit; i++) {
		const struct code_range *old = &c->jit[i];

		if (old->start <= all.start && old->end >= all.end)
			return true;
		if (old->start > all.end || all.start > old->end) {
			c->jit[n++] = *old;
			continue;
		}
		all.start = old->start < all.start ? old->start : all.start;
		all.end = old->end > all.end ? old->end : all.end;
	}
	c->njit = n;
	return n == JIT_MAX || vec_push(c->jit, c->njit, c->jit_cap, all);
}

/* Whether @r is a part, made executable again, of what is known: then its file need not be opened. */
static bool is_part_of(const struct module *m, const struct module_report *r)
{
	return r->start >= m->start && r->end <= m->end && !strcmp(m->path, r->path) && r->build_id_len &&
	       r->build_id_len == m->build_id_len && !memcmp(m->build_id, r->build_id, r->build_id_len);
}

/*
 * Other code came, and its file has been replaced since: what was in its place has gone all the same, and its names with
 * it. A look may find the newcomer. Without a build id it may be a part of what is there, made executable again.
 */
static bool take_unread(struct code_modules *c, const struct map_event *e)
{
	const struct module_report *r = &e->code;
	struct unread_module *u = &c->unread[c->nunread % UNREAD_MAX];
	bool ok = true;
	size_t i;

	c->wants_look = true;
	if (!r->build_id_len)
		return true;
	*u = (struct unread_module){
		.start = r->start, .end = r->end, .time_ns = e->time_ns, .build_id_len = r->build_id_len
	};
	memcpy(u->build_id, r->build_id, r->build_id_len);
	c->nunread++;
	for (i = c->nlatest; ok && i-- > 0;) {
		const struct module *old = &c->latest[i].m;

		if (!code_ranges_overlap(r->start, r->end, old->start, old->end) ||
		    (old->build_id_len == r->build_id_len &&
		     !memcmp(old->build_id, r->build_id, r->build_id_len)))
			continue;
		ok = code_modules_exchanged(c, old, e->time_ns, true) &&
		     code_modules_gone(c, i, e->time_ns, false);
	}
	return ok;
}

static bool take_own(struct code_modules *c, const struct map_event *e)
{
	struct module m;
	bool found;
	size_t i;

	for (i = 0; i < c->nlatest; i++)
		if (c->latest[i].pid == c->pid && is_part_of(&c->latest[i].m, &e->code))
			return true;
	if (!module_from_report(c->pid, c->root_fd, &e->code, &m, &found))
		return false;
	if (!found)
		return take_unread(c, e);
	for (i = 0; i < c->nlatest; i++) {
		if (!code_modules_same(&c->latest[i].m, &m))
			continue;
		code_modules_adopt(c, i);
		module_deinit(&m);
		return true;
	}
	return code_modules_came(c, &m, c->pid, e->time_ns, false);
}

static bool keep_child(struct code_modules *c, pid_t pid, const struct module *m)
{
	struct child_module k = { .pid = pid };

	if (c->nchildren == CHILDREN_MAX) {
		size_t half = CHILDREN_MAX / 2;

		for (size_t i = 0; i < half; i++)
			module_deinit(&c->child[i].m);
		memmove(c->child, c->child + half, half * sizeof(*c->child));
		c->nchildren = half;
	}
	if (!module_copy(m, &k.m))
		return false;
	if (vec_push(c->child, c->nchildren, c->child_cap, k))
		return true;
	module_deinit(&k.m);
	return false;
}

/* Where the target has something, that is what is known there: the child's stacks end where it has other. */
bool code_modules_child_came(struct code_modules *c, struct module *m, pid_t pid, uint64_t time_ns,
			     bool at_once)
{
	bool is_free = true, is_known = false;
	size_t i;

	if (!keep_child(c, pid, m)) {
		module_deinit(m);
		return false;
	}
	for (i = 0; i < c->nlatest; i++) {
		const struct latest_module *l = &c->latest[i];

		is_known |= code_modules_same(&l->m, m);
		is_free &= l->pid != c->pid || !code_ranges_overlap(m->start, m->end, l->m.start, l->m.end);
	}
	if (!is_known && is_free)
		return code_modules_came(c, m, pid, time_ns, at_once);
	module_deinit(m);
	return true;
}

static bool take_childs(struct code_modules *c, const struct map_event *e)
{
	struct module m;
	bool found;

	if (!module_from_report(e->pid, c->root_fd, &e->code, &m, &found))
		return false;
	return !found || code_modules_child_came(c, &m, e->pid, e->time_ns, false);
}

/* A child of a child begins with what that has mapped. */
static bool take_birth(struct code_modules *c, const struct map_event *e)
{
	size_t i, n = c->nchildren;

	if (e->pid == e->parent || e->parent == c->pid)
		return true;
	for (i = 0; i < n && i < c->nchildren; i++)
		if (c->child[i].pid == e->parent && !keep_child(c, e->pid, &c->child[i].m))
			return false;
	return true;
}

static bool take_code(struct code_modules *c, const struct map_event *e)
{
	if (e->pid == c->pid && module_jit_may_be(e->code.path) && !note_jit(c, &e->code))
		return false;
	/* Memory under a name may as well be a library. */
	if (strcmp(e->code.path, "[vdso]") != 0 && (e->code.path[0] != '/' || e->code.path[1] == '/'))
		return true;
	return e->pid == c->pid ? take_own(c, e) : take_childs(c, e);
}

static bool is_of_task(const struct map_event *e)
{
	return e->kind == MAP_EVENT_FORK || e->kind == MAP_EVENT_NAME || e->kind == MAP_EVENT_EXEC ||
	       e->kind == MAP_EVENT_END;
}

bool code_modules_take(struct code_modules *c)
{
	struct map_event e;
	bool ok = true;

	if (!c->events || !map_events_look(c->events))
		return true;
	while (ok && map_events_next(c->events, &e)) {
		if (e.kind == MAP_EVENT_CODE)
			ok = take_code(c, &e);
		else if (e.kind == MAP_EVENT_LOST)
			c->wants_look = true;
		else if (e.kind == MAP_EVENT_FORK)
			ok = take_birth(c, &e);
		if (ok && c->hooks.task && is_of_task(&e))
			c->hooks.task(c->hooks.ctx, &e);
	}
	return ok;
}
