/*
 * The children that the target has forked: each has a copy of the handler, and shares the area with it. Only
 * with follow_fork are they watched; the handler is taken out of all of them.
 */
#include <stddef.h>
#include <stdio.h>

#include "watchctl/base/error.h"
#include "watchctl/base/task.h"
#include "watchctl/engine/handler/handler_engine.h"
#include "watchctl/target/proc/proc.h"

#define SEARCHES 4u

/* Of one that has ended since, its parent waiting for it or not, nothing is left that could be looked at. */
bool handler_is_child(void *ctx, pid_t pid)
{
	const struct engine *e = ctx;
	struct proc_status s;

	if (pid <= 0)
		return false;
	return pid == e->pid || forked_has(&e->copies, pid) || proc_descends_from(pid, e->pid) ||
	       !proc_status_read(pid, pid, &s) || (!s.has_memory && !s.kthread);
}

/* Takes what is in @s. */
static void take_children(struct engine *e, struct forked_search *s)
{
	thread_ids_deinit(&e->children);
	e->children = s->found;
	s->found = (struct thread_ids){ 0 };
	forked_search_deinit(s);
}

void handler_find_children(struct engine *e)
{
	struct forked_search s;

	forked_look(&e->copies, &s);
	take_children(e, &s);
}

bool handler_no_child_lives(struct engine *e)
{
	struct forked_search before, now;
	bool proved = false;
	unsigned int i;

	forked_look(&e->copies, &before);
	for (i = 0; i < SEARCHES && !before.found.n && !proved; i++) {
		forked_look(&e->copies, &now);
		proved = forked_is_proof(&before, &now);
		forked_search_deinit(&before);
		before = now;
	}
	take_children(e, &before);
	return proved;
}

struct search_below {
	const struct engine *e;
	pid_t inner, found;
};

static bool is_below(void *ctx, pid_t pid)
{
	struct search_below *s = ctx;
	struct proc_status status;

	if (!proc_status_read(pid, pid, &status) || status.depth <= s->e->intake.who.ns.depth ||
	    status.ns_id != s->inner || !forked_has(&s->e->copies, pid))
		return true;
	s->found = pid;
	return false;
}

pid_t handler_find_below(void *ctx, pid_t inner)
{
	struct search_below s = { .e = ctx, .inner = inner };

	proc_each(is_below, &s);
	return s.found;
}

struct injection handler_of_child(const struct engine *e, pid_t pid)
{
	struct injection inj = e->inj;

	inj.pid = pid;
	inj.held = NULL;
	inj.stale_base = inj.stale_size = 0;
	return inj;
}

/* Left by a watchctl that was killed before ours came: children that were forked in between have that one
 * alone. */
static void note_stale(struct engine *e)
{
	struct memory_view mem = proc_memory(&e->pid);
	struct forked *f = &e->stale_copies;
	struct wire_control c;

	if (!e->inj.stale_base || !memory_read(&mem, e->inj.stale_base + WIRE_CODE_SIZE, &c, sizeof(c)) ||
	    c.magic != WIRE_MAGIC || c.code_start != e->inj.stale_base)
		return;
	*f = (struct forked){
		.inj = e->inj, .cookie = c.cookie, .placed = c.placed, .withdrawn = e->copies.placed
	};
	f->inj.base = c.code_start;
	f->inj.size = c.mapping_size;
	f->inj.control = c.code_start + WIRE_CODE_SIZE;
	f->inj.handler = c.ours.handler;
	f->inj.stale_base = f->inj.stale_size = 0;
}

void handler_note_placed(struct engine *e)
{
	e->copies =
		(struct forked){ .inj = e->inj, .cookie = e->cookie, .has_watches = e->options.follow_fork };
	injection_read(&e->inj, offsetof(struct wire_control, placed), &e->copies.placed,
		       sizeof(e->copies.placed));
	note_stale(e);
}

static struct wc_error *handler_children_leave(struct engine *e, struct forked *f, bool kept)
{
	struct forked_report r;
	char text[64];

	if (!f->inj.base)
		return NULL;
	f->kept = kept;
	forked_leave(f, &r);
	if (r.cleared) {
		snprintf(text, sizeof(text), "handler taken out of %zu forked children", r.cleared);
		handler_say(e, text);
	}
	return forked_report_error(&r, e->pid);
}

struct wc_error *handler_leave_children(struct engine *e, bool kept)
{
	struct wc_error *err = handler_children_leave(e, &e->copies, kept);

	return wc_error_first(err, handler_children_leave(e, &e->stale_copies, kept));
}
