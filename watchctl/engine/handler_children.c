/*
 * The children that the target has forked: each has a copy of the handler, and shares the area with it. Only
 * with follow_fork are they watched; the handler is taken out of all of them.
 */
#include "watchctl/base/vec.h"
#include "watchctl/engine/handler_engine.h"
#include "watchctl/target/proc.h"

#define GENERATIONS 64u

static bool has_our_handler(const struct engine *e, pid_t pid)
{
	struct memory_view mem = proc_memory(&pid);
	struct wire_control c;

	return memory_read(&mem, e->inj.control, &c, sizeof(c)) && c.magic == WIRE_MAGIC &&
	       c.cookie == e->cookie && c.code_start == e->inj.base;
}

static bool descends_from(pid_t pid, pid_t ancestor)
{
	struct proc_status s;
	unsigned int i;

	for (i = 0; i < GENERATIONS && pid > 1 && pid != ancestor; i++)
		pid = proc_status_read(pid, pid, &s) ? s.parent : 0;
	return pid == ancestor;
}

/* Of one that has ended since, its parent waiting for it or not, nothing is left that could be looked at. */
bool handler_is_child(void *ctx, pid_t pid)
{
	const struct engine *e = ctx;
	struct proc_status s;

	if (pid <= 0)
		return false;
	return has_our_handler(e, pid) || descends_from(pid, e->pid) || !proc_status_read(pid, pid, &s) ||
	       (!s.has_memory && !s.kthread);
}

struct search {
	struct engine *e;
	struct thread_ids found;
};

static bool look_at(void *ctx, pid_t pid)
{
	struct search *s = ctx;

	if (pid != s->e->pid && has_our_handler(s->e, pid))
		vec_push(s->found.v, s->found.n, s->found.cap, pid);
	return true;
}

void handler_find_children(struct engine *e)
{
	struct search s = { .e = e };

	proc_each(look_at, &s);
	thread_ids_deinit(&e->children);
	e->children = s.found;
}

struct injection handler_of_child(const struct engine *e, pid_t pid)
{
	struct injection inj = e->inj;

	inj.pid = pid;
	inj.held = NULL;
	inj.stale_base = inj.stale_size = 0;
	return inj;
}

static void leave_child(struct engine *e, pid_t pid)
{
	struct injection inj = handler_of_child(e, pid);
	bool replaced = false;
	struct wc_error *err = inject_uninstall(&inj, &replaced);

	if (!err && !replaced)
		err = inject_remove(&inj);
	if (err)
		handler_say(e, err->text);
	wc_error_free(err);
}

/*
 * A child that fails to let go of it keeps a handler that passes signals on. One that runs in the target's
 * memory is dealt with together with that; so is, with the first of them, whoever shares a child's.
 */
void handler_leave_children(struct engine *e)
{
	size_t i;

	for (i = 0; i < e->children.n; i++)
		if (proc_shares_memory(e->pid, e->children.v[i]) == PROC_SEPARATE &&
		    has_our_handler(e, e->children.v[i]))
			leave_child(e, e->children.v[i]);
}
