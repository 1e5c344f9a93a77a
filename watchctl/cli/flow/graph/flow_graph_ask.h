/* flow_graph_ask - what of a log's graph of causes was asked for, and in which form. Texts are the caller's. */
#ifndef WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_ASK_H
#define WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOW_RULES_ASKED 16

struct flow_graph_ask {
	const char *log;
	const char *around;  /* a time, see time_bound.h; NULL: all */
	uint64_t window_ns;  /* of units around that, in all; 0: a second */
	const char *process; /* units of it, and edges from or to them; see flow_threads_match(); NULL: all */
	const char *baseline; /* of an explanation: a log of a good time, or NULL */
	const char *to_where; /* of a path: "app/1234 at 12:03:05.2", or without the time: the last unit */
	const char *rules[FLOW_RULES_ASKED]; /* names of sets or of files, later ones win: see flow_rules.h */
	size_t nrules;
	enum { FLOW_GRAPH_JSON, FLOW_GRAPH_DOT } form;
	bool json;	  /* of a path: objects `link` */
	const char *html; /* of a path: a page of all, opened at it, into that file; NULL: printed */
	bool utc;	  /* times that are given are UTC, and those that are printed */
};

#endif
