/* flow_graph_who - what a user calls a thread, and a time, of a log of the system's events. */
#ifndef WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_WHO_H
#define WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_WHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"

/* Is @node's thread meant by @who (flow_threads_match()), by the name at the unit's begin or by that it has at @ns? */
bool flow_who_is(const struct flow_shown *s, uint32_t node, const char *who, uint64_t ns);

/* WC_EUSAGE: @who, which @option got, names nobody. */
struct wc_error *flow_who_check(const char *option, const char *who);

/* Of "app/1234 at TIME" a copy of what is before " at ", the caller's to free, and the time, NULL where there is none. NULL: no memory. */
char *flow_who_split(const char *where, const char **time);

/* WC_ENAME: no thread of the log is @who, in a sentence with names that are like it. */
struct wc_error *flow_who_unknown(const struct flow_shown *s, const char *log, const char *who);

/* The time of day, "12:03:05.200000", or seconds after the log's beginning where the log does not know it. */
void flow_when_words(const struct flow_shown *s, uint64_t ns, bool utc, char *buf, size_t cap);

/* WC_EUSAGE: nothing from @from_ns to @to_ns, which @option means, is in the log; says what is. */
struct wc_error *flow_when_check(const struct flow_shown *s, const char *option, uint64_t from_ns,
				 uint64_t to_ns, bool utc);

#endif
