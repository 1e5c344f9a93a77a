#include "watchctl/flow/blame/seen.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "watchctl/base/vec.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/flow/graph/flow_waits.h"

#define THREAD_SHIFT 36 /* of a key: below are kind and object */

static bool grow(struct seen *s, size_t n)
{
	const struct seen_thread fresh = { .creator = FLOW_NO_THREAD,
					   .stopper = FLOW_NO_THREAD,
					   .first_use = FLOW_NONE,
					   .last_node = FLOW_NONE };

	while (s->n < n && !s->starved)
		s->starved |= !vec_push(s->thread, s->n, s->cap, fresh);
	return !s->starved;
}

/* The thread that @tid is at @ns; NULL: none that is known. */
static struct seen_thread *thread_of(struct seen *s, const struct flow_graph *g, int32_t tid, uint64_t ns,
				     uint32_t *number)
{
	const uint32_t i = tid > 0 ? flow_threads_at(flow_graph_threads(g), tid, ns) : FLOW_NO_THREAD;

	if (i == FLOW_NO_THREAD || i >= s->n)
		return NULL;
	if (number)
		*number = i;
	return &s->thread[i];
}

static uint64_t object_key(int kind, uint32_t object)
{
	return (uint64_t)kind << 32 | object;
}

static uint32_t look_up(const struct map64 *m, uint64_t key)
{
	return (uint32_t)(uintptr_t)map64_get(m, key) - 1;
}

static bool keep(struct map64 *m, uint64_t key, uint32_t i)
{
	return map64_put(m, key, (void *)((uintptr_t)i + 1));
}

uint32_t seen_uses(const struct seen *s, int kind, uint32_t object)
{
	return look_up(&s->by_object, object_key(kind, object));
}

static struct seen_use *add_use(struct seen *s, uint32_t thread, int kind, uint32_t object)
{
	const uint64_t key = object_key(kind, object);
	const struct seen_use fresh = { .thread = thread,
					.object = object,
					.kind = (uint8_t)kind,
					.next_of_object = look_up(&s->by_object, key),
					.next_of_thread = s->thread[thread].first_use };

	if (!vec_push(s->use, s->nuses, s->uses_cap, fresh))
		return NULL;
	s->thread[thread].first_use = (uint32_t)s->nuses - 1;
	if (!keep(&s->by_object, key, (uint32_t)s->nuses - 1) ||
	    !keep(&s->by_thread, (uint64_t)thread << THREAD_SHIFT | key, (uint32_t)s->nuses - 1))
		return NULL;
	return &s->use[s->nuses - 1];
}

/* Of @e's object; NULL: it has none, or there is no memory. */
static struct seen_use *use_of(struct seen *s, uint32_t thread, const struct flow_event *e)
{
	const uint64_t key = (uint64_t)thread << THREAD_SHIFT | object_key(e->kind, e->object);
	uint32_t i;
	struct seen_use *u;

	if (!e->object)
		return NULL;
	i = look_up(&s->by_thread, key);
	if (i != FLOW_NONE)
		return &s->use[i];
	u = add_use(s, thread, e->kind, e->object);
	s->starved |= !u;
	return u;
}

static struct seen_call call_of(const struct flow_event *e)
{
	return (struct seen_call){ .ns = e->time_ns,
				   .address = e->address,
				   .result = e->result,
				   .op = e->op,
				   .object = e->object,
				   .word = { e->word[0], e->word[1], e->word[2] },
				   .call = e->call,
				   .id = (uint8_t)e->id,
				   .why = e->why,
				   .kind = e->kind,
				   .has_words = e->has_words };
}

/* A call with a time limit that a signal interrupted goes on under another name: it is the same wait. */
static bool goes_on(const struct seen_thread *t, const struct flow_event *e)
{
	return e->id == FLOW_WAIT_CALL && e->call == SYS_restart_syscall && t->wait.ns > t->last.ns;
}

static bool stops(const struct flow_event *e)
{
	return (e->why & FLOW_WHY_MASK) == FLOW_STOPPED;
}

static void leave(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	uint32_t i;
	struct seen_thread *t = thread_of(s, g, e->tid, e->time_ns, &i);
	struct seen_use *u;

	if (!t)
		return;
	if (t->on_cpu_ns)
		t->cpu_ns += e->time_ns - t->on_cpu_ns;
	t->on_cpu_ns = 0;
	if ((e->why & FLOW_WHY_MASK) < FLOW_SLEEPS || (e->why & FLOW_WHY_MASK) == FLOW_DEAD)
		return;
	if (goes_on(t, e)) {
		t->wait.why = e->why;
		return;
	}
	if (stops(e)) { /* what it waited for before is what it goes back to */
		const struct seen_call was = t->wait;

		t->wait = was.ns > t->last.ns ? was : call_of(e);
		t->wait.why = e->why;
		return;
	}
	t->wait = call_of(e);
	u = e->id == FLOW_WAIT_ON ? use_of(s, i, e) : NULL;
	if (u)
		u->waited_ns = e->time_ns;
}

static void enter(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	struct seen_thread *t = thread_of(s, g, e->other, e->time_ns, NULL);

	if (!t)
		return;
	t->on_cpu_ns = e->time_ns;
	if (!t->woken_ns)
		t->woken_ns = e->time_ns;
}

static void wake(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	struct seen_thread *t = thread_of(s, g, e->other, e->time_ns, NULL);

	if (!t || t->on_cpu_ns)
		return;
	t->woken_ns = e->time_ns;
	t->cpu_ns = 0;
}

static void take_return(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	uint32_t i;
	struct seen_thread *t = thread_of(s, g, e->tid, e->time_ns, &i);
	struct seen_use *u;

	if (!t)
		return;
	t->last = call_of(e);
	if (e->id != FLOW_CALL_ON || e->result < 0)
		return;
	u = use_of(s, i, e);
	if (!u)
		return;
	if (flow_call_receives(e->call))
		u->took_ns = e->time_ns;
	else if (e->call == SYS_flock)
		u->locked_ns = e->time_ns;
	else if (flow_call_sends(e->call))
		u->gave_ns = e->time_ns;
}

static void take_socket(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	uint32_t i;
	struct seen_use *u;

	if (e->cpu == FLOW_CPU_NAMES || !thread_of(s, g, e->tid, e->time_ns, &i))
		return;
	u = use_of(s, i, e);
	if (u && !u->made_ns)
		u->made_ns = e->time_ns;
}

static void take_fork(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	struct seen_thread *t = thread_of(s, g, e->other, e->time_ns, NULL);
	uint32_t by;

	if (!t)
		return;
	t->woken_ns = e->time_ns;
	if (thread_of(s, g, e->tid, e->time_ns, &by))
		t->creator = by;
}

static void take_exit(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	struct seen_thread *t = thread_of(s, g, e->tid, e->time_ns, NULL);

	if (!t)
		return;
	t->exited = true;
	t->status = (int32_t)e->result;
}

static void take_signal(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	struct seen_thread *t = thread_of(s, g, e->other, e->time_ns, NULL);
	uint32_t by;

	if (t && e->why == FLOW_BY_THREAD && thread_of(s, g, e->tid, e->time_ns, &by) &&
	    (e->op == SIGSTOP || e->op == SIGTSTP || e->op == SIGTTIN || e->op == SIGTTOU))
		t->stopper = by;
}

static void feed(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	switch (e->id) {
	case FLOW_SWITCH:
	case FLOW_WAIT_CALL:
	case FLOW_WAIT_ON:
	case FLOW_WAIT_FUTEX:
		leave(s, g, e);
		enter(s, g, e);
		break;
	case FLOW_WAKING:
		wake(s, g, e);
		break;
	case FLOW_CALL:
	case FLOW_CALL_ON:
	case FLOW_CALL_FUTEX:
		take_return(s, g, e);
		break;
	case FLOW_SOCKET:
		take_socket(s, g, e);
		break;
	case FLOW_FORK:
		take_fork(s, g, e);
		break;
	case FLOW_EXIT:
		take_exit(s, g, e);
		break;
	case FLOW_SIGNAL:
		take_signal(s, g, e);
		break;
	case FLOW_LOST:
		s->lost_ns = e->time_ns;
		break;
	default:
		break;
	}
}

struct wc_error *seen_feed(struct seen *s, const struct flow_graph *g, const struct flow_event *e)
{
	if (!grow(s, flow_graph_threads(g)->n))
		return &wc_enomem;
	if (e->cpu != FLOW_CPU_NAMES) {
		if (!s->first_ns)
			s->first_ns = e->time_ns;
		s->end_ns = e->time_ns;
	}
	feed(s, g, e);
	return s->starved ? &wc_enomem : NULL;
}

struct wc_error *seen_end(struct seen *s, const struct flow_graph *g)
{
	size_t n;
	const struct flow_node *node = flow_graph_nodes(g, &n);

	if (!grow(s, flow_graph_threads(g)->n))
		return &wc_enomem;
	for (size_t i = 0; i < n; i++)
		s->thread[node[i].thread].last_node = (uint32_t)i;
	for (size_t i = 0; i < s->n; i++)
		if (s->thread[i].on_cpu_ns)
			s->thread[i].cpu_ns += s->end_ns - s->thread[i].on_cpu_ns;
	return NULL;
}

void seen_deinit(struct seen *s)
{
	free(s->thread);
	free(s->use);
	map64_deinit(&s->by_thread);
	map64_deinit(&s->by_object);
	*s = (struct seen){ 0 };
}
