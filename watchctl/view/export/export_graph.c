#include "watchctl/view/export/export_graph.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/words/view_words.h"

/* A node by what names it in a frame: pointers that mean the same each time they come. */
struct graph_alias {
	struct graph_alias *same_hash;
	const char *function, *module;
	struct graph_node *node;
};

/* Nodes */

static struct graph_node *node_of_text(struct graph *g, enum graph_kind kind, const char *text)
{
	uint64_t hash = hash_text(HASH_START + (uint64_t)kind, text);
	struct graph_node *first = map64_get(&g->by_text, hash), *n;

	for (n = first; n; n = n->same_hash)
		if (n->kind == kind && !strcmp(n->text, text))
			return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	*n = (struct graph_node){
		.same_hash = first, .kind = kind, .text = strdup(text), .index = (uint32_t)g->nnodes
	};
	if (!n->text || g->nnodes >= UINT32_MAX || !vec_push(g->node, g->nnodes, g->node_cap, n)) {
		free(n->text);
		free(n);
		return NULL;
	}
	return map64_put(&g->by_text, hash, n) ? n : NULL;
}

/* "[libc.so.6]", "[unknown]": as the folded form names it. */
static void put_bracketed(struct text_buf *t, const char *name)
{
	bool bare = name[0] != '[';

	text_buf_add(t, bare ? "[" : "");
	export_text_clean(t, name);
	text_buf_add(t, bare ? "]" : "");
}

static struct graph_node *node_of_names(struct graph *g, const char *function, const char *module)
{
	uint64_t key = (uint64_t)(uintptr_t)function * 31 + (uintptr_t)module;
	struct graph_alias *first = map64_get(&g->by_names, key), *a;

	for (a = first; a; a = a->same_hash)
		if (a->function == function && a->module == module)
			return a->node;
	text_buf_empty(&g->text);
	if (function && *function)
		export_text_clean(&g->text, function);
	else
		put_bracketed(&g->text, module && *module ? text_base_name(module) : "unknown");
	a = calloc(1, sizeof(*a));
	if (!a || g->text.failed)
		goto failed;
	*a = (struct graph_alias){ .same_hash = first, .function = function, .module = module };
	a->node = node_of_text(g, GRAPH_FUNCTION, text_buf_text(&g->text));
	if (!a->node || !map64_put(&g->by_names, key, a))
		goto failed;
	return a->node;
failed:
	free(a);
	return NULL;
}

static struct graph_node *node_of_frame(struct graph *g, const struct view_frame *f)
{
	return f->signal ? node_of_text(g, GRAPH_FUNCTION, "[signal]")
			 : node_of_names(g, f->function, f->module);
}

/* Counting */

static void count_node(struct graph *g, struct graph_node *n)
{
	n->count += n->stack != g->stacks;
	n->stack = g->stacks;
}

static bool count_edge(struct graph *g, struct graph_node *from, struct graph_node *to)
{
	uint64_t key = (uint64_t)from->index << 32 | to->index;
	struct graph_edge *e = map64_get(&g->by_ends, key);

	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return false;
		*e = (struct graph_edge){ .from = from, .to = to };
		if (!vec_push(g->edge, g->nedges, g->edge_cap, e)) {
			free(e);
			return false;
		}
		if (!map64_put(&g->by_ends, key, e))
			return false;
	}
	e->count += e->stack != g->stacks;
	e->stack = g->stacks;
	return true;
}

/* One more node on the way inwards; *@at is the last one. */
static bool export_graph_step(struct graph *g, struct graph_node **at, struct graph_node *next)
{
	if (!next || (*at && !count_edge(g, *at, next)))
		return false;
	count_node(g, next);
	*at = next;
	return true;
}

static bool add_stack(struct graph *g, const struct view_frame *frame, size_t nframes, enum walk_end end,
		      struct graph_node *site)
{
	struct graph_node *at = NULL;
	char cut[32];

	if (!site)
		return false;
	g->stacks++;
	snprintf(cut, sizeof(cut), "[%s]", text_walk_end_name(end));
	if (end != WALK_END_COMPLETE && !export_graph_step(g, &at, node_of_text(g, GRAPH_FUNCTION, cut)))
		return false;
	while (nframes)
		if (!export_graph_step(g, &at, node_of_frame(g, &frame[--nframes])))
			return false;
	return export_graph_step(g, &at, site);
}

/* "write flag\nset_flag+26\napp.c:17\n" */
static struct graph_node *site_of(struct graph *g, enum graph_kind kind, const char *what, const char *name,
				  const char *place, const char *file, unsigned int line)
{
	char source[300];

	text_buf_empty(&g->text);
	text_buf_add(&g->text, what);
	export_text_clean(&g->text, name);
	text_buf_add(&g->text, "\n");
	export_text_clean(&g->text, place);
	text_buf_add(&g->text, "\n");
	text_source(file, line, source, sizeof(source));
	text_buf_add(&g->text, source);
	text_buf_add(&g->text, *source ? "\n" : "");
	return g->text.failed ? NULL : node_of_text(g, kind, text_buf_text(&g->text));
}

bool graph_add_access(struct graph *g, const struct view_access *a)
{
	const struct location *l = a->location;
	char place[CELL_TEXT], where[CELL_TEXT + 8], what[48];
	struct graph_node *site;

	text_place(l->module, l->module_offset, l->frame[l->nframes - 1].function, l->offset,
		   a->ip ? a->ip : a->raw->regs.r[WREG_RIP], place, sizeof(place));
	snprintf(where, sizeof(where), "%s%s", a->ip ? "" : "then ", place);
	snprintf(what, sizeof(what), "%s%s ", text_kind_name(a->kind),
		 a->origin == ORIGIN_KERNEL ? " by the kernel" : "");
	site = site_of(g, GRAPH_ACCESS, what, a->watch->e.name, where, l->frame[0].file, l->frame[0].line);
	if (site)
		site->access = a->kind;
	return add_stack(g, a->frame, a->nframes, a->walk_end, site);
}

bool graph_add_capture(struct graph *g, const struct view_capture *c)
{
	const struct view_frame *f = c->frame, *real = f;
	char place[CELL_TEXT] = "(no stack)";

	while (c->nframes && real + 1 < f + c->nframes && real->inlined)
		real++;
	if (c->nframes)
		text_place(real->module, real->module_offset, real->function, real->offset, real->ip, place,
			   sizeof(place));
	return add_stack(g, f, c->nframes, c->walk_end,
			 site_of(g, GRAPH_CAPTURE, "tag ", c->tag->text, place, c->nframes ? f->file : NULL,
				 c->nframes ? f->line : 0));
}

bool graph_add_call(struct graph *g, const struct view_function *caller, const struct view_function *function)
{
	struct graph_node *at = NULL, *to = node_of_names(g, function->text, function->e.module);

	g->stacks++;
	if (caller) {
		at = node_of_names(g, caller->text, caller->e.module);
		if (!at)
			return false;
	}
	return export_graph_step(g, &at, to);
}

/* Cutting down */

static int by_node_count(const void *a, const void *b)
{
	const struct graph_node *const *px = a, *const *py = b;
	const struct graph_node *x = *px, *y = *py;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->index > y->index) - (x->index < y->index);
}

static int by_edge_count(const void *a, const void *b)
{
	const struct graph_edge *const *px = a, *const *py = b;
	const struct graph_edge *x = *px, *y = *py;
	bool kept_x = x->from->kept && x->to->kept, kept_y = y->from->kept && y->to->kept;

	if (kept_x != kept_y)
		return kept_x ? -1 : 1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	if (x->from != y->from)
		return (x->from->index > y->from->index) - (x->from->index < y->from->index);
	return (x->to->index > y->to->index) - (x->to->index < y->to->index);
}

/* Marks the first @max nodes that are sites, or that are not. Returns how many. */
static size_t export_graph_keep(struct graph *g, bool sites, size_t max)
{
	size_t i, n = 0;

	for (i = 0; i < g->nnodes && n < max; i++)
		if ((g->node[i]->kind != GRAPH_FUNCTION) == sites) {
			g->node[i]->kept = true;
			n++;
		}
	return n;
}

void graph_cut(struct graph *g, size_t max, size_t *nedges, struct graph_rest *rest)
{
	size_t i, sites;

	*rest = (struct graph_rest){ 0 };
	if (g->nnodes)
		qsort(g->node, g->nnodes, sizeof(struct graph_node *), by_node_count);
	sites = export_graph_keep(g, true, max - max / 2);
	export_graph_keep(g, false, max - sites);
	if (g->nedges)
		qsort(g->edge, g->nedges, sizeof(struct graph_edge *), by_edge_count);
	for (*nedges = 0; *nedges < g->nedges && *nedges / 2 < max; ++*nedges)
		if (!g->edge[*nedges]->from->kept || !g->edge[*nedges]->to->kept)
			break;
	rest->edges = g->nedges - *nedges;
	for (i = 0; i < g->nnodes; i++) {
		const struct graph_node *n = g->node[i];

		rest->functions += !n->kept && n->kind == GRAPH_FUNCTION;
		rest->sites += !n->kept && n->kind != GRAPH_FUNCTION;
		rest->stacks += !n->kept && n->kind != GRAPH_FUNCTION ? n->count : 0;
	}
}

void graph_deinit(struct graph *g)
{
	struct graph_alias *a, *after;
	size_t i;

	for (i = 0; i < g->by_names.cap; i++)
		for (a = g->by_names.slot[i].used ? g->by_names.slot[i].value : NULL; a; a = after) {
			after = a->same_hash;
			free(a);
		}
	for (i = 0; i < g->nnodes; i++) {
		free(g->node[i]->text);
		free(g->node[i]);
	}
	for (i = 0; i < g->nedges; i++)
		free(g->edge[i]);
	free(g->node);
	free(g->edge);
	map64_deinit(&g->by_names);
	map64_deinit(&g->by_text);
	map64_deinit(&g->by_ends);
	text_buf_deinit(&g->text);
}
