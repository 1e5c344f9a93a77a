/*
 * export_graph - who calls whom, on the ways to accesses, to captures, and in recorded calls: functions and
 * sites by count, and the edges between them. Bounded by how many different ones there are.
 *
 * Each counts the stacks that go through it, however often one does: recursion counts once.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_GRAPH_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_GRAPH_H

#include "watchctl/base/map64.h"
#include "watchctl/view/export/export_calls.h"
#include "watchctl/view/export/export_text.h"

enum graph_kind { GRAPH_FUNCTION, GRAPH_ACCESS, GRAPH_CAPTURE };

struct graph_node {
	struct graph_node *same_hash;
	enum graph_kind kind;
	enum access_kind access; /* of GRAPH_ACCESS */
	char *text;		 /* what it is called; lines end with '\n' */
	uint64_t count;
	uint64_t stack; /* the number of that which was counted last */
	uint32_t index;
	bool kept;
};

struct graph_edge {
	struct graph_node *from, *to;
	uint64_t count, stack;
};

/* Zero-initialised is empty. */
struct graph {
	struct map64 by_names; /* two pointers -> struct graph_alias */
	struct map64 by_text;  /* hash -> struct graph_node */
	struct map64 by_ends;  /* two indexes -> struct graph_edge */
	struct graph_node **node;
	size_t nnodes, node_cap;
	struct graph_edge **edge;
	size_t nedges, edge_cap;
	uint64_t stacks; /* counted so far, of calls too */
	struct text_buf text;
};

/* False: no memory. */
bool graph_add_access(struct graph *g, const struct view_access *a);
bool graph_add_capture(struct graph *g, const struct view_capture *c);
/* @caller NULL: none. */
bool graph_add_call(struct graph *g, const struct view_function *caller,
		    const struct view_function *function);

/* What is left out of a graph that is cut down to @max nodes. */
struct graph_rest {
	size_t functions, sites, edges;
	uint64_t stacks; /* that end at those sites */
};

/*
 * Sorts nodes and edges, most stacks first, and marks those nodes that are kept: sites take up to half of
 * @max, functions the rest; of the edges between them, the first *@nedges, twice as many as nodes at most.
 */
void graph_cut(struct graph *g, size_t max, size_t *nedges, struct graph_rest *rest);

void graph_deinit(struct graph *g);

#endif
