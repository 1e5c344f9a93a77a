#include "watchctl/monitor/slots/slots_children.h"

#include <asm/param.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/task.h"
#include "watchctl/target/inject/forked.h"
#include "watchctl/target/inject/inject.h"
#include "watchctl/target/proc/proc.h"

#define FORK_NO_EXEC 0x40u /* PF_FORKNOEXEC of include/linux/sched.h */
#define FAMILIES 256u	   /* more than can stand in front of each other */

/* Whoever was made after the last sign of life may have been made while the handler was taken out. */
static uint64_t ticks_of(uint64_t heartbeat)
{
	const uint64_t per_tick = 1000000000u / HZ;
	uint64_t ago = (monotonic_ns() - heartbeat) / per_tick, now = task_ticks_now();

	return heartbeat && ago < now ? now - ago : 0;
}

static struct forked family_of(pid_t parent, const struct placed *p)
{
	const struct wire_control *c = p->control;
	struct forked f = { .cookie = c->cookie,
			    .placed = c->placed,
			    .withdrawn = ticks_of(c->heartbeat),
			    .has_watches = c->flags & WIRE_CHILDREN };

	inject_adopt(parent, p, &f.inj);
	return f;
}

struct wc_error *slots_clear_child(pid_t pid, const struct placed *p)
{
	struct forked f = family_of(0, p);
	struct thread_ids sharers;
	struct wc_error *err;

	proc_sharers(pid, &sharers);
	err = forked_leave_one(&f, pid, &sharers);
	thread_ids_deinit(&sharers);
	return err;
}

struct search {
	pid_t pid, inner;
	uint64_t done[FAMILIES]; /* their cookies */
	unsigned int ndone;
	struct placed found; /* control NULL: none; a copy that is ours to free */
};

static bool is_done(const struct search *s, uint64_t cookie)
{
	unsigned int i;

	for (i = 0; i < s->ndone; i++)
		if (s->done[i] == cookie)
			return true;
	return false;
}

static bool has_executed_nothing(pid_t pid)
{
	char text[1024];
	unsigned int flags;
	const char *stat = task_stat(pid, pid, text, sizeof(text));

	return stat && sscanf(stat, "%*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & FORK_NO_EXEC;
}

/* One whose controller lives is not ours to touch. */
static bool look_at(void *ctx, pid_t pid)
{
	struct search *s = ctx;
	struct placed_list l = { 0 };
	size_t i;

	if (pid == s->pid || !has_executed_nothing(pid))
		return true;
	wc_error_free(placed_find(pid, &l));
	for (i = 0; i < l.n && !s->found.control; i++) {
		const struct wire_control *c = l.v[i].control;

		if (!c || c->target_pid != s->inner || is_done(s, c->cookie) ||
		    placed_owner_wait(pid, &l.v[i], NULL) == PLACED_OWNED)
			continue;
		s->found = l.v[i];
		l.v[i].control = NULL;
	}
	placed_list_deinit(&l);
	return !s->found.control;
}

struct wc_error *slots_clear_children(pid_t pid, void (*report)(void *ctx, const struct slots_freed *f),
				      void *ctx)
{
	struct search s = { .pid = pid, .inner = pid };
	struct wc_error *err = NULL;
	struct proc_status status;

	if (proc_status_read(pid, pid, &status))
		s.inner = status.ns_id;
	for (; s.ndone < FAMILIES; s.ndone++) {
		struct slots_freed freed = { .kind = SLOTS_FREED_CHILDREN };
		struct forked_report r;
		struct forked f;

		proc_each(look_at, &s);
		if (!s.found.control)
			break;
		f = family_of(pid, &s.found);
		f.kept = forked_has(&f, pid);
		forked_leave(&f, &r);
		freed.owner = s.found.control->owner_pid;
		freed.processes = r.cleared;
		if (r.cleared && report)
			report(ctx, &freed);
		err = wc_error_first(err, forked_report_error(&r, pid));
		s.done[s.ndone] = s.found.control->cookie;
		free(s.found.control);
		s.found.control = NULL;
	}
	return err;
}
