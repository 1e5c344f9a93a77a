#include "watchctl/view/event/step_track.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"

/* A stack of callers is no longer than that, however deep calls nest: the innermost ones are reported. */
#define FRAMES_MAX 512

/* The addresses that a call adds to its parent's stack. */
struct own_frames {
	size_t at;
	uint32_t n;
	uint8_t walk_end;
};

struct step_thread {
	struct view_open_call *open;
	struct own_frames *own; /* of each */
	size_t n, open_cap, own_cap;
	uint64_t *address;
	size_t naddresses, address_cap;
};

static uint64_t key_of(int32_t pid, int32_t tid)
{
	return (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
}

static struct step_thread *thread_of(struct step_track *t, int32_t pid, int32_t tid)
{
	struct step_thread *th = map64_get(&t->threads, key_of(pid, tid));

	if (th)
		return th;
	th = calloc(1, sizeof(*th));
	if (!th || !map64_put(&t->threads, key_of(pid, tid), th)) {
		free(th);
		return NULL;
	}
	return th;
}

/* Those from @n on are over. */
static void cut(struct step_thread *th, size_t n)
{
	if (n < th->n)
		th->naddresses = th->own[n].at;
	th->n = n;
}

/* How many open calls have a number below @call: they count up, from the outermost one inwards. */
static size_t count_below(const struct step_thread *th, uint64_t call)
{
	size_t low = BISECT(th->n, i, th->open[i].call < call);
	return low;
}

/* How many calls are open up to and including @call; 0: it is not. */
static size_t position(const struct step_thread *th, uint64_t call)
{
	size_t n = count_below(th, call);

	return n < th->n && th->open[n].call == call ? n + 1 : 0;
}

const struct view_open_call *step_track_enter(struct step_track *t, const struct call_event *e,
					      const struct view_function *f, uint64_t time_ns)
{
	struct step_thread *th = thread_of(t, e->pid, e->tid);
	struct own_frames own = { .n = e->nframes, .walk_end = e->walk_end };
	size_t parent;

	if (!th)
		return NULL;
	parent = e->parent ? position(th, e->parent) : 0;
	/* Of a damaged log, or the rest of one: who called is missing, and so are the frames from there on. */
	if (e->parent && !parent && own.walk_end == WALK_END_COMPLETE)
		own.walk_end = WALK_END_LOST;
	/* What the log has no end of: a recording that lost events. */
	cut(th, parent);
	cut(th, count_below(th, e->call));
	own.at = th->naddresses;
	if (!vec_reserve((void **)&th->open, &th->open_cap, th->n + 1, sizeof(*th->open)) ||
	    !vec_reserve((void **)&th->own, &th->own_cap, th->n + 1, sizeof(*th->own)) ||
	    !vec_reserve((void **)&th->address, &th->address_cap, th->naddresses + own.n,
			 sizeof(*th->address)))
		return NULL;
	if (own.n)
		memcpy(th->address + own.at, e->frame, own.n * sizeof(*e->frame));
	th->naddresses += own.n;
	th->own[th->n] = own;
	th->open[th->n] = (struct view_open_call){ .call = e->call,
						   .parent = e->parent,
						   .time_ns = time_ns,
						   .function = f,
						   .depth = th->n ? th->open[th->n - 1].depth + 1 : e->depth,
						   .flags = e->flags };
	return &th->open[th->n++];
}

bool step_track_stack(struct step_track *t, const struct call_event *e, const uint64_t **ret, uint32_t *n,
		      enum walk_end *end)
{
	const struct step_thread *th = map64_get(&t->threads, key_of(e->pid, e->tid));
	uint32_t used = 0, skip = 0;
	size_t i = th ? th->n : 0;

	if (!vec_reserve((void **)&t->stack, &t->stack_cap, FRAMES_MAX, sizeof(*t->stack)))
		return false;
	*end = (enum walk_end)e->walk_end;
	while (i-- && used < FRAMES_MAX) {
		const struct own_frames *own = &th->own[i];
		uint32_t count = own->n > skip ? own->n - skip : 0;

		if (count > FRAMES_MAX - used)
			count = FRAMES_MAX - used;
		if (count)
			memcpy(t->stack + used, th->address + own->at + skip, count * sizeof(*t->stack));
		used += count;
		/* A tail call that has frames of its own has those that it took over from its parent. */
		skip = th->open[i].flags & CALL_TAIL && own->n ? 1 : 0;
		*end = (enum walk_end)own->walk_end;
		/* What lies between it and its parent is not known. */
		if (own->walk_end != WALK_END_COMPLETE)
			break;
	}
	if (used == FRAMES_MAX)
		*end = WALK_END_DEPTH;
	*ret = t->stack;
	*n = used;
	return true;
}

const struct view_open_call *step_track_find(const struct step_track *t, int32_t pid, int32_t tid,
					     uint64_t call)
{
	const struct step_thread *th = map64_get(&t->threads, key_of(pid, tid));
	size_t n = th ? position(th, call) : 0;

	return n ? &th->open[n - 1] : NULL;
}

void step_track_leave(struct step_track *t, int32_t pid, int32_t tid, uint64_t call, uint64_t duration_ns)
{
	struct step_thread *th = map64_get(&t->threads, key_of(pid, tid));
	size_t n = th ? position(th, call) : 0;

	if (n > 1)
		th->open[n - 2].inside_ns += duration_ns;
	if (n)
		cut(th, n - 1);
}

const struct view_open_call *step_track_open(const struct step_track *t, int32_t pid, int32_t tid,
					     uint64_t call, size_t *n)
{
	const struct step_thread *th = map64_get(&t->threads, key_of(pid, tid));

	*n = !th ? 0 : call ? position(th, call) : th->n;
	return th ? th->open : NULL;
}

void step_track_deinit(struct step_track *t)
{
	size_t i;

	for (i = 0; i < t->threads.cap; i++) {
		struct step_thread *th = t->threads.slot[i].used ? t->threads.slot[i].value : NULL;

		if (!th)
			continue;
		free(th->open);
		free(th->own);
		free(th->address);
		free(th);
	}
	map64_deinit(&t->threads);
	free(t->stack);
	*t = (struct step_track){ 0 };
}
