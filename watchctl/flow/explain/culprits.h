/* culprits - of the graph of an explanation, the cycles and the ends of the chains that begin at the process, best first. */
#ifndef WATCHCTL_FLOW_EXPLAIN_CULPRITS_H
#define WATCHCTL_FLOW_EXPLAIN_CULPRITS_H

#include <stdbool.h>

#include "watchctl/flow/explain/explanation.h"

#define CULPRITS_MAX 8

/* Fills in e->culprit of @e, whose threads, edges and @stuck are there. False: no memory. */
bool culprits_find(struct explanation *e);

#endif
