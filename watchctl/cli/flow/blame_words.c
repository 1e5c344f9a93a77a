#include "watchctl/cli/flow/blame_words.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>

#include "watchctl/base/words/plural.h"
#include "watchctl/cli/flow/explain_words.h"
#include "watchctl/cli/flow/graph/flow_graph_words.h"
#include "watchctl/cli/flow/graph/flow_stack_words.h"
#include "watchctl/flow/blame/link.h"
#include "watchctl/flow/explain/wait.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/view/words/view_words.h"

static void put_time(struct text_buf *t, uint64_t ns)
{
	char text[32];

	text_duration(ns, text, sizeof(text));
	text_buf_add(t, text);
}

void blame_put_who(struct text_buf *t, const struct blame_log *b, uint32_t thread)
{
	const char *comm = flow_threads_comm(b->threads, thread, b->seen->end_ns);

	for (const char *p = *comm ? comm : "?"; *p; p++)
		text_buf_char(t, (unsigned char)*p < ' ' || *p == 127 ? '?' : *p);
	text_buf_printf(t, "/%d", b->threads->thread[thread].tid);
}

/* The words of edges say what a call is about. */
static void put_call(struct text_buf *t, const struct seen_call *c, uint8_t flags)
{
	const struct flow_edge e = {
		.kind = FLOW_EDGE_WAIT_FOR,
		.flags = flags,
		.has_call = c->id != FLOW_SWITCH,
		.call = c->call,
		.object = c->object,
		.object_kind = c->kind,
		.address = c->address,
	};
	char words[FLOW_WORDS];

	flow_edge_words(NULL, &e, words); /* of a wait nothing else of the log is needed */
	text_buf_add(t, words);
}

void blame_put_wait(struct text_buf *t, const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *w = &b->seen->thread[thread].wait;
	const struct blame_link link = blame_link_of(b, thread);
	uint8_t flags = link.how == BLAME_OWNER || link.how == BLAME_WRITER ? FLOW_EDGE_OWNER : 0;

	if ((w->why & FLOW_WHY_MASK) == FLOW_BLOCKED)
		flags |= FLOW_EDGE_BLOCKED;
	put_call(t, w, flags | (w->why & FLOW_WHY_FAULT ? FLOW_EDGE_FAULT : 0));
}

void blame_put_last(struct text_buf *t, const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *c = &b->seen->thread[thread].last;

	if (!c->ns)
		return;
	text_buf_add(t, "; the last call of it that returned was ");
	put_call(t, c, 0);
	text_buf_add(t, ", ");
	put_time(t, b->seen->end_ns - c->ns);
	text_buf_add(t, " before the end");
}

const struct flow_wait_stack *blame_stack(const struct blame_log *b, const struct flow_wait_stacks *stacks,
					  uint32_t thread)
{
	if (!blame_waits(b, thread))
		return NULL;
	return flow_wait_stack_of(stacks, b->threads->thread[thread].tid, b->seen->thread[thread].wait.ns,
				  b->seen->end_ns);
}

void blame_put_function(struct text_buf *t, const struct flow_wait_stack *stack)
{
	char function[200];

	if (flow_stack_function(stack, function, sizeof(function)))
		text_buf_printf(t, " (in %s)", function);
}

/* "lock 0x7f.. (in take_order)" */
static void put_place(struct text_buf *t, const struct blame_log *b, const struct flow_wait_stacks *stacks,
		      uint32_t thread)
{
	blame_put_wait(t, b, thread);
	blame_put_function(t, blame_stack(b, stacks, thread));
}

/* "lock 0x7f.. (in take_order) for 2.31 s" */
static void put_waiting(struct text_buf *t, const struct blame_log *b, const struct flow_wait_stacks *stacks,
			uint32_t thread)
{
	put_place(t, b, stacks, thread);
	text_buf_add(t, " for ");
	put_time(t, b->seen->end_ns - b->seen->thread[thread].wait.ns);
}

static void put_end(struct text_buf *t, const struct blame_log *b, uint32_t thread)
{
	const struct seen_thread *s = &b->seen->thread[thread];

	if (!s->exited)
		text_buf_add(t, "has ended");
	else if (WIFSIGNALED(s->status))
		text_buf_printf(t, "died by signal %d", WTERMSIG(s->status));
	else
		text_buf_printf(t, "has exited with status %d", WEXITSTATUS(s->status));
}

static void put_stop(struct text_buf *t, const struct blame_log *b, uint32_t thread)
{
	const uint32_t by = b->seen->thread[thread].stopper;

	text_buf_add(t, "is stopped");
	if (by == FLOW_NO_THREAD)
		return;
	text_buf_add(t, ", by a signal of ");
	blame_put_who(t, b, by);
}

static void put_nobody(struct text_buf *t, const struct blame *b, const struct flow_wait_stacks *stacks,
		       uint32_t thread)
{
	const uint32_t owner = b->link[thread].to;

	text_buf_add(t, "waits for ");
	put_waiting(t, &b->log, stacks, thread);
	text_buf_add(t, ", which ");
	blame_put_who(t, &b->log, owner);
	if (blame_is_gone(&b->log, owner))
		text_buf_add(t, " had when it ended: nobody will give it back");
	else
		text_buf_add(t, " of another process had when this one was forked: nobody will give it back");
}

static void put_unknown(struct text_buf *t, const struct blame *b, const struct flow_wait_stacks *stacks,
			const struct blamed *c)
{
	text_buf_add(t, c->verdict == VERDICT_IDLE ? "waits for work, in " : "waits in ");
	put_waiting(t, &b->log, stacks, c->who);
	if (c->verdict == VERDICT_OUTSIDE)
		text_buf_add(t, ": the other end is none that was recorded");
	else if (c->verdict == VERDICT_WAITS)
		text_buf_add(t, ": who would end that is not known");
	blame_put_last(t, &b->log, c->who);
}

static void put_circle(struct text_buf *t, const struct blame *b, const struct flow_wait_stacks *stacks,
		       const struct blamed *c)
{
	const size_t n = c->npath - c->circle;

	if (n == 1) {
		text_buf_add(t, "waits for ");
		put_place(t, &b->log, stacks, c->who);
		text_buf_add(t, ", which it has itself");
		return;
	}
	text_buf_printf(t, "is in a circle of %zu threads, each of which waits for the next", n);
	for (size_t i = c->circle; i < c->npath; i++) {
		text_buf_add(t, i == c->circle ? ": " : " -> ");
		blame_put_who(t, &b->log, c->path[i]);
	}
	text_buf_add(t, " -> ");
	blame_put_who(t, &b->log, c->who);
}

void blame_put_state(struct text_buf *t, const struct blame *b, const struct flow_wait_stacks *stacks,
		     const struct blamed *c)
{
	switch (c->verdict) {
	case VERDICT_DEADLOCK:
	case VERDICT_LIKELY_DEADLOCK:
		put_circle(t, b, stacks, c);
		return;
	case VERDICT_GONE:
		put_end(t, &b->log, c->who);
		return;
	case VERDICT_STOPPED:
		put_stop(t, &b->log, c->who);
		return;
	case VERDICT_NOBODY:
		put_nobody(t, b, stacks, c->who);
		return;
	case VERDICT_BUSY:
		text_buf_add(t, "runs, without a wait for ");
		put_time(t, b->log.seen->end_ns - b->log.seen->thread[c->who].woken_ns);
		return;
	case VERDICT_KERNEL:
	case VERDICT_SLEEPS:
		text_buf_add(t, c->verdict == VERDICT_SLEEPS
					? "sleeps, in "
					: "waits in the kernel, where no signal ends it (D), in ");
		put_waiting(t, &b->log, stacks, c->who);
		return;
	default:
		put_unknown(t, b, stacks, c);
	}
}

/* "app/1 waits for lock 0x.., " and how many are between. */
static void put_way(struct text_buf *t, const struct blame *b, const struct flow_wait_stacks *stacks,
		    const struct blamed *c)
{
	const size_t between = c->npath - 2;

	blame_put_who(t, &b->log, c->path[0]);
	text_buf_add(t, " waits in ");
	put_waiting(t, &b->log, stacks, c->path[0]);
	text_buf_add(t, c->guessed ? ", probably for " : ", for ");
	if (between)
		text_buf_printf(t, "%zu other%s, and %s last ", between, plural(between),
				between == 1 ? "that one at" : "these at");
	blame_put_who(t, &b->log, c->who);
	text_buf_add(t, ", which ");
}

void blame_put_sentence(struct text_buf *t, const struct blame *b, const struct flow_wait_stacks *stacks)
{
	const struct blamed *c = b->culprit;

	if (!b->n) {
		text_buf_add(
			t,
			"Nothing hangs that the log shows: no thread waits inside of its work, and none spins");
		return;
	}
	if (c->circle == c->npath && c->npath > 1) {
		put_way(t, b, stacks, c);
	} else {
		blame_put_who(t, &b->log, c->who);
		text_buf_char(t, ' ');
	}
	blame_put_state(t, b, stacks, c);
}

void blame_put_evidence(struct text_buf *t, const struct blame *b, uint32_t thread)
{
	static const char *const words[] = {
		[BLAME_OWNER] = "the lock's words name it as the owner",
		[BLAME_WRITER] = "the words look like those of a lock for readers that it writes under",
		[BLAME_JOIN] = "the wait is for its end",
		[BLAME_OTHER_END] = "it has used the other end last",
		[BLAME_FILE_LOCK] = "it locked this file last",
		[BLAME_CHILD] = "it is its child",
		[BLAME_HEIR] = "it may have inherited the other end",
	};
	const struct blame_link *l = &b->link[thread];

	if (l->how == BLAME_UNTIL_NOW)
		text_buf_printf(t, "until now it ended these waits, %u of %u times", l->times, l->all);
	else if (l->how == BLAME_BASELINE)
		text_buf_printf(t, "%u of %u such waits of the baseline were ended from there", l->times,
				l->all);
	else if (l->how == BLAME_ASKED)
		text_buf_add(t, "it was sent something last, and has not answered");
	else
		text_buf_add(t, words[l->how] ? words[l->how] : "not known");
	if (l->how == BLAME_CHILD && l->all > 1)
		text_buf_printf(t, ", the newest of %u", l->all);
	if (b->log.seen->thread[thread].wait.ns <= b->log.seen->lost_ns)
		text_buf_add(t, "; events were lost since it began to wait");
}

static enum wait_kind kind_of(const struct blame *b, uint32_t thread)
{
	static const uint8_t by_how[] = {
		[BLAME_OWNER] = WAIT_LOCK,	    [BLAME_WRITER] = WAIT_LOCK, [BLAME_JOIN] = WAIT_THREAD,
		[BLAME_OTHER_END] = WAIT_PEER,	    [BLAME_HEIR] = WAIT_PEER,	[BLAME_ASKED] = WAIT_EVENTS,
		[BLAME_FILE_LOCK] = WAIT_FILE_LOCK, [BLAME_CHILD] = WAIT_CHILD,
	};
	const struct seen_call *w = &b->log.seen->thread[thread].wait;
	const uint8_t how = b->link[thread].how;

	if (how != BLAME_UNKNOWN && how != BLAME_UNTIL_NOW && how != BLAME_BASELINE)
		return (enum wait_kind)by_how[how];
	if (!blame_waits(&b->log, thread))
		return WAIT_RUNS;
	if (blame_is_stopped(&b->log, thread))
		return WAIT_STOPPED;
	if ((w->why & FLOW_WHY_MASK) == FLOW_BLOCKED)
		return WAIT_KERNEL;
	if (blame_call_sleeps(w->call))
		return WAIT_TIME;
	if (w->id == FLOW_WAIT_FUTEX)
		return WAIT_CONDITION;
	if (blame_call_polls(w->call))
		return WAIT_EVENTS;
	return w->id == FLOW_WAIT_ON ? WAIT_PEER : WAIT_UNKNOWN;
}

const char *blame_kind_name(const struct blame *b, uint32_t thread)
{
	return explain_kind_name(kind_of(b, thread));
}
