/* flow_wait_stacks - the stacks of long waits that a log of the system's events has (trace/flow/flow_stack_tag.h), with names. */
#ifndef WATCHCTL_CLI_FLOW_GRAPH_FLOW_WAIT_STACKS_H
#define WATCHCTL_CLI_FLOW_GRAPH_FLOW_WAIT_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/code/unwind/unwind_rule.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/view.h"

/* Many waits have the same. Strings live as long as flow_wait_stacks.names. */
struct flow_wait_stack {
	struct view_frame *frame;
	size_t n;
	enum walk_end end;
};

struct flow_wait_seen {
	uint64_t time_ns; /* it waited then */
	int32_t tid;
	uint32_t stack;
};

/* Zero-initialised is empty. */
struct flow_wait_stacks {
	struct flow_wait_stack *stack;
	size_t nstacks, stacks_cap;
	struct flow_wait_seen *seen; /* by thread and time */
	size_t nseen, seen_cap;
	struct map64 index; /* a hash of a stack -> its number + 1 */
	struct annotate *names;
};

/* None, and no error, of a log that has none. wc_enomem, or @log cannot be read. */
struct wc_error *flow_wait_stacks_read(const char *log, struct flow_wait_stacks *ret);

/* That of thread @tid in its wait from @from_ns to @to_ns; NULL: none was taken. */
const struct flow_wait_stack *flow_wait_stack_of(const struct flow_wait_stacks *s, int32_t tid,
						 uint64_t from_ns, uint64_t to_ns);

void flow_wait_stacks_deinit(struct flow_wait_stacks *s);

#endif
