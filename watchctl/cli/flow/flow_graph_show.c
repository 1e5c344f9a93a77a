#include "watchctl/cli/flow/flow_graph_show.h"
#include "watchctl/cli/flow/graph/flow_graph_ask.h"

#include <stdio.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/cli/flow/graph/flow_graph_choice.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/cli/flow/graph/flow_graph_words.h"
#include "watchctl/flow/graph/flow_threads.h"

struct showing {
	struct flow_shown s;
	struct flow_choice choice;
	struct json j;
	bool starved;
};

static void showing_deinit(struct showing *w)
{
	flow_shown_deinit(&w->s);
	json_deinit(&w->j);
}

static void begin(struct showing *w, const char *type)
{
	json_open(&w->j, NULL, '{');
	json_text(&w->j, "type", type);
}

static void end(struct showing *w)
{
	json_close(&w->j, '}');
	w->starved |= !json_end_line(&w->j, stdout);
}

static void print_edge(struct showing *w, const struct flow_edge *e)
{
	begin(w, "edge");
	flow_json_edge(&w->j, &w->s, e);
	end(w);
}

static struct flow_edge weak_edge(const struct flow_shown *s, uint32_t i)
{
	const struct flow_node *n = &s->node[i];

	return (struct flow_edge){ .kind = FLOW_EDGE_WEAK,
				   .from = n->before,
				   .to = i,
				   .from_ns = s->node[n->before].end_ns,
				   .to_ns = n->begin_ns };
}

static void print_node(struct showing *w, uint32_t i, const bool *chosen)
{
	struct flow_edge weak;

	begin(w, "node");
	flow_json_node(&w->j, &w->s, i);
	end(w);
	if (w->s.node[i].before == FLOW_NONE || !chosen[w->s.node[i].before])
		return;
	weak = weak_edge(&w->s, i);
	print_edge(w, &weak);
}

static void print_json(struct showing *w, const bool *chosen)
{
	for (uint32_t i = 0; i < w->s.nnodes; i++)
		if (chosen[i])
			print_node(w, i, chosen);
	for (size_t i = 0; i < w->s.nedges; i++)
		if (flow_choice_has_edge(&w->choice, &w->s.edge[i]))
			print_edge(w, &w->s.edge[i]);
}

/* A text in quotes: names of threads may have anything in them. */
static void dot_text(const char *s)
{
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar((unsigned char)*s < ' ' ? '?' : *s);
	}
}

static void dot_node(const struct showing *w, uint32_t i)
{
	const struct flow_node *n = &w->s.node[i];
	char what[FLOW_WORDS];

	flow_node_words(n, what);
	printf("\tn%u [label=\"", i);
	dot_text(flow_threads_comm(w->s.threads, n->thread, n->end_ns));
	printf("/%d\\n", w->s.threads->thread[n->thread].tid);
	dot_text(what);
	printf("\"];\n");
}

static void dot_edge(const struct showing *w, const struct flow_edge *e)
{
	char words[FLOW_WORDS];

	if (e->from == FLOW_NONE)
		return;
	flow_edge_words(&w->s, e, words);
	printf("\tn%u -> n%u [label=\"%s: ", e->from, e->to, flow_edge_kind_name(e->kind));
	dot_text(words);
	printf("\"];\n");
}

static void print_dot(const struct showing *w, const bool *chosen)
{
	printf("digraph flow {\n\tnode [shape=box];\n");
	for (uint32_t i = 0; i < w->s.nnodes; i++) {
		const uint32_t before = w->s.node[i].before;

		if (!chosen[i])
			continue;
		dot_node(w, i);
		if (before != FLOW_NONE && chosen[before])
			printf("\tn%u -> n%u [style=dotted];\n", before, i);
	}
	for (size_t i = 0; i < w->s.nedges; i++)
		if (flow_choice_has_edge(&w->choice, &w->s.edge[i]))
			dot_edge(w, &w->s.edge[i]);
	printf("}\n");
}

static struct wc_error *show(struct showing *w, const struct flow_graph_ask *ask)
{
	scoped(freep) bool *chosen = flow_choice_nodes(&w->choice);

	if (!chosen)
		return &wc_enomem;
	if (ask->form == FLOW_GRAPH_DOT)
		print_dot(w, chosen);
	else
		print_json(w, chosen);
	return w->starved ? &wc_enomem : NULL;
}

struct wc_error *flow_graph_show(const struct flow_graph_ask *ask)
{
	struct showing w = { 0 };
	struct wc_error *err = flow_shown_read(ask->log, ask->rules, ask->nrules, &w.s);

	if (!err)
		err = flow_choice_make(&w.s, ask, &w.choice);
	if (!err)
		err = show(&w, ask);
	showing_deinit(&w);
	return err;
}
