/*
 * trigger - a condition about the program, looked at with each access that is recorded.
 *
 * The language is condition.h's. Its words here:
 *
 *	truths	"read" | "write" | "execute" | "kernel" | "caller" function
 *	values	"true" | "false" | "NULL" | enumerator | "new" | "old" | "size" | "thread" | "watch" | a watch's name | register
 *
 * The name of a watch stands for its value after the last access to it, including this one; before the first access, for
 * its value when it was armed. Names with characters other than letters, digits and _ . : [ ] -> are written in {braces}.
 * "new", "old" and "size" are those of this access; "thread" is the name of its thread (compared with a text) or its id;
 * "watch" is the name of the watch that was hit. "caller f" holds if f, or a function inlined from it, is in the stack: f is
 * a name or a pattern (glob(7)), with or without its parameters and namespaces. A condition on an unknown value does not
 * hold, and neither does its negation.
 */
#ifndef WATCHCTL_VIEW_TRIGGER_TRIGGER_H
#define WATCHCTL_VIEW_TRIGGER_TRIGGER_H

#include "watchctl/view/event/view.h"

struct trigger;

/*
 * @watches: the names that the condition may use, as the user typed them. WC_EUSAGE: it is malformed, with a
 * caret below the place; WC_ENAME: a name in it is no watch's (enumerators are known only when a watch is
 * armed, so a word next to a comparison with a watch may be one).
 */
struct wc_error *trigger_compile(const char *text, const char *const *watches, unsigned int nwatches,
				 struct trigger **ret);

/* Whether it looks at stacks: the annotate that feeds it needs ANNOTATE_STACK then. */
bool trigger_needs_stack(const struct trigger *t);

/*
 * A view that calls @fire for each access after which the condition holds, and did not hold after the one
 * before. A condition that is true of single accesses (new, caller, thread ...) fires at each of them.
 */
struct view trigger_view(struct trigger *t, void (*fire)(void *ctx, const struct view_access *a), void *ctx);

/* A word that is compared with a watch, and turned out to be no enumerator of its type; NULL: none so far. */
const char *trigger_unknown_word(const struct trigger *t);

/* Accepts NULL. */
void trigger_free(struct trigger *t);
void trigger_freep(struct trigger **t);

#endif
