#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/module_jit.h"
#include "watchctl/code/elf/module_report.h"
#include "watchctl/engine/intake/code_modules_impl.h"
#include "watchctl/target/proc/proc.h"

#define EXCHANGES_MAX 1024u

/* Life */

static void look_at_process(struct code_modules *c)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/root", task_with_memory(c->pid));
	c->root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	c->stack_start = proc_stack_start(c->pid);
}

struct code_modules *code_modules_new(pid_t pid, const struct code_modules_hooks *hooks)
{
	struct code_modules *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->pid = pid;
	c->hooks = *hooks;
	look_at_process(c);
	return c;
}

void code_modules_free(struct code_modules *c)
{
	size_t i;

	if (!c)
		return;
	map_events_close(c->events);
	module_list_deinit(&c->now);
	module_deinit(&c->given);
	for (i = 0; i < c->nlatest; i++)
		module_deinit(&c->latest[i].m);
	for (i = 0; i < c->nwaiting; i++)
		module_deinit(&c->waiting[i].m);
	for (i = 0; i < c->nchildren; i++)
		module_deinit(&c->child[i].m);
	free(c->foreign);
	free(c->latest);
	free(c->waiting);
	free(c->exchange);
	free(c->child);
	free(c->jit);
	closep(&c->root_fd);
	free(c);
}

bool code_modules_listen(struct code_modules *c, bool family)
{
	c->family = family;
	map_events_close(c->events);
	c->events = map_events_open(c->pid, family);
	return c->events;
}

bool code_modules_are_reported(const struct code_modules *c)
{
	return c->events;
}

bool code_modules_restart(struct code_modules *c)
{
	bool ok = true;

	while (ok && c->nlatest)
		ok = code_modules_gone(c, c->nlatest - 1, monotonic_ns(), true);
	for (size_t i = 0; i < c->nchildren; i++)
		module_deinit(&c->child[i].m);
	c->nchildren = c->njit = c->nforeign = 0;
	c->over = false;
	closep(&c->root_fd);
	look_at_process(c);
	if (c->events)
		code_modules_listen(c, c->family);
	return ok;
}

/* Changes */

bool code_modules_same(const struct module *a, const struct module *b)
{
	if (module_is_jit(a) || module_is_jit(b))
		return module_is_jit(a) && module_is_jit(b) && a->start == b->start && a->end == b->end;
	return module_is_same_place(a, b);
}

/* What comes at once does not come before what waits for the same place. */
static void hurry(struct code_modules *c, uint64_t start, uint64_t end)
{
	size_t i;

	for (i = c->nwaiting; i-- > 0;) {
		struct waiting_change *w = &c->waiting[i];

		if (!code_ranges_overlap(start, end, w->m.start, w->m.end))
			continue;
		w->at_once = true;
		start = w->m.start < start ? w->m.start : start;
		end = w->m.end > end ? w->m.end : end;
	}
}

/* Takes @w's module over. Among changes of the same time, those that were found first come first. */
static bool add_waiting(struct code_modules *c, const struct waiting_change *w)
{
	size_t i;

	if (w->at_once)
		hurry(c, w->m.start, w->m.end);
	if (!vec_push(c->waiting, c->nwaiting, c->waiting_cap, *w)) {
		struct module m = w->m;

		module_deinit(&m);
		return false;
	}
	for (i = c->nwaiting - 1; i > 0 && c->waiting[i - 1].time_ns > w->time_ns; i--)
		c->waiting[i] = c->waiting[i - 1];
	c->waiting[i] = *w;
	return true;
}

bool code_modules_exchanged(struct code_modules *c, const struct module *m, uint64_t from_ns, bool exact)
{
	struct code_exchange x = { m->start, m->end, from_ns, 0, exact };

	if (c->nexchanges == EXCHANGES_MAX) {
		c->nexchanges /= 2;
		memmove(c->exchange, c->exchange + c->nexchanges, c->nexchanges * sizeof(*c->exchange));
	}
	c->hooks.displaced(c->hooks.ctx, m->start, m->end);
	x.to_ns = monotonic_ns();
	return vec_push(c->exchange, c->nexchanges, c->exchange_cap, x);
}

static void drop_latest(struct code_modules *c, size_t i)
{
	module_deinit(&c->latest[i].m);
	c->latest[i] = c->latest[--c->nlatest];
}

bool code_modules_gone(struct code_modules *c, size_t i, uint64_t time_ns, bool at_once)
{
	struct waiting_change w = {
		.at_once = at_once, .pid = c->latest[i].pid, .time_ns = time_ns, .m = c->latest[i].m
	};

	c->latest[i] = c->latest[--c->nlatest];
	return add_waiting(c, &w);
}

static size_t count_unread(const struct code_modules *c)
{
	return c->nunread < UNREAD_MAX ? c->nunread : UNREAD_MAX;
}

static bool is_of(const struct unread_module *u, const struct module *m)
{
	return u->build_id_len == m->build_id_len && !memcmp(u->build_id, m->build_id, m->build_id_len);
}

uint64_t code_modules_unread_since(const struct code_modules *c, const struct module *m)
{
	uint64_t since = 0;
	size_t i;

	for (i = 0; i < count_unread(c); i++) {
		const struct unread_module *u = &c->unread[i];

		if (code_ranges_overlap(m->start, m->end, u->start, u->end) && is_of(u, m) &&
		    u->time_ns > since)
			since = u->time_ns;
	}
	return since;
}

/* Where other code was reported that could not be read, records from before @m are not about it. */
static bool is_free(const struct code_modules *c, const struct module *m)
{
	size_t i;

	for (i = 0; i < count_unread(c); i++)
		if (code_ranges_overlap(m->start, m->end, c->unread[i].start, c->unread[i].end) &&
		    !is_of(&c->unread[i], m))
			return false;
	for (i = 0; i < c->now.n; i++)
		if (code_ranges_overlap(m->start, m->end, c->now.v[i].start, c->now.v[i].end))
			return false;
	for (i = 0; i < c->nwaiting; i++)
		if (code_ranges_overlap(m->start, m->end, c->waiting[i].m.start, c->waiting[i].m.end))
			return false;
	return true;
}

/* What walked there has known the one or the other; of a JIT's code, frame pointers lead as far. */
static bool displace(struct code_modules *c, const struct module *m, uint64_t time_ns, bool at_once)
{
	size_t i;

	for (i = 0; i < c->nlatest;) {
		const struct module *old = &c->latest[i].m;

		if (!code_ranges_overlap(m->start, m->end, old->start, old->end)) {
			i++;
			continue;
		}
		if (!at_once && !module_is_jit(old) && !code_modules_exchanged(c, old, time_ns, true))
			return false;
		drop_latest(c, i);
	}
	return true;
}

bool code_modules_came(struct code_modules *c, struct module *m, pid_t pid, uint64_t time_ns, bool at_once)
{
	struct waiting_change w = { .came = true, .pid = pid, .time_ns = time_ns };

	w.at_once = at_once || is_free(c, m);
	if (!displace(c, m, time_ns, at_once) || !module_copy(m, &w.m)) {
		module_deinit(m);
		return false;
	}
	if (!vec_push(c->latest, c->nlatest, c->latest_cap, (struct latest_module){ *m, pid, time_ns })) {
		module_deinit(m);
		module_deinit(&w.m);
		return false;
	}
	return add_waiting(c, &w);
}

/* Whose it is; the target's pid unless only a child has it. */
static pid_t owner_of(const struct code_modules *c, uint64_t start)
{
	size_t i;

	for (i = 0; i < c->nforeign; i++)
		if (c->foreign[i].start == start)
			return c->foreign[i].pid;
	return c->pid;
}

static bool set_owner(struct code_modules *c, uint64_t start, pid_t pid)
{
	size_t i, n = 0;

	for (i = 0; i < c->nforeign; i++)
		if (c->foreign[i].start != start)
			c->foreign[n++] = c->foreign[i];
	c->nforeign = n;
	return pid == c->pid ||
	       vec_push(c->foreign, c->nforeign, c->foreign_cap, (struct foreign_module){ start, pid });
}

void code_modules_adopt(struct code_modules *c, size_t i)
{
	if (c->latest[i].pid == c->pid)
		return;
	c->latest[i].pid = c->pid;
	set_owner(c, c->latest[i].m.start, c->pid);
	for (size_t k = 0; k < c->nwaiting; k++)
		if (code_modules_same(&c->waiting[k].m, &c->latest[i].m))
			c->waiting[k].pid = c->pid;
}

static size_t overlapping(const struct module_list *l, const struct module *m)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (code_ranges_overlap(m->start, m->end, l->v[i].start, l->v[i].end))
			break;
	return i;
}

static void give_gone(struct code_modules *c, size_t i, uint64_t time_ns, struct module_change *ret)
{
	c->given = c->now.v[i];
	memmove(&c->now.v[i], &c->now.v[i + 1], (--c->now.n - i) * sizeof(*c->now.v));
	*ret = (struct module_change){ .module = &c->given,
				       .pid = owner_of(c, c->given.start),
				       .time_ns = time_ns };
	set_owner(c, c->given.start, c->pid);
}

static bool give_came(struct code_modules *c, const struct waiting_change *w, struct module_change *ret)
{
	size_t i;

	if (!vec_push(c->now.v, c->now.n, c->now.cap, w->m)) {
		struct module m = w->m;

		module_deinit(&m);
		return false;
	}
	for (i = c->now.n - 1; i > 0 && c->now.v[i - 1].start > w->m.start; i--)
		c->now.v[i] = c->now.v[i - 1];
	c->now.v[i] = w->m;
	*ret = (struct module_change){ .came = true,
				       .in_turn = !w->at_once,
				       .module = &c->now.v[i],
				       .pid = w->pid,
				       .time_ns = w->time_ns };
	return set_owner(c, w->m.start, w->pid);
}

static void drop_waiting(struct code_modules *c, size_t i)
{
	memmove(&c->waiting[i], &c->waiting[i + 1], (--c->nwaiting - i) * sizeof(*c->waiting));
}

/* The @i-th that waits happens, or what must go before it. False: nothing had to. */
static bool happen(struct code_modules *c, size_t i, struct module_change *ret, bool *ok)
{
	struct waiting_change w = c->waiting[i];
	size_t there = overlapping(&c->now, &w.m);

	if (w.came && there < c->now.n) {
		give_gone(c, there, w.time_ns, ret);
		return true;
	}
	drop_waiting(c, i);
	if (w.came) {
		*ok = give_came(c, &w, ret);
		return *ok;
	}
	if (there < c->now.n && code_modules_same(&c->now.v[there], &w.m)) {
		give_gone(c, there, w.time_ns, ret);
		module_deinit(&w.m);
		return true;
	}
	module_deinit(&w.m);
	return false;
}

bool code_modules_next(struct code_modules *c, uint64_t until_ns, struct module_change *ret, bool *ok)
{
	size_t i = 0;

	*ok = true;
	module_deinit(&c->given);
	while (i < c->nwaiting && *ok) {
		if (!c->waiting[i].at_once && c->waiting[i].time_ns > until_ns)
			i++;
		else if (happen(c, i, ret, ok))
			return true;
	}
	return false;
}

const struct module_list *code_modules_list(const struct code_modules *c)
{
	return &c->now;
}

bool code_modules_changing(const struct code_modules *c, uint64_t addr)
{
	size_t i;

	for (i = 0; i < c->nwaiting; i++)
		if (addr >= c->waiting[i].m.start && addr < c->waiting[i].m.end)
			return true;
	return false;
}

bool code_modules_wants_look(const struct code_modules *c)
{
	return c->wants_look && !c->over;
}

bool code_modules_over(const struct code_modules *c)
{
	return c->over;
}

/* Of frames */

enum code_doubt code_modules_doubt(const struct code_modules *c, uint64_t addr, uint64_t time_ns)
{
	enum code_doubt worst = CODE_SURE;
	size_t i;

	if (!c->nexchanges || time_ns > c->exchange[c->nexchanges - 1].to_ns)
		return CODE_SURE;
	for (i = c->nexchanges; i-- > 0;) {
		const struct code_exchange *x = &c->exchange[i];

		if (time_ns <= x->from_ns || time_ns > x->to_ns || addr < x->start || addr >= x->end)
			continue;
		if (!x->exact)
			return CODE_IN_DOUBT;
		worst = CODE_RULES_IN_DOUBT;
	}
	return worst;
}

/* What @pid has mapped there itself; NULL: nothing. */
static const struct module *own_of(const struct code_modules *c, pid_t pid, uint64_t addr)
{
	size_t i;

	for (i = c->nchildren; i-- > 0;)
		if (c->child[i].pid == pid && addr >= c->child[i].m.start && addr < c->child[i].m.end)
			return &c->child[i].m;
	return NULL;
}

unsigned int code_modules_shared(const struct code_modules *c, pid_t pid, const uint64_t *frame,
				 unsigned int n)
{
	unsigned int i = c->nforeign || c->nchildren ? 0 : n;

	for (; i < n; i++) {
		const struct module *there = module_find(&c->now, frame[i]);
		const struct module *own = pid == c->pid ? NULL : own_of(c, pid, frame[i]);

		if (own ? !there || !code_modules_same(own, there)
			: there && owner_of(c, there->start) != c->pid)
			break;
	}
	return i;
}

bool code_modules_hears_children(const struct code_modules *c)
{
	return c->events && c->family && map_events_are_complete(c->events);
}
