/*
 * flow_page - the graph of causes of a log as one HTML file that needs nothing else: a lane a thread, units of work as boxes, what brought
 * them about as arrows, and the way back from a unit to what began it all; to be looked at in a browser, and searched.
 *
 * Besides the graph, which is in memory as a whole, the page takes up to 45 bytes a unit or edge, and twice FLOW_PAGE_TEXT_BYTES while it
 * is made; the browser about 80 a unit and 54 an edge. Of more than FLOW_PAGE_UNITS units or FLOW_PAGE_EDGES edges it has the first ones, and
 * says how many it has not.
 */
#ifndef WATCHCTL_CLI_FLOW_PAGE_FLOW_PAGE_H
#define WATCHCTL_CLI_FLOW_PAGE_FLOW_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/cli/flow/graph/flow_graph_ask.h"

#define FLOW_PAGE_UNITS ((size_t)2000000)
#define FLOW_PAGE_EDGES ((size_t)4000000)
#define FLOW_PAGE_TEXT_BYTES ((size_t)32000000)

/* The unit whose path is shown as the page opens, as it was at @ns; FLOW_NONE: none. */
struct flow_page_start {
	uint32_t node;
	uint64_t ns;
};

/* Reads the log, writes what @ask wants of it to @file: "-" is standard output, see page_file.h. Errors as of flow_graph_show(). */
struct wc_error *flow_page_write(const struct flow_graph_ask *ask, const char *file);

/* The same of a log that was read. */
struct wc_error *flow_page_put(const struct flow_shown *s, const struct flow_graph_ask *ask,
			       struct flow_page_start start, const char *file);

#endif
