/*
 * blame - why threads do not go on when a log of the system's events ends: from suspects over whom each waits for, to the end: a circle, or a
 * thread that runs, sleeps, is stopped, has ended, or waits for what the events do not show.
 */
#ifndef WATCHCTL_FLOW_BLAME_BLAME_H
#define WATCHCTL_FLOW_BLAME_BLAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/blame/link.h"
#include "watchctl/flow/explain/explanation.h"

/* Of all threads, only what goes on for so long, or for half of the log, is suspect: a wait, or running without one. */
#define BLAME_LONG_NS 1000000000u

struct blamed {
	uint32_t who;
	enum verdict verdict;
	bool guessed; /* a link of the path is */
	uint32_t waiters, score;
	uint32_t *path;	      /* owned: threads, from a suspect to @who, then round the circle */
	size_t npath, circle; /* circle: index of its first in @path, which is @who; npath: there is none */
};

struct blame {
	struct blame_log log;
	struct blame_link *link; /* of each thread; owned */
	struct blamed *culprit;	 /* owned; best first */
	size_t n, cap;
	size_t suspects;
};

/*
 * Of the threads with @chosen (of as many as the graph has), or where that is NULL of all that do not seem idle. @ret is the
 * caller's to blame_deinit(). wc_enomem.
 */
struct wc_error *blame_find(const struct flow_graph *g, const struct seen *s, const bool *chosen,
			    struct blame *ret);

/* Likewise, but @thread is known to wait as @link says, also where the log alone says otherwise. */
struct wc_error *blame_find_knowing(const struct flow_graph *g, const struct seen *s, const bool *chosen,
				    uint32_t thread, const struct blame_link *link, struct blame *ret);
void blame_deinit(struct blame *b);

/* It is on a CPU, or could be, since so long without a wait, that nothing else explains it. */
bool blame_spins(const struct blame_log *b, uint32_t thread);

#endif
