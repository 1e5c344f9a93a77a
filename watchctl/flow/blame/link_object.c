/* The other end of a pipe or socket, and whose it is: as far as it was used, or made, while events were recorded. */
#include <stddef.h>
#include <sys/syscall.h>

#include "watchctl/flow/blame/link_impl.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/flow/graph/flow_waits.h"

struct end {
	uint32_t object; /* 0: not known */
	uint8_t kind;
	bool is_same; /* both ends have one number: uses tell the direction */
};

static struct end other_end(const struct blame_log *b, int kind, uint32_t object)
{
	switch (kind) {
	case FLOW_KIND_PIPE:
	case FLOW_KIND_EVENTFD:
	case FLOW_KIND_SEMAPHORE:
		return (struct end){ object, (uint8_t)kind, true };
	case FLOW_KIND_UNIX:
	case FLOW_KIND_INET:
		return (struct end){ flow_graph_peer(b->g, kind, object), (uint8_t)kind, false };
	case FLOW_KIND_PTY:
		return (struct end){ object, FLOW_KIND_PTY_MASTER, false };
	case FLOW_KIND_PTY_MASTER:
		return (struct end){ object, FLOW_KIND_PTY, false };
	default:
		return (struct end){ 0, 0, false };
	}
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* When the thread has last used the end that the one that waits does not have; 0: never. */
static uint64_t used_ns(const struct seen_use *u, const struct end *end, bool waiter_gives)
{
	if (end->is_same)
		return waiter_gives ? u->took_ns : u->gave_ns;
	return later(later(u->gave_ns, u->took_ns), later(u->waited_ns, u->made_ns));
}

/* Of those that live the last one, else of those that are gone. */
static uint32_t last_user(const struct blame_log *b, uint32_t thread, const struct end *end,
			  bool waiter_gives)
{
	uint32_t best = FLOW_NO_THREAD;
	uint64_t best_ns = 0;
	bool best_lives = false;

	if (!end->object)
		return best;
	for (uint32_t i = seen_uses(b->seen, end->kind, end->object); i != FLOW_NONE;
	     i = b->seen->use[i].next_of_object) {
		const struct seen_use *u = &b->seen->use[i];
		const uint64_t ns = used_ns(u, end, waiter_gives);
		const bool lives = !blame_is_gone(b, u->thread);

		if (!ns || u->thread == thread || (best_lives && !lives) ||
		    (best_lives == lives && ns < best_ns))
			continue;
		best = u->thread;
		best_ns = ns;
		best_lives = lives;
	}
	return best;
}

static struct blame_link link_to(uint32_t to, enum blame_how how, bool guessed)
{
	if (to == FLOW_NO_THREAD)
		return (struct blame_link){ .to = to };
	return (struct blame_link){ .to = to, .how = (uint8_t)how, .guessed = guessed };
}

/* Was @x made, over however many forks, by a process with @pid, after @ns? */
static bool descends(const struct blame_log *b, uint32_t x, int32_t pid, uint64_t ns)
{
	for (uint32_t by = b->seen->thread[x].creator; by != FLOW_NO_THREAD;
	     by = b->seen->thread[x].creator) {
		if (b->threads->thread[by].pid == pid)
			return b->threads->thread[x].begin_ns >= ns;
		x = by;
	}
	return false;
}

/* The newest process that may have inherited what @from has had since @ns; not that of @thread. */
static uint32_t newest_heir(const struct blame_log *b, uint32_t thread, uint32_t from, uint64_t ns)
{
	const struct flow_thread *t = b->threads->thread;

	if (!t[from].pid)
		return FLOW_NO_THREAD;
	for (uint32_t i = (uint32_t)b->seen->n; i-- > 0;)
		if (t[i].tid == t[i].pid && t[i].pid != t[thread].pid && !blame_is_gone(b, i) &&
		    descends(b, i, t[from].pid, ns))
			return i;
	return FLOW_NO_THREAD;
}

struct blame_link blame_by_object(const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *w = &b->seen->thread[thread].wait;
	const struct end end = other_end(b, w->kind, w->object);
	const uint32_t to = last_user(b, thread, &end, flow_call_sends(w->call));
	uint32_t heir;

	/* If nobody had it any more, the wait would have ended. */
	if (to != FLOW_NO_THREAD && blame_is_gone(b, to)) {
		heir = newest_heir(b, thread, to, 0);
		if (heir != FLOW_NO_THREAD)
			return link_to(heir, BLAME_HEIR, true);
	}
	return link_to(to, BLAME_OTHER_END, false);
}

/* Of those that it was made by: themselves, or a process that they made since. */
struct blame_link blame_by_heirs(const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *w = &b->seen->thread[thread].wait;
	const struct flow_thread *t = b->threads->thread;

	for (uint32_t i = seen_uses(b->seen, w->kind, w->object); i != FLOW_NONE;
	     i = b->seen->use[i].next_of_object) {
		const struct seen_use *u = &b->seen->use[i];
		uint32_t to;

		if (!u->made_ns)
			continue;
		if (t[u->thread].pid != t[thread].pid && !blame_is_gone(b, u->thread))
			return link_to(u->thread, BLAME_HEIR, true);
		to = newest_heir(b, thread, u->thread, u->made_ns);
		if (to != FLOW_NO_THREAD)
			return link_to(to, BLAME_HEIR, true);
	}
	return link_to(FLOW_NO_THREAD, BLAME_UNKNOWN, false);
}

struct blame_link blame_by_file_lock(const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *w = &b->seen->thread[thread].wait;
	uint32_t best = FLOW_NO_THREAD, heir;
	uint64_t best_ns = 0;

	for (uint32_t i = seen_uses(b->seen, w->kind, w->object); i != FLOW_NONE;
	     i = b->seen->use[i].next_of_object) {
		const struct seen_use *u = &b->seen->use[i];

		if (u->thread == thread || u->locked_ns <= best_ns)
			continue;
		best = u->thread;
		best_ns = u->locked_ns;
	}
	if (best == FLOW_NO_THREAD || !blame_is_gone(b, best))
		return link_to(best, BLAME_FILE_LOCK, true);
	heir = newest_heir(b, thread, best, 0);
	return heir == FLOW_NO_THREAD ? link_to(best, BLAME_FILE_LOCK, true)
				      : link_to(heir, BLAME_HEIR, true);
}

/* Through which an answer comes back; a pipe has one direction. */
static bool goes_both_ways(int kind)
{
	return kind == FLOW_KIND_UNIX || kind == FLOW_KIND_INET || kind == FLOW_KIND_PTY ||
	       kind == FLOW_KIND_PTY_MASTER;
}

/* An event loop's wait names no object: it is for the answer to what it has sent last, if there was none yet. */
struct blame_link blame_by_question(const struct blame_log *b, uint32_t thread)
{
	const struct seen_use *asked = NULL;
	struct blame_link link;
	struct end end;

	for (uint32_t i = b->seen->thread[thread].first_use; i != FLOW_NONE;
	     i = b->seen->use[i].next_of_thread) {
		const struct seen_use *u = &b->seen->use[i];

		if (goes_both_ways(u->kind) && (!asked || u->gave_ns > asked->gave_ns))
			asked = u;
	}
	if (!asked || !asked->gave_ns || asked->took_ns > asked->gave_ns)
		return link_to(FLOW_NO_THREAD, BLAME_UNKNOWN, false);
	end = other_end(b, asked->kind, asked->object);
	link = link_to(last_user(b, thread, &end, true), BLAME_ASKED, true);
	link.object = asked->object;
	link.kind = asked->kind;
	return link;
}
