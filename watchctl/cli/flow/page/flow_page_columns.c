/* Units and edges as numbers for the script. */
#include <stdlib.h>

#include "watchctl/base/vec.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/cli/flow/graph/flow_graph_words.h"
#include "watchctl/cli/flow/page/flow_page_impl.h"
#include "watchctl/flow/rules/flow_edge_kind.h"

/* Carried from one unit to the next. */
struct run {
	struct flow_page *p;
	uint32_t *number; /* of a node in the page */
	uint32_t *in;	  /* edges into one unit, the last one first */
	size_t nin, in_cap;
	uint64_t last_ns;
	uint32_t last; /* node + 1 */
	bool ok;
};

static void put(struct run *r, struct page_bytes *to, uint64_t v)
{
	r->ok = r->ok && page_bytes_number(to, v);
}

static void put_signed(struct run *r, struct page_bytes *to, int64_t v)
{
	put(r, to, v < 0 ? (uint64_t)-v * 2 - 1 : (uint64_t)v * 2);
}

static void put_text(struct run *r, struct page_bytes *to, const char *text)
{
	put(r, to, callpage_text(&r->p->texts, text, &r->ok));
}

static bool is_kept(const struct flow_page *p, const struct flow_edge *e)
{
	return flow_choice_has_edge(&p->choice, e) && (e->from == FLOW_NONE || p->chosen[e->from]);
}

/* True: all edges into it are in the page. */
static bool find_edges(struct run *r, uint32_t node)
{
	struct flow_page *p = r->p;
	bool all = true;

	r->nin = 0;
	for (uint32_t i = p->s->node[node].last_in; i != FLOW_NONE; i = p->s->edge[i].next_in) {
		const bool kept = is_kept(p, &p->s->edge[i]);

		if (kept && p->edges + r->nin < FLOW_PAGE_EDGES)
			r->ok = r->ok && vec_push(r->in, r->nin, r->in_cap, i);
		else
			all = false;
		p->edges_left_out += kept && p->edges + r->nin >= FLOW_PAGE_EDGES;
	}
	p->edges += r->nin;
	return all;
}

static uint32_t lane_of(struct run *r, uint32_t thread)
{
	struct flow_page *p = r->p;

	if (p->lane[thread] == FLOW_NONE) {
		p->lane[thread] = (uint32_t)p->nlanes;
		r->ok = r->ok && vec_push(p->thread, p->nlanes, p->lanes_cap, thread);
	}
	return p->lane[thread];
}

static void put_unit(struct run *r, uint32_t node, bool all)
{
	const struct flow_node *n = &r->p->s->node[node];
	struct page_bytes *to = &r->p->unit_bytes;
	char words[FLOW_WORDS];

	flow_node_words(n, words);
	put_signed(r, to, (int64_t)(n->begin_ns - r->last_ns));
	put(r, to, n->end_ns > n->begin_ns ? n->end_ns - n->begin_ns : 0);
	put(r, to, lane_of(r, n->thread));
	put(r, to, node - r->last);
	put_text(r, to, words);
	put(r, to, !all);
	r->last_ns = n->begin_ns;
	r->last = node + 1;
}

static void put_edge(struct run *r, const struct flow_edge *e)
{
	struct page_bytes *to = &r->p->edge_bytes;
	const int64_t back = e->from == FLOW_NONE ? 0 : (int64_t)r->number[e->to] - r->number[e->from];
	char words[FLOW_WORDS];

	flow_edge_words(r->p->s, e, words);
	put(r, to, e->kind | (uint64_t)e->flags << 4);
	if (e->from == FLOW_NONE)
		put(r, to, 0);
	else
		put(r, to, 1 + (back < 0 ? (uint64_t)-back * 2 - 1 : (uint64_t)back * 2));
	put_signed(r, to, (int64_t)(e->to_ns - r->p->s->node[e->to].begin_ns));
	put(r, to, e->to_ns > e->from_ns ? e->to_ns - e->from_ns : 0);
	put_text(r, to, words);
	if (e->kind == FLOW_EDGE_WAIT_FOR)
		put(r, to, flow_page_stack(r->p, flow_shown_stack(r->p->s, e), &r->ok));
}

/* An edge may lead from a unit that comes later. */
static bool number_units(struct run *r)
{
	struct flow_page *p = r->p;

	r->number = calloc(p->s->nnodes + 1, sizeof(*r->number));
	if (!r->number)
		return false;
	for (size_t i = 0; i < p->s->nnodes; i++) {
		if (!p->chosen[i])
			continue;
		if (p->units == FLOW_PAGE_UNITS) {
			p->chosen[i] = false;
			p->units_left_out++;
			continue;
		}
		r->number[i] = (uint32_t)p->units++;
	}
	return true;
}

bool flow_page_encode(struct flow_page *p)
{
	struct run r = { .p = p, .last_ns = p->begin_ns };

	r.ok = number_units(&r);
	for (uint32_t i = 0; r.ok && i < p->s->nnodes; i++) {
		if (!p->chosen[i])
			continue;
		put_unit(&r, i, find_edges(&r, i));
		put(&r, &p->edge_bytes, r.nin);
		while (r.nin > 0)
			put_edge(&r, &p->s->edge[r.in[--r.nin]]);
	}
	free(r.number);
	free(r.in);
	return r.ok;
}
