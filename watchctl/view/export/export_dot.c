/*
 * A graph for Graphviz: functions, and where they lead to: each site that accessed a watch or captured a
 * stack, with its count, and the edges from callers to what they call. Of a step recording, who called whom.
 *
 * It holds the largest ones, as many as can be looked at, and says what was left out.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/view/export/export_graph.h"
#include "watchctl/view/export/export_impl.h"
#include "watchctl/view/table/probe_stacks.h"

#define WIDEST 4.0 /* points: the edge with the most stacks */

struct dot_writer {
	struct export_writer w;
	struct graph graph;
	struct export_threads threads;
	struct probe_stacks probes;
	uint64_t accesses, captures, calls;
};

static void export_dot_check(struct dot_writer *d, bool ok)
{
	if (!ok)
		export_fail(&d->w, &wc_enomem);
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct dot_writer *d = ctx;

	d->accesses++;
	export_dot_check(d, graph_add_access(&d->graph, a));
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct dot_writer *d = ctx;

	d->captures++;
	export_dot_check(d, graph_add_capture(&d->graph, c));
}

static void on_probe(void *ctx, const struct view_probe *v)
{
	struct dot_writer *d = ctx;
	struct capture_event raw;
	struct view_capture c;
	const bool ok = !v->has_stack || probe_stacks_capture(&d->probes, v, &raw, &c);

	export_dot_check(d, ok);
	if (ok && v->has_stack)
		on_capture(d, &c);
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct dot_writer *d = ctx;
	struct export_thread *th = export_thread_get(&d->threads, c->raw->pid, c->raw->tid);
	size_t n;

	d->calls++;
	export_dot_check(d, th != NULL);
	if (!th)
		return;
	for (n = export_calls_ended_by(th, c); n; n--)
		export_calls_pop(&d->threads, th);
	export_dot_check(d, graph_add_call(&d->graph, th->nopen ? th->open[th->nopen - 1].function : NULL,
					   c->function) &&
				    export_calls_push(&d->threads, th, c));
}

static void on_return(void *ctx, const struct view_return *r)
{
	struct dot_writer *d = ctx;
	struct export_thread *th = export_thread_get(&d->threads, r->raw->pid, r->raw->tid);
	size_t n = th ? export_calls_ended_with(th, r->raw->call) : 0;

	for (; n; n--)
		export_calls_pop(&d->threads, th);
}

/* Printing */

/* Clean text inside of quotes. Graphviz takes '\' for an escape and '&' for an entity. */
static void put_label(FILE *out, const char *s)
{
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s == '&')
			fputs("&amp;", out);
		else if (*s == '\n')
			fputs("\\n", out);
		else
			putc(*s, out);
}

static const char *colour(const struct graph_node *n)
{
	if (n->kind == GRAPH_CAPTURE)
		return "#fff2cc";
	switch (n->access) {
	case ACCESS_READ:
		return "#d6e6f5";
	case ACCESS_WRITE:
		return "#f8d7d3";
	case ACCESS_READWRITE:
		return "#e6daf0";
	default:
		return "#e8e8e8";
	}
}

static void put_node(FILE *out, const struct graph_node *n)
{
	fprintf(out, "\tn%" PRIu32 " [label=\"", n->index);
	put_label(out, n->text);
	fprintf(out, "%s%" PRIu64 "\"", n->kind == GRAPH_FUNCTION ? "\\n" : "", n->count);
	if (n->kind != GRAPH_FUNCTION)
		fprintf(out, " shape=box style=filled fillcolor=\"%s\"", colour(n));
	fputs("];\n", out);
}

static void put_edge(FILE *out, const struct graph_edge *e, uint64_t most)
{
	fprintf(out, "\tn%" PRIu32 " -> n%" PRIu32 " [label=\"%" PRIu64 "\" penwidth=%.2f];\n",
		e->from->index, e->to->index, e->count,
		0.5 + (WIDEST - 0.5) * (double)e->count / (double)most);
}

static void put_count(FILE *out, uint64_t n, const char *what, const char *plural)
{
	if (n)
		fprintf(out, "\\n%" PRIu64 " %s%s", n, what, n == 1 ? "" : plural);
}

/* What the graph is of, and what it does not show. */
static void put_title(const struct dot_writer *d, FILE *out, const struct graph_rest *rest)
{
	struct text_buf t = { 0 };

	export_text_clean(&t, d->w.log);
	fputs("\tlabel=\"", out);
	put_label(out, text_buf_text(&t));
	text_buf_deinit(&t);
	put_count(out, d->accesses, "access", "es");
	put_count(out, d->captures, "captured stack", "s");
	put_count(out, d->calls, "call", "s");
	if (rest->functions || rest->sites || rest->edges)
		fputs("\\nomitted, the smallest ones:", out);
	put_count(out, rest->functions, "function", "s");
	put_count(out, rest->sites, "site", "s");
	if (rest->sites)
		fprintf(out, " with %" PRIu64, rest->stacks);
	put_count(out, rest->edges, "edge", "s");
	fputs("\";\n\tlabelloc=b;\n", out);
}

static struct wc_error *export_dot_finish(struct export_writer *w)
{
	struct dot_writer *d = (struct dot_writer *)w;
	struct graph *g = &d->graph;
	FILE *out = export_out_file(w->out);
	struct graph_rest rest;
	size_t i, nedges;

	graph_cut(g, w->opt->nodes, &nedges, &rest);
	fputs("digraph watchctl {\n\tcharset=\"UTF-8\";\n", out);
	put_title(d, out, &rest);
	fputs("\tnode [fontname=\"sans-serif\" fontsize=10];\n\tedge [fontname=\"sans-serif\" fontsize=9];\n",
	      out);
	for (i = 0; i < g->nnodes; i++)
		if (g->node[i]->kept)
			put_node(out, g->node[i]);
	for (i = 0; i < nedges; i++)
		put_edge(out, g->edge[i], g->edge[0]->count);
	fputs("}\n", out);
	return NULL;
}

static void dot_free(struct export_writer *w)
{
	struct dot_writer *d = (struct dot_writer *)w;

	graph_deinit(&d->graph);
	export_threads_deinit(&d->threads);
	probe_stacks_deinit(&d->probes);
	free(d);
}

struct export_writer *export_dot_new(void)
{
	static const struct view_ops ops = {
		.access = on_access,
		.capture = on_capture,
		.probe = on_probe,
		.call = on_call,
		.ret = on_return,
	};
	struct dot_writer *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->w = (struct export_writer){ .ops = &ops, .finish = export_dot_finish, .free = dot_free };
	return &d->w;
}
