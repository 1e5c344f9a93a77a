#include "watchctl/cli/flow/flow_graph_show.h"

#include <stdio.h>
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/cli/flow/flow_graph_print.h"
#include "watchctl/cli/flow/flow_graph_who.h"
#include "watchctl/cli/flow/flow_graph_words.h"
#include "watchctl/flow/graph/flow_threads.h"

#define SECOND_NS 1000000000u

struct showing {
	struct flow_shown s;
	const struct flow_graph_ask *ask;
	uint64_t from_ns, to_ns;
	struct json j;
	bool starved;
};

static void showing_deinit(struct showing *w)
{
	flow_shown_deinit(&w->s);
	json_deinit(&w->j);
}

static bool has_node(const struct showing *w, uint32_t i)
{
	const struct flow_node *n = &w->s.node[i];

	if (n->end_ns < w->from_ns || n->begin_ns > w->to_ns)
		return false;
	return !w->ask->process || flow_who_is(&w->s, i, w->ask->process, n->end_ns);
}

static bool has_edge(const struct showing *w, const struct flow_edge *e)
{
	if (e->to_ns < w->from_ns || e->from_ns > w->to_ns)
		return false;
	return has_node(w, e->to) || (e->from != FLOW_NONE && has_node(w, e->from));
}

/* Nodes that edges lead from or to are printed, too, whose ever they are. */
static bool is_end_of_edge(const struct showing *w, uint32_t i)
{
	for (uint32_t k = w->s.node[i].last_in; k != FLOW_NONE; k = w->s.edge[k].next_in)
		if (has_edge(w, &w->s.edge[k]))
			return true;
	return false;
}

/* Of the nodes, which are printed. NULL: no memory. */
static bool *choose_nodes(const struct showing *w)
{
	bool *chosen = calloc(w->s.nnodes + 1, sizeof(*chosen));

	if (!chosen)
		return NULL;
	for (uint32_t i = 0; i < w->s.nnodes; i++)
		chosen[i] = has_node(w, i) || is_end_of_edge(w, i);
	for (size_t i = 0; i < w->s.nedges; i++)
		if (w->s.edge[i].from != FLOW_NONE && has_edge(w, &w->s.edge[i]))
			chosen[w->s.edge[i].from] = true;
	return chosen;
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
		if (has_edge(w, &w->s.edge[i]))
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
		if (has_edge(w, &w->s.edge[i]))
			dot_edge(w, &w->s.edge[i]);
	printf("}\n");
}

static struct wc_error *choose_time(struct showing *w)
{
	const uint64_t half = (w->ask->window_ns ? w->ask->window_ns : SECOND_NS) / 2;
	uint64_t at;
	struct wc_error *err;

	w->to_ns = UINT64_MAX;
	if (!w->ask->around)
		return NULL;
	err = flow_shown_time(&w->s, "--around", w->ask->around, w->ask->utc, &at);
	if (err)
		return err;
	w->from_ns = at > half ? at - half : 0;
	w->to_ns = at > UINT64_MAX - half ? UINT64_MAX : at + half;
	return flow_when_check(&w->s, "--around", w->from_ns, w->to_ns, w->ask->utc);
}

static struct wc_error *check_process(const struct showing *w)
{
	const char *who = w->ask->process;
	struct wc_error *err = who ? flow_who_check("--process", who) : NULL;

	if (err || !who)
		return err;
	for (uint32_t i = 0; i < w->s.nnodes; i++)
		if (flow_who_is(&w->s, i, who, w->s.node[i].end_ns))
			return NULL;
	return flow_who_unknown(&w->s, w->ask->log, who);
}

static struct wc_error *show(struct showing *w)
{
	scoped(freep) bool *chosen = choose_nodes(w);

	if (!chosen)
		return &wc_enomem;
	if (w->ask->form == FLOW_GRAPH_DOT)
		print_dot(w, chosen);
	else
		print_json(w, chosen);
	return w->starved ? &wc_enomem : NULL;
}

struct wc_error *flow_graph_show(const struct flow_graph_ask *ask)
{
	struct showing w = { .ask = ask };
	struct wc_error *err = flow_shown_read(ask->log, ask->rules, ask->nrules, &w.s);

	if (!err)
		err = choose_time(&w);
	if (!err)
		err = check_process(&w);
	if (!err)
		err = show(&w);
	showing_deinit(&w);
	return err;
}
