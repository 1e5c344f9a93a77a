#include "watchctl/flow/graph/flow_threads.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

static uint32_t last_of(const struct flow_threads *t, int32_t tid)
{
	return (uint32_t)(uintptr_t)id_map_get(&t->last, (uint32_t)tid) - 1;
}

/* A number that is used again ends the thread that had it, even if its exit was not recorded. */
static uint32_t begin_thread(struct flow_threads *t, int32_t tid, uint64_t time_ns)
{
	const uint32_t before = last_of(t, tid);
	const struct flow_thread fresh = { .begin_ns = time_ns,
					   .end_ns = UINT64_MAX,
					   .tid = tid,
					   .before = before,
					   .name = FLOW_NO_THREAD };

	if (!vec_push(t->thread, t->n, t->cap, fresh) ||
	    !id_map_put(&t->last, (uint32_t)tid, (void *)(uintptr_t)t->n))
		return FLOW_NO_THREAD;
	if (before != FLOW_NO_THREAD) {
		if (t->thread[before].end_ns > time_ns)
			t->thread[before].end_ns = time_ns;
		t->thread[before].gone = true;
	}
	return (uint32_t)t->n - 1;
}

uint32_t flow_threads_now(struct flow_threads *t, int32_t tid, uint64_t time_ns)
{
	const uint32_t i = last_of(t, tid);

	return i != FLOW_NO_THREAD && !t->thread[i].gone ? i : begin_thread(t, tid, time_ns);
}

uint32_t flow_threads_at(const struct flow_threads *t, int32_t tid, uint64_t time_ns)
{
	uint32_t i = last_of(t, tid);

	while (i != FLOW_NO_THREAD && t->thread[i].begin_ns > time_ns)
		i = t->thread[i].before;
	return i != FLOW_NO_THREAD && time_ns <= t->thread[i].end_ns ? i : FLOW_NO_THREAD;
}

static bool add_name(struct flow_threads *t, uint32_t i, const struct flow_event *e)
{
	struct flow_thread_name name = { .time_ns = e->time_ns, .before = t->thread[i].name };

	if (name.before != FLOW_NO_THREAD && !strcmp(t->name[name.before].comm, e->comm))
		return true;
	memcpy(name.comm, e->comm, sizeof(name.comm));
	if (!vec_push(t->name, t->nnames, t->names_cap, name))
		return false;
	t->thread[i].name = (uint32_t)t->nnames - 1;
	return true;
}

static bool take_name(struct flow_threads *t, const struct flow_event *e)
{
	uint32_t i = flow_threads_now(t, e->other, e->time_ns);

	/* Another process by this number: the exit of the first one is missing. */
	if (i != FLOW_NO_THREAD && t->thread[i].pid && t->thread[i].pid != e->pid)
		i = begin_thread(t, e->other, e->time_ns);
	if (i == FLOW_NO_THREAD)
		return false;
	t->thread[i].pid = e->pid;
	t->thread[i].parent = e->parent;
	return add_name(t, i, e);
}

/* A thread other than the first one takes over the number of its process when it executes a program. */
static bool take_exec(struct flow_threads *t, const struct flow_event *e)
{
	uint32_t old, i;

	if (e->other == e->tid)
		return true;
	old = flow_threads_now(t, e->other, e->time_ns);
	i = begin_thread(t, e->tid, e->time_ns);
	if (old == FLOW_NO_THREAD || i == FLOW_NO_THREAD)
		return false;
	t->thread[i].pid = t->thread[old].pid;
	t->thread[i].parent = t->thread[old].parent;
	t->thread[old].end_ns = e->time_ns;
	t->thread[old].gone = true;
	return true;
}

static bool take_end(struct flow_threads *t, const struct flow_event *e, bool gone)
{
	const uint32_t i = flow_threads_now(t, e->tid, e->time_ns);

	if (i == FLOW_NO_THREAD)
		return false;
	t->thread[i].end_ns = e->time_ns;
	t->thread[i].gone = gone;
	return true;
}

bool flow_threads_feed(struct flow_threads *t, const struct flow_event *e)
{
	switch (e->id) {
	case FLOW_NAME:
		return take_name(t, e);
	case FLOW_FORK:
		return begin_thread(t, e->other, e->time_ns) != FLOW_NO_THREAD;
	case FLOW_EXEC:
		return e->tid <= 0 || take_exec(t, e);
	case FLOW_EXIT:
		return e->tid <= 0 || take_end(t, e, false);
	case FLOW_SWITCH:
	case FLOW_WAIT_CALL:
		return e->tid <= 0 || (e->why & FLOW_WHY_MASK) != FLOW_DEAD || take_end(t, e, true);
	default:
		return true;
	}
}

uint32_t flow_threads_name(const struct flow_threads *t, uint32_t i, uint64_t time_ns)
{
	uint32_t name = t->thread[i].name;

	while (name != FLOW_NO_THREAD && t->name[name].time_ns > time_ns &&
	       t->name[name].before != FLOW_NO_THREAD)
		name = t->name[name].before;
	return name;
}

const char *flow_threads_comm(const struct flow_threads *t, uint32_t i, uint64_t time_ns)
{
	const uint32_t name = flow_threads_name(t, i, time_ns);

	return name == FLOW_NO_THREAD ? "" : t->name[name].comm;
}

/* @s is a number all through. */
static bool is_number(const char *s, int32_t *ret)
{
	char *end;
	const long v = strtol(s, &end, 10);

	if (*s < '0' || *s > '9' || *end || v > INT32_MAX)
		return false;
	*ret = (int32_t)v;
	return true;
}

bool flow_threads_match(const struct flow_threads *t, uint32_t i, const char *who, uint64_t time_ns)
{
	const struct flow_thread *x = &t->thread[i];
	const char *comm = flow_threads_comm(t, i, time_ns), *slash = strrchr(who, '/');
	int32_t number;

	/* Kernel threads have a '/' in their names: "kworker/0:1". */
	if (!strcmp(comm, who) || (is_number(who, &number) && (x->tid == number || x->pid == number)))
		return true;
	return slash && is_number(slash + 1, &number) && (x->tid == number || x->pid == number) &&
	       strlen(comm) == (size_t)(slash - who) && !memcmp(comm, who, (size_t)(slash - who));
}

void flow_threads_deinit(struct flow_threads *t)
{
	free(t->thread);
	free(t->name);
	id_map_deinit(&t->last);
	*t = (struct flow_threads){ 0 };
}
