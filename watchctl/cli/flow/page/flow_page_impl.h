/* flow_page_impl - what the files of flow_page share. */
#ifndef WATCHCTL_CLI_FLOW_PAGE_FLOW_PAGE_IMPL_H
#define WATCHCTL_CLI_FLOW_PAGE_FLOW_PAGE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/cli/flow/graph/flow_graph_choice.h"
#include "watchctl/cli/flow/graph/flow_wait_stacks.h"
#include "watchctl/cli/flow/page/flow_page.h"
#include "watchctl/view/callpage/callpage_texts.h"
#include "watchctl/view/page/page_bytes.h"
#include "watchctl/view/words/json.h"

struct flow_page {
	const struct flow_shown *s;
	const struct flow_graph_ask *ask;
	struct flow_choice choice;
	struct flow_page_start start;
	uint64_t begin_ns; /* of the page */
	bool *chosen;	   /* by node */
	uint32_t *lane;	   /* by thread: its number in the page, or FLOW_NONE */
	uint32_t *thread;  /* by lane: in the order in which they did something first */
	size_t nlanes, lanes_cap;
	uint32_t *stack; /* by flow_wait_stacks.stack: its number in the page, or 0 */
	uint64_t stacks;
	uint64_t units, edges, units_left_out, edges_left_out;
	struct callpage_texts texts;
	struct page_bytes unit_bytes, edge_bytes, stack_bytes;
};

/*
 * Into unit_bytes, edge_bytes and stack_bytes, and the texts. False: no memory. One after the other, in numbers of page_bytes.h, where "signed" is twice the
 * number, or twice what it is below 0, less one:
 *
 *	a unit	nanoseconds since the one before began (the first: since the page's begin), signed; how long it took; its lane; the graph's
 *		number of it, less that of the one before, less 1; the text; 1 if edges into it are not in the page, else 0
 *
 *	of each unit, in the order of the units: how many edges lead into it, and of each, in the order in which they were found:
 *		kind + 16 * flags; 0 if it is not known where it comes from, or one more than how many units before this one that is, signed;
 *		nanoseconds from the unit's begin to its end, signed; how long it took; the text; of a wait_for: the number of its stack, or 0
 *
 *	a stack	the text of the innermost function that is the program's own; the text that says why there are no more frames; how many there are,
 *		and of each, the innermost first, the text. The numbers of stacks are from 1 on
 */
bool flow_page_encode(struct flow_page *p);

/* The number of @stack, which is put into stack_bytes when it is first asked for; NULL: 0. *@ok becomes false for lack of memory. */
uint64_t flow_page_stack(struct flow_page *p, const struct flow_wait_stack *stack, bool *ok);

/* The data of the script besides them. False: no memory. */
bool flow_page_json(const struct flow_page *p, struct json *j);
bool flow_page_texts_json(const struct flow_page *p, struct json *j);

#endif
