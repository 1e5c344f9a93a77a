/* flow_stack_words - the stack of a long wait, for people and for programs. Of NULL, which is no stack, nothing is said. */
#ifndef WATCHCTL_CLI_FLOW_GRAPH_FLOW_STACK_WORDS_H
#define WATCHCTL_CLI_FLOW_GRAPH_FLOW_STACK_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/cli/flow/graph/flow_wait_stacks.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/words/json.h"

/* Its first frames, below a line on standard output that is about the wait. */
void flow_stack_print(struct printer *p, const struct flow_wait_stack *stack);

/* Members of an object that is open: stack, stack_end. */
void flow_stack_json(struct json *j, const struct flow_wait_stack *stack);

/* The innermost frame of a function with a name that is not the C library's or the loader's; NULL: there is none. */
const struct view_frame *flow_stack_own(const struct flow_wait_stack *stack);

/* The name of that, as people speak of it, and clean. False: there is none. */
bool flow_stack_function(const struct flow_wait_stack *stack, char *buf, size_t cap);

#endif
