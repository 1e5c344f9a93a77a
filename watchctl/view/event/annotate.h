/*
 * annotate - raw event -> access with instruction, kind and named frames.
 *
 * Keeps what earlier events reported: modules, threads, watches, code facts. Works the same on a live
 * stream and on a log. A watch for reads only is armed for reads and writes (x86 has no other);
 * what resolves to a pure write is counted as dropped and not shown.
 */
#ifndef WATCHCTL_VIEW_EVENT_ANNOTATE_H
#define WATCHCTL_VIEW_EVENT_ANNOTATE_H

#include "watchctl/code/insn/insn.h"
#include "watchctl/view/event/view.h"

#define ANNOTATE_STACK 1u     /* name every frame; of captures, the innermost one is named in any case */
#define ANNOTATE_TEXT 2u      /* values and instructions as people read them */
#define ANNOTATE_NO_VALUES 4u /* but no values: where accesses are only counted */

#define ANNOTATE_CALLS 8u /* of calls, parameters, results and stacks too: without, they are only counted */

struct annotate;

/*
 * @shared: a symbolizer that somebody else keeps up to date with the modules, and that outlives
 * the annotate; NULL: it makes its own and feeds it from the events. NULL: no memory.
 */
struct annotate *annotate_new(struct symbolizer *shared, unsigned int flags);

/* Up to VIEWS_MAX, called in the order added. */
void annotate_add_view(struct annotate *a, struct view v);

/* How it writes instructions; before the first event. Otherwise INSN_INTEL. */
void annotate_set_syntax(struct annotate *a, enum insn_syntax syntax);
enum insn_syntax annotate_syntax(const struct annotate *a);

/* Events go in here. Fails only for lack of memory. */
struct event_sink annotate_sink(struct annotate *a);

/* After the last event: summaries of the watches that have none, from what was seen. */
void annotate_finish(struct annotate *a);

/* @size bytes of @w's variable as people read them: "42", "RED", "0x55.. name+8". */
void annotate_value(struct annotate *a, const struct view_watch *w, unsigned int size, uint64_t raw,
		    char *buf, size_t len);

/* The one that names its frames: it knows the modules as they are now. */
struct symbolizer *annotate_symbolizer(struct annotate *a);

/* Accepts NULL. */
void annotate_free(struct annotate *a);
void annotate_freep(struct annotate **a);

#endif
