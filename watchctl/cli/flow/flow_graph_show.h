/*
 * flow_graph_show - prints the graph of causes of a log, or one path in it. Texts are the caller's.
 */
#ifndef WATCHCTL_CLI_FLOW_FLOW_GRAPH_SHOW_H
#define WATCHCTL_CLI_FLOW_FLOW_GRAPH_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

#define FLOW_RULES_ASKED 16

struct flow_graph_ask {
	const char *log;
	const char *around;  /* a time, see time_bound.h; NULL: all */
	uint64_t window_ns;  /* of units around that, in all; 0: a second */
	const char *process; /* units of it, and edges from or to them; see flow_threads_match(); NULL: all */
	const char *to_where; /* of a path: "app/1234 at 12:03:05.2", or without the time: the last unit */
	const char *rules[FLOW_RULES_ASKED]; /* names of sets or of files, later ones win: see flow_rules.h */
	size_t nrules;
	enum { FLOW_GRAPH_JSON, FLOW_GRAPH_DOT } form;
	bool json; /* of a path: objects `link` */
	bool utc;  /* times that are given are UTC, and those that are printed */
};

/* To stdout. WC_EUSAGE, WC_ENAME: no such thread or time; WC_ELOG. */
struct wc_error *flow_graph_show(const struct flow_graph_ask *ask);
struct wc_error *flow_path_show(const struct flow_graph_ask *ask);

#endif
