#include "watchctl/cli/flow/blame_print.h"

#include <stdbool.h>
#include <stdio.h>

#include "watchctl/base/text_buf.h"
#include "watchctl/base/words/plural.h"
#include "watchctl/cli/flow/blame_words.h"
#include "watchctl/cli/flow/explain_words.h"
#include "watchctl/cli/flow/graph/flow_graph_words.h"
#include "watchctl/cli/flow/graph/flow_stack_words.h"
#include "watchctl/cli/flow/graph/flow_wait_stacks.h"
#include "watchctl/flow/blame/link.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/words/json.h"

#define CULPRITS_TEXT 3u

struct printing {
	const struct blame *b;
	const struct flow_shown *s;
	struct printer *printer; /* of stacks, in words */
	struct text_buf text;
	struct json j;
	bool starved;
};

static const char *words(struct printing *p)
{
	p->starved |= p->text.failed;
	return text_buf_text(&p->text);
}

static struct wc_error *finish(struct printing *p)
{
	const bool starved = p->starved;

	text_buf_deinit(&p->text);
	json_deinit(&p->j);
	printer_free(p->printer);
	return starved ? &wc_enomem : NULL;
}

static uint32_t next_of(const struct blamed *c, size_t i)
{
	return i + 1 < c->npath ? c->path[i + 1] : c->who;
}

/* Of a circle its last member leads back. */
static size_t links_of(const struct blamed *c)
{
	return c->circle < c->npath ? c->npath : c->npath - 1;
}

static const struct flow_wait_stack *stack_of(const struct printing *p, uint32_t thread)
{
	return blame_stack(&p->b->log, &p->s->stacks, thread);
}

/* The members of the first one's circle are in the links, with their stacks. */
static void tell_culprit(struct printing *p, size_t rank)
{
	const struct blamed *c = &p->b->culprit[rank];

	text_buf_empty(&p->text);
	text_buf_printf(&p->text, "\nculprit %zu%s: ", rank + 1, c->guessed ? " (a guess)" : "");
	blame_put_who(&p->text, &p->b->log, c->who);
	text_buf_add(&p->text, "\n    ");
	blame_put_state(&p->text, p->b, &p->s->stacks, c);
	if (c->waiters)
		text_buf_printf(&p->text, "\n    %u thread%s wait%s for it, directly or not", c->waiters,
				plural(c->waiters), c->waiters == 1 ? "s" : "");
	printf("%s\n", words(p));
	if (rank || c->circle == c->npath)
		flow_stack_print(p->printer, stack_of(p, c->who));
}

static void tell_link(struct printing *p, const struct blamed *c, size_t i)
{
	const uint32_t from = c->path[i];

	text_buf_empty(&p->text);
	text_buf_printf(&p->text, "\nlink %zu: ", i + 1);
	blame_put_who(&p->text, &p->b->log, from);
	text_buf_add(&p->text, "\n    waits in ");
	blame_put_wait(&p->text, &p->b->log, from);
	text_buf_add(&p->text, "\n    -> ");
	blame_put_who(&p->text, &p->b->log, next_of(c, i));
	text_buf_add(&p->text, "\n    known by: ");
	blame_put_evidence(&p->text, p->b, from);
	printf("%s\n", words(p));
	flow_stack_print(p->printer, stack_of(p, from));
}

/* "write on pipe 7 by client/12 to dispatch/11", with numbers of the baseline. */
static void put_good_link(struct text_buf *t, const struct blame_beside *x, const struct baseline_link *l)
{
	char text[FLOW_WORDS];

	flow_edge_words(x->shown, &x->good->edge[l->edge], text);
	text_buf_printf(t, "%s by ", text);
	blame_put_who(t, x->good, l->from);
	text_buf_add(t, " to ");
	blame_put_who(t, x->good, l->to);
}

static void put_cut(struct text_buf *t, const struct blame_beside *x)
{
	const struct baseline *r = x->baseline;

	if (r->cut == r->nlinks) {
		text_buf_add(t, "; all that led to that has happened here, too");
		return;
	}
	if (r->cut) {
		text_buf_add(t, "; the last thing of what led to that which has happened here was ");
		put_good_link(t, x, &r->link[r->cut - 1]);
	}
	text_buf_add(t, "; what has not: ");
	put_good_link(t, x, &r->link[r->cut]);
	if (r->culprit == FLOW_NO_THREAD) {
		text_buf_add(t, ": no thread named like ");
		blame_put_who(t, x->good, r->link[r->cut].from);
		text_buf_add(t, " is in this log");
	}
}

static void put_baseline(struct text_buf *t, const struct blame_beside *x)
{
	const struct baseline *r = x->baseline;

	text_buf_printf(t, "In the baseline %u such wait%s ended", r->waits, plural(r->waits));
	if (r->ender == FLOW_NO_THREAD) {
		text_buf_add(t, ", none by a thread that is known");
		return;
	}
	text_buf_printf(t, ", %u of them by ", r->ended);
	blame_put_who(t, x->good, r->ender);
	put_cut(t, x);
}

struct wc_error *blame_print_text(const struct blame *b, const struct flow_shown *s,
				  const struct blame_beside *beside)
{
	const struct print_options plain = { 0 };
	struct printing p = { .b = b, .s = s, .printer = print_text_new(stdout, &plain) };

	if (!p.printer)
		return &wc_enomem;
	blame_put_sentence(&p.text, b, &s->stacks);
	printf("%s.\n", words(&p));
	text_buf_empty(&p.text);
	if (beside) {
		put_baseline(&p.text, beside);
		printf("%s.\n", words(&p));
	}
	for (size_t i = 0; i < b->n && i < CULPRITS_TEXT; i++)
		tell_culprit(&p, i);
	for (size_t i = 0; b->n && i < links_of(b->culprit); i++)
		tell_link(&p, b->culprit, i);
	return finish(&p);
}

static void begin(struct printing *p, const char *type)
{
	json_open(&p->j, NULL, '{');
	json_text(&p->j, "type", type);
}

static void end(struct printing *p)
{
	json_close(&p->j, '}');
	p->starved |= !json_end_line(&p->j, stdout);
}

static void put_baseline_counts(struct printing *p, const struct blame_beside *x)
{
	const struct baseline *r = x->baseline;

	text_buf_empty(&p->text);
	put_baseline(&p->text, x);
	json_open(&p->j, "baseline", '{');
	json_number(&p->j, "waits", r->waits);
	json_number(&p->j, "ended", r->ended);
	json_number(&p->j, "links", r->nlinks);
	json_number(&p->j, "happened", r->cut);
	json_text(&p->j, "text", words(p));
	json_close(&p->j, '}');
}

static void put_answer(struct printing *p, const struct blame_beside *beside)
{
	const struct blame *b = p->b;

	text_buf_empty(&p->text);
	blame_put_sentence(&p->text, b, &p->s->stacks);
	begin(p, "answer");
	json_number(&p->j, "time_ns", b->log.seen->end_ns);
	json_text(&p->j, "verdict", b->n ? explain_verdict_name(b->culprit->verdict) : "idle");
	json_text(&p->j, "text", words(p));
	json_number(&p->j, "threads", b->suspects);
	json_number(&p->j, "looked_at", b->log.seen->n);
	json_number(&p->j, "lost", p->s->span.lost);
	if (beside)
		put_baseline_counts(p, beside);
	end(p);
}

static void put_thread(struct printing *p, uint32_t thread)
{
	const struct flow_thread *t = &p->b->log.threads->thread[thread];

	if (t->pid)
		json_signed(&p->j, "pid", t->pid);
	json_signed(&p->j, "tid", t->tid);
	json_text_if(&p->j, "comm", flow_threads_comm(p->b->log.threads, thread, p->b->log.seen->end_ns));
}

static void put_times(struct printing *p, uint32_t thread)
{
	const uint64_t since = p->b->log.seen->thread[thread].wait.ns;

	if (!blame_waits(&p->b->log, thread))
		return;
	json_number(&p->j, "since_ns", since);
	json_number(&p->j, "asleep_ns", p->b->log.seen->end_ns - since);
}

static void put_culprit(struct printing *p, size_t rank)
{
	const struct blamed *c = &p->b->culprit[rank];
	const struct flow_wait_stack *stack = stack_of(p, c->who);
	char function[200];

	text_buf_empty(&p->text);
	blame_put_state(&p->text, p->b, &p->s->stacks, c);
	begin(p, "culprit");
	json_number(&p->j, "rank", rank + 1);
	put_thread(p, c->who);
	json_text(&p->j, "verdict", explain_verdict_name(c->verdict));
	json_bool(&p->j, "guessed", c->guessed);
	if (flow_stack_function(stack, function, sizeof(function)))
		json_text(&p->j, "function", function);
	json_text(&p->j, "why", words(p));
	json_number(&p->j, "waiters", c->waiters);
	put_times(p, c->who);
	flow_stack_json(&p->j, stack);
	end(p);
}

static void put_end(struct printing *p, const char *name, uint32_t thread)
{
	json_open(&p->j, name, '{');
	json_signed(&p->j, "tid", p->b->log.threads->thread[thread].tid);
	json_number(&p->j, "time_ns", p->b->log.seen->end_ns);
	json_close(&p->j, '}');
}

static void put_edge(struct printing *p, uint32_t from, uint32_t to)
{
	text_buf_empty(&p->text);
	blame_put_evidence(&p->text, p->b, from);
	json_open(&p->j, "edge", '{');
	json_text(&p->j, "type", "edge");
	json_text(&p->j, "kind", "wait_for");
	json_bool(&p->j, "strong", !p->b->link[from].guessed);
	put_end(p, "from", from);
	put_end(p, "to", to);
	json_text(&p->j, "evidence", words(p));
	json_close(&p->j, '}');
}

static void put_link(struct printing *p, const struct blamed *c, size_t i)
{
	const uint32_t from = c->path[i], to = next_of(c, i);

	begin(p, "link");
	json_number(&p->j, "n", i + 1);
	put_edge(p, from, to);
	text_buf_empty(&p->text);
	blame_put_wait(&p->text, &p->b->log, from);
	json_open(&p->j, "waiter", '{');
	put_thread(p, from);
	json_text(&p->j, "kind", blame_kind_name(p->b, from));
	json_text(&p->j, "waits_for", words(p));
	put_times(p, from);
	json_close(&p->j, '}');
	json_open(&p->j, "waits_for", '{');
	put_thread(p, to);
	json_close(&p->j, '}');
	flow_stack_json(&p->j, stack_of(p, from));
	end(p);
}

struct wc_error *blame_print_json(const struct blame *b, const struct flow_shown *s,
				  const struct blame_beside *beside)
{
	struct printing p = { .b = b, .s = s };

	put_answer(&p, beside);
	for (size_t i = 0; i < b->n; i++)
		put_culprit(&p, i);
	for (size_t i = 0; b->n && i < links_of(b->culprit); i++)
		put_link(&p, b->culprit, i);
	return finish(&p);
}
