/* explain_stack - the stacks of an explanation with names, inlined functions as frames of their own. */
#ifndef WATCHCTL_CLI_FLOW_EXPLAIN_STACK_H
#define WATCHCTL_CLI_FLOW_EXPLAIN_STACK_H

#include <stddef.h>

#include "watchctl/flow/explain/explanation.h"
#include "watchctl/view/event/view.h"

struct explain_stacks; /* names of processes, kept from one stack to the next */

struct explain_stacks *explain_stacks_new(void);    /* NULL: no memory */
void explain_stacks_free(struct explain_stacks *s); /* accepts NULL */
void explain_stacks_freep(struct explain_stacks **s);

/* Of @x, at most @most recorded frames (0: all). Valid until the next call; *n 0: it has none, or there is no memory. */
const struct view_frame *explain_stack(struct explain_stacks *s, const struct explained *x, unsigned int most,
				       size_t *n);

/* Why it ends where it does, with at most @most. */
enum walk_end explain_stack_end(const struct explained *x, unsigned int most);

#endif
