#include <stdio.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/flow/explain_print.h"
#include "watchctl/cli/flow/explain_stack.h"
#include "watchctl/cli/flow/explain_words.h"
#include "watchctl/view/print/print_json.h"
#include "watchctl/view/words/json.h"

struct showing {
	const struct explanation *e;
	const struct explain_show *show;
	struct explain_stacks *stacks;
	uint64_t looked_ns;
	struct json j;
	bool starved;
};

static void begin(struct showing *s, const char *type)
{
	json_open(&s->j, NULL, '{');
	json_text(&s->j, "type", type);
}

static void end(struct showing *s)
{
	json_close(&s->j, '}');
	s->starved |= !json_end_line(&s->j, stdout);
}

static void put_thread(struct showing *s, const struct explained *x)
{
	json_signed(&s->j, "pid", x->thread->pid);
	json_signed(&s->j, "tid", x->thread->tid);
	json_text(&s->j, "comm", x->thread->comm);
}

static void put_times(struct showing *s, const struct look_thread *t)
{
	if (!t->asleep_ns)
		return;
	json_number(&s->j, "since_ns", s->looked_ns - t->asleep_ns);
	json_number(&s->j, "asleep_ns", t->asleep_ns);
}

static void put_stack(struct showing *s, const struct explained *x)
{
	size_t n;
	const struct view_frame *frame;

	if (s->show->no_stack)
		return;
	frame = explain_stack(s->stacks, x, s->show->frames, &n);
	if (n)
		print_json_stack(&s->j, frame, n, explain_stack_end(x, s->show->frames));
}

static void put_wait(struct showing *s, const struct explained *x)
{
	json_text(&s->j, "kind", explain_kind_name(x->wait.kind));
	json_text(&s->j, "waits_for", x->wait.what);
	json_text(&s->j, "evidence", x->wait.evidence);
	json_text(&s->j, "ender", explain_ender_name(x->wait.ender));
	json_bool(&s->j, "limit", x->wait.has_limit);
}

static void put_answer(struct showing *s, const char *without)
{
	const struct explanation *e = s->e;
	char text[WORDS_SENTENCE];
	size_t stopped = 0;

	for (size_t i = 0; i < e->nthreads; i++)
		stopped += e->thread[i].thread->stopped;
	explain_sentence(e, text, sizeof(text));
	begin(s, "answer");
	json_number(&s->j, "time_ns", s->looked_ns);
	json_signed(&s->j, "pid", e->pid);
	json_text(&s->j, "comm", e->nown ? e->thread[0].process->comm : "");
	json_text(&s->j, "verdict", e->nculprits ? explain_verdict_name(e->culprit->verdict) : "idle");
	json_text(&s->j, "text", text);
	json_number(&s->j, "threads", e->nown);
	json_number(&s->j, "looked_at", e->nthreads);
	json_number(&s->j, "stopped", stopped);
	json_bool(&s->j, "bounded", e->bounded);
	json_text_if(&s->j, "without_bpf", without);
	end(s);
}

static void put_culprit(struct showing *s, size_t rank)
{
	const struct culprit *c = &s->e->culprit[rank];
	const struct explained *x = &s->e->thread[c->who];
	char why[WORDS_SENTENCE], function[200];

	explain_why(s->e, c, why, sizeof(why));
	begin(s, "culprit");
	json_number(&s->j, "rank", rank + 1);
	put_thread(s, x);
	json_text(&s->j, "verdict", explain_verdict_name(c->verdict));
	json_bool(&s->j, "guessed", c->guessed);
	if (explain_function(x->thread, function, sizeof(function)))
		json_text(&s->j, "function", function);
	json_text(&s->j, "why", why);
	json_number(&s->j, "waiters", c->waiters);
	put_times(s, x->thread);
	put_stack(s, x);
	end(s);
}

static void put_end(struct showing *s, const char *name, const struct explained *x)
{
	json_open(&s->j, name, '{');
	json_signed(&s->j, "tid", x->thread->tid);
	json_number(&s->j, "time_ns", s->looked_ns);
	json_close(&s->j, '}');
}

static void put_edge(struct showing *s, size_t from, size_t to)
{
	const struct explained *x = &s->e->thread[from];
	const struct explained_edge *edge = explanation_edge(s->e, from, to);
	char evidence[WORDS_TEXT];

	explain_evidence(s->e, from, to, evidence, sizeof(evidence));
	json_open(&s->j, "edge", '{');
	json_text(&s->j, "type", "edge");
	json_text(&s->j, "kind", "wait_for");
	json_bool(&s->j, "strong", edge && !x->wait.whom[edge->whom].guessed);
	put_end(s, "from", x);
	put_end(s, "to", &s->e->thread[to]);
	json_text(&s->j, "evidence", evidence);
	json_close(&s->j, '}');
}

static void put_link(struct showing *s, size_t number, size_t from, size_t to)
{
	const struct explained *x = &s->e->thread[from], *y = &s->e->thread[to];

	begin(s, "link");
	json_number(&s->j, "n", number);
	put_edge(s, from, to);
	json_open(&s->j, "waiter", '{');
	put_thread(s, x);
	put_wait(s, x);
	put_times(s, x->thread);
	json_close(&s->j, '}');
	json_open(&s->j, "waits_for", '{');
	put_thread(s, y);
	json_close(&s->j, '}');
	put_stack(s, x);
	end(s);
}

static void put_links(struct showing *s)
{
	const struct culprit *c = s->e->culprit;
	size_t number = 0;

	for (size_t i = 1; i < c->npath; i++)
		put_link(s, ++number, c->path[i - 1], c->path[i]);
	for (size_t i = 0; i < c->ncycle; i++)
		put_link(s, ++number, c->cycle[i], c->cycle[(i + 1) % c->ncycle]);
}

static void put_whom(struct showing *s, const struct wait *w)
{
	json_open(&s->j, "whom", '[');
	for (size_t i = 0; i < w->n; i++) {
		json_open(&s->j, NULL, '{');
		json_signed(&s->j, "pid", w->whom[i].pid);
		if (w->whom[i].tid)
			json_signed(&s->j, "tid", w->whom[i].tid);
		json_bool(&s->j, "guessed", w->whom[i].guessed);
		json_text(&s->j, "why", w->whom[i].why);
		json_close(&s->j, '}');
	}
	json_close(&s->j, ']');
}

static void put_looked_at(struct showing *s, const struct explained *x)
{
	char state[2] = { x->thread->state, '\0' };

	begin(s, "wait");
	put_thread(s, x);
	json_text(&s->j, "state", state);
	put_wait(s, x);
	json_bool(&s->j, "stuck", x->stuck);
	put_whom(s, &x->wait);
	put_times(s, x->thread);
	put_stack(s, x);
	end(s);
}

struct wc_error *explain_print_json(const struct explanation *e, const struct explain_show *show,
				    const char *without, uint64_t looked_ns)
{
	scoped(explain_stacks_freep) struct explain_stacks *stacks = explain_stacks_new();
	struct showing s = { .e = e, .show = show, .stacks = stacks, .looked_ns = looked_ns };
	size_t n = e->nculprits;

	if (!stacks)
		return &wc_enomem;
	put_answer(&s, without);
	if (show->culprits && n > show->culprits)
		n = show->culprits;
	for (size_t i = 0; i < n; i++)
		put_culprit(&s, i);
	if (e->nculprits)
		put_links(&s);
	for (size_t i = 0; show->all && i < e->nthreads; i++)
		put_looked_at(&s, &e->thread[i]);
	json_deinit(&s.j);
	return s.starved ? &wc_enomem : NULL;
}
