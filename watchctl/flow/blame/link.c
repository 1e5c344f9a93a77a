#include "watchctl/flow/blame/link.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include "watchctl/flow/blame/link_impl.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/flow/graph/flow_waits.h"

struct blame_log blame_log_of(const struct flow_graph *g, const struct seen *s)
{
	struct blame_log b = { .g = g, .seen = s, .threads = flow_graph_threads(g) };

	b.node = flow_graph_nodes(g, &b.nnodes);
	b.edge = flow_graph_edges(g, &b.nedges);
	return b;
}

bool blame_is_gone(const struct blame_log *b, uint32_t thread)
{
	return b->threads->thread[thread].gone || b->seen->thread[thread].exited;
}

bool blame_waits(const struct blame_log *b, uint32_t thread)
{
	const enum flow_state state = flow_graph_state(b->g, thread);

	return (state == FLOW_STATE_IDLE || state == FLOW_STATE_WAITS) && !blame_is_gone(b, thread) &&
	       b->seen->thread[thread].wait.ns;
}

bool blame_is_stopped(const struct blame_log *b, uint32_t thread)
{
	return blame_waits(b, thread) && (b->seen->thread[thread].wait.why & FLOW_WHY_MASK) == FLOW_STOPPED;
}

bool blame_call_sleeps(int call)
{
	return call == SYS_nanosleep || call == SYS_clock_nanosleep || call == SYS_pause ||
	       call == SYS_rt_sigsuspend;
}

bool blame_call_polls(int call)
{
	switch (call) {
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		return true;
	default:
		return false;
	}
}

/* The newest that had the number, also one that has ended. */
static uint32_t thread_of(const struct blame_log *b, uint32_t tid)
{
	return (uint32_t)(uintptr_t)id_map_get(&b->threads->last, tid) - 1;
}

static bool same_process(const struct blame_log *b, uint32_t x, uint32_t y)
{
	const int32_t pid = b->threads->thread[x].pid;

	return pid && pid == b->threads->thread[y].pid;
}

static bool is_in_call(const struct seen_call *w, int call)
{
	return (w->id == FLOW_WAIT_CALL || w->id == FLOW_WAIT_ON) && w->call == call;
}

/* A mutex, whose owner may have ended, or be of the process that this one was forked from. */
static struct blame_link owner_of(const struct blame_log *b, uint32_t thread, uint32_t owner, bool shared)
{
	struct blame_link link = { .to = owner, .how = BLAME_OWNER };
	const struct flow_thread *t = b->threads->thread;

	if (owner == FLOW_NO_THREAD || !t[owner].pid || !t[thread].pid)
		return (struct blame_link){ .to = FLOW_NO_THREAD };
	if (blame_is_gone(b, owner) || (!shared && !same_process(b, owner, thread)))
		link.nobody = true;
	return link;
}

static struct blame_link by_word(const struct blame_log *b, uint32_t thread, uint32_t tid, enum blame_how how)
{
	const struct blame_link none = { .to = FLOW_NO_THREAD };
	const uint32_t to = tid ? thread_of(b, tid) : FLOW_NO_THREAD;

	if (to == FLOW_NO_THREAD || to == thread || !same_process(b, to, thread))
		return none;
	return (struct blame_link){ .to = to, .how = (uint8_t)how, .guessed = how == BLAME_WRITER };
}

static bool is_pi(const struct seen_call *w)
{
	const uint32_t op = w->op & FUTEX_CMD_MASK;

	return op == FUTEX_LOCK_PI || op == FUTEX_LOCK_PI2;
}

static struct blame_link by_futex(const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *w = &b->seen->thread[thread].wait;
	const struct flow_event e = { .id = w->id,
				      .op = w->op,
				      .has_words = w->has_words,
				      .word = { w->word[0], w->word[1], w->word[2] } };
	const bool shared = flow_futex_is_shared(&e);
	const uint32_t owner = (uint32_t)flow_futex_owner(&e);
	struct blame_link link = { .to = FLOW_NO_THREAD };

	if (!w->has_words)
		return link;
	if (is_pi(w))
		return owner_of(b, thread, thread_of(b, w->word[0] & FUTEX_TID_MASK), shared);
	if (owner)
		link = owner_of(b, thread, thread_of(b, owner), shared);
	/* The number of a thread that libc waits for is not private to the process; a rwlock has its writer at +24, 16 behind the word for readers. */
	if (!link.how && shared && w->word[0] > 2)
		link = by_word(b, thread, w->word[0], BLAME_JOIN);
	if (!link.how && w->word[0] < 4 && !w->word[1])
		link = by_word(b, thread, w->word[2], BLAME_WRITER);
	return link;
}

/* The process's only child that lives; of several the newest one. */
static struct blame_link by_children(const struct blame_log *b, uint32_t thread)
{
	const struct flow_thread *t = b->threads->thread;
	struct blame_link link = { .to = FLOW_NO_THREAD };

	for (uint32_t i = 0; i < b->seen->n; i++) {
		if (t[i].parent != t[thread].pid || !t[thread].pid || t[i].tid != t[i].pid ||
		    blame_is_gone(b, i))
			continue;
		link.to = i;
		link.all++;
	}
	if (link.all)
		link.how = BLAME_CHILD;
	link.guessed = link.all > 1;
	return link;
}

/* vfork(2) and its like return when this child has ended, or has executed something. */
static struct blame_link by_vfork(const struct blame_log *b, uint32_t thread)
{
	struct blame_link link = { .to = FLOW_NO_THREAD };

	for (uint32_t i = 0; i < b->seen->n; i++)
		if (b->seen->thread[i].creator == thread && !blame_is_gone(b, i))
			link = (struct blame_link){ .to = i, .how = BLAME_CHILD, .all = 1 };
	return link;
}

static bool is_vfork(const struct seen_call *w)
{
	return is_in_call(w, SYS_vfork) || is_in_call(w, SYS_clone) || is_in_call(w, SYS_clone3);
}

static bool waits_for_child(const struct seen_call *w)
{
	return is_in_call(w, SYS_wait4) || is_in_call(w, SYS_waitid) || is_vfork(w);
}

static struct blame_link direct(const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *w = &b->seen->thread[thread].wait;

	if (w->id == FLOW_WAIT_FUTEX)
		return by_futex(b, thread);
	if (is_in_call(w, SYS_wait4) || is_in_call(w, SYS_waitid))
		return by_children(b, thread);
	if (is_vfork(w))
		return by_vfork(b, thread);
	if (is_in_call(w, SYS_flock))
		return blame_by_file_lock(b, thread);
	if (blame_call_polls(w->call) && w->id != FLOW_SWITCH)
		return blame_by_question(b, thread);
	if (w->id == FLOW_WAIT_ON)
		return blame_by_object(b, thread);
	return (struct blame_link){ .to = FLOW_NO_THREAD };
}

struct blame_link blame_link_of(const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *w = &b->seen->thread[thread].wait;
	struct blame_link link = { .to = FLOW_NO_THREAD };

	if (!blame_waits(b, thread) || blame_is_stopped(b, thread) || w->id == FLOW_SWITCH ||
	    blame_call_sleeps(w->call))
		return link;
	link = direct(b, thread);
	/* A child ends once. */
	if (!link.how && !waits_for_child(w))
		link = blame_until_now(b, thread);
	if (!link.how && w->id == FLOW_WAIT_ON)
		link = blame_by_heirs(b, thread);
	link.guessed |= w->ns <= b->seen->lost_ns && link.how;
	return link;
}
