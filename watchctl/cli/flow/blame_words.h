/* blame_words - why threads of a log do not go on, in sentences. Texts are clean: names may have anything in them. */
#ifndef WATCHCTL_CLI_FLOW_BLAME_WORDS_H
#define WATCHCTL_CLI_FLOW_BLAME_WORDS_H

#include <stdint.h>

#include "watchctl/base/text_buf.h"
#include "watchctl/cli/flow/graph/flow_wait_stacks.h"
#include "watchctl/flow/blame/blame.h"

/* "app/1234". */
void blame_put_who(struct text_buf *t, const struct blame_log *b, uint32_t thread);

/* "lock 0x7f..", "read on pipe 77": the wait that goes on, or the last one. */
void blame_put_wait(struct text_buf *t, const struct blame_log *b, uint32_t thread);

/* The stack of the wait of @thread that goes on; NULL: none was taken, or it does not wait. */
const struct flow_wait_stack *blame_stack(const struct blame_log *b, const struct flow_wait_stacks *stacks,
					  uint32_t thread);

/*
 * "sleeps, in clock_nanosleep (in take_order), since 2.31 s", "died by signal 9": of a thread, as a verdict about it says. @stacks
 * name the functions.
 */
void blame_put_state(struct text_buf *t, const struct blame *b, const struct flow_wait_stacks *stacks,
		     const struct blamed *c);

/* One sentence: of the best culprit, or that there is none. */
void blame_put_sentence(struct text_buf *t, const struct blame *b, const struct flow_wait_stacks *stacks);

/* How it is known for whom @thread waits. */
void blame_put_evidence(struct text_buf *t, const struct blame *b, uint32_t thread);

/* "lock", "peer": as explain_kind_name(), of the wait of @thread. */
const char *blame_kind_name(const struct blame *b, uint32_t thread);

/* " (in take_order)": the function of that stack; nothing where that is not known. */
void blame_put_function(struct text_buf *t, const struct flow_wait_stack *stack);

/* "write on pipe 7, 3.2 s before": the last call of it that returned; nothing where there is none. */
void blame_put_last(struct text_buf *t, const struct blame_log *b, uint32_t thread);

#endif
