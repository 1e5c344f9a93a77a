/* core_thread - the events of one thread in a core, into its file of a log's calls. */
#ifndef WATCHCTL_TRACE_CORE_CORE_THREAD_H
#define WATCHCTL_TRACE_CORE_CORE_THREAD_H

#include "watchctl/trace/core/core_rings.h"

/* Of all threads so far. */
struct core_thread_sums {
	uint64_t unreadable; /* threads of which something is not in the core, or damaged */
	uint64_t in_turn;    /* that were writing events when the program died */
	uint64_t given;	     /* calls that are entered where the events begin */
	uint64_t last_tsc;   /* of the last event */
};

/* Writes the events of @t to @place, and marks the functions of @r that are in them. WC_ELOG: it cannot write. */
struct wc_error *core_thread_write(struct core_rings *r, const struct thread *t, struct output_place *place,
				   struct core_thread_sums *sums);

#endif
