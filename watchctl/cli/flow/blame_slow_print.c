#include "watchctl/cli/flow/blame_slow_print.h"

#include <stdio.h>

#include "watchctl/base/text_buf.h"
#include "watchctl/cli/flow/blame_words.h"
#include "watchctl/cli/flow/graph/flow_graph_words.h"
#include "watchctl/cli/flow/graph/flow_stack_words.h"
#include "watchctl/cli/flow/graph/flow_wait_stacks.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/words/view_words.h"

struct printing {
	const struct blame_log *b;
	const struct flow_shown *s;
	struct printer *printer; /* of stacks, in words; NULL: JSON is printed */
	struct text_buf text;
	struct json j;
	bool starved;
};

/* False: no memory. */
static bool prepare(struct printing *p, bool json)
{
	const struct print_options plain = { 0 };

	p->printer = json ? NULL : print_text_new(stdout, &plain);
	return json || p->printer;
}

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

static void put_time(struct text_buf *t, uint64_t ns)
{
	char text[32];

	text_duration(ns, text, sizeof(text));
	text_buf_add(t, text);
}

/* "lock 0x7f.. (in take_order), which app/7 had". */
static void put_wait(struct printing *p, const struct flow_edge *e)
{
	char text[FLOW_WORDS];

	flow_edge_words(p->s, e, text);
	text_buf_add(&p->text, text);
	blame_put_function(&p->text, flow_shown_stack(p->s, e));
	if (e->from == FLOW_NONE || e->flags & FLOW_EDGE_OWN)
		return;
	text_buf_add(&p->text, e->flags & FLOW_EDGE_OWNER ? ", which " : ", until ");
	blame_put_who(&p->text, p->b, p->b->node[e->from].thread);
	text_buf_add(&p->text, e->flags & FLOW_EDGE_OWNER ? " had" : " ended it");
}

static void say_slow(struct printing *p, const struct blame_slow *slow)
{
	text_buf_empty(&p->text);
	blame_put_who(&p->text, p->b, slow->asked);
	text_buf_add(&p->text, " does not hang; of the ");
	put_time(&p->text, slow->path_ns);
	text_buf_add(&p->text, " that led to what it did last, ");
	blame_put_who(&p->text, p->b, slow->waiter);
	text_buf_add(&p->text, " waited ");
	put_time(&p->text, slow->wait_ns);
	text_buf_add(&p->text, " in ");
	put_wait(p, &p->b->edge[slow->wait]);
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

static void put_answer(struct printing *p, const char *verdict, size_t threads)
{
	begin(p, "answer");
	json_number(&p->j, "time_ns", p->b->seen->end_ns);
	json_text(&p->j, "verdict", verdict);
	json_text(&p->j, "text", words(p));
	json_number(&p->j, "threads", threads);
	json_number(&p->j, "looked_at", p->b->seen->n);
	json_number(&p->j, "lost", p->s->span.lost);
	end(p);
}

/* The thread that was waited for, or else the one that waited. */
static uint32_t to_blame(const struct flow_edge *e)
{
	return e->from == FLOW_NONE ? e->to : e->from;
}

/* Of the thread to blame the stack is known if it is the one that waited. */
static void put_stack(struct printing *p, const struct flow_edge *e)
{
	const struct flow_wait_stack *stack = flow_shown_stack(p->s, e);
	char function[200];

	if (p->b->node[to_blame(e)].thread != p->b->node[e->to].thread)
		return;
	if (flow_stack_function(stack, function, sizeof(function)))
		json_text(&p->j, "function", function);
	flow_stack_json(&p->j, stack);
}

/* @wait: or NULL, of a unit as a whole. */
static void begin_culprit(struct printing *p, size_t rank, uint32_t node, const struct flow_edge *wait,
			  const char *verdict)
{
	begin(p, "culprit");
	json_number(&p->j, "rank", rank);
	flow_json_thread(&p->j, p->s, node);
	json_text(&p->j, "verdict", verdict);
	json_bool(&p->j, "guessed", false);
	json_text(&p->j, "why", words(p));
	if (wait)
		put_stack(p, wait);
}

static void put_link(struct printing *p, const struct flow_edge *e)
{
	begin(p, "link");
	json_number(&p->j, "n", 1);
	json_open(&p->j, "edge", '{');
	json_text(&p->j, "type", "edge");
	flow_json_edge(&p->j, p->s, e);
	json_close(&p->j, '}');
	json_open(&p->j, "waiter", '{');
	flow_json_thread(&p->j, p->s, e->to);
	json_close(&p->j, '}');
	if (e->from != FLOW_NONE) {
		json_open(&p->j, "waits_for", '{');
		flow_json_thread(&p->j, p->s, e->from);
		json_close(&p->j, '}');
	}
	flow_stack_json(&p->j, flow_shown_stack(p->s, e));
	end(p);
}

struct wc_error *blame_print_slow(const struct blame_log *b, const struct flow_shown *s,
				  const struct blame_slow *slow, bool json)
{
	struct printing p = { .b = b, .s = s };
	const struct flow_edge *e = &b->edge[slow->wait];

	if (!prepare(&p, json))
		return &wc_enomem;
	say_slow(&p, slow);
	if (!json) {
		printf("%s.\n", words(&p));
		flow_stack_print(p.printer, flow_shown_stack(s, e));
		return finish(&p);
	}
	put_answer(&p, "slow", 1);
	begin_culprit(&p, 1, to_blame(e), e, "slow");
	json_number(&p.j, "waiters", 1);
	end(&p);
	put_link(&p, e);
	return finish(&p);
}

static void say_grown(struct printing *p, const struct compared *x)
{
	text_buf_empty(&p->text);
	blame_put_who(&p->text, p->b, p->b->node[x->node].thread);
	if (x->wait == FLOW_NONE) {
		char text[FLOW_WORDS];

		flow_node_words(&p->b->node[x->node], text);
		text_buf_printf(&p->text, ": units of work (%s)", text);
	} else {
		text_buf_add(&p->text, ": waits in ");
		put_wait(p, &p->b->edge[x->wait]);
	}
	text_buf_add(&p->text, ", took ");
	put_time(&p->text, x->bad_ns);
	text_buf_add(&p->text, " each, and ");
	put_time(&p->text, x->good_ns);
	text_buf_printf(&p->text, " in the baseline (medians of %zu and %zu)", x->bad, x->good);
}

static const struct flow_edge *wait_of(const struct printing *p, const struct compared *x)
{
	return x->wait == FLOW_NONE ? NULL : &p->b->edge[x->wait];
}

static void tell_grown(struct printing *p, const struct compared *x, bool first)
{
	const struct flow_edge *wait = wait_of(p, x);

	printf("%s%s.\n", first ? "Nothing hangs that the log shows; what grew most: " : "    then ",
	       words(p));
	if (wait)
		flow_stack_print(p->printer, flow_shown_stack(p->s, wait));
}

static void put_grown(struct printing *p, const struct compared *x, size_t rank)
{
	const struct flow_edge *wait = wait_of(p, x);

	begin_culprit(p, rank, wait ? to_blame(wait) : x->node, wait, "slower");
	json_number(&p->j, "median_ns", x->bad_ns);
	json_number(&p->j, "baseline_ns", x->good_ns);
	json_number(&p->j, "times", x->bad);
	json_number(&p->j, "baseline_times", x->good);
	end(p);
}

struct wc_error *blame_print_compared(const struct blame_log *b, const struct flow_shown *s,
				      const struct compared *grown, size_t n, bool json)
{
	struct printing p = { .b = b, .s = s };

	if (!prepare(&p, json))
		return &wc_enomem;
	for (size_t i = 0; i < n; i++) {
		say_grown(&p, &grown[i]);
		if (!json)
			tell_grown(&p, &grown[i], !i);
		else if (!i)
			put_answer(&p, "slower", n);
		if (json)
			put_grown(&p, &grown[i], i + 1);
	}
	return finish(&p);
}
