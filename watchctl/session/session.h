/*
 * session - runs sources until a limit is reached or one of them ends. The one loop, the one clock of the limits.
 */
#ifndef WATCHCTL_SESSION_SESSION_H
#define WATCHCTL_SESSION_SESSION_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/session/source.h"

#define SESSION_SOURCES 4u

struct session_limits {
	uint64_t count;			   /* events, see source_ops.count; 0: no limit */
	uint64_t time_ns;		   /* 0: no limit */
	const volatile sig_atomic_t *stop; /* becomes true when the user has had enough; may be NULL */
	struct wc_error *(*tick)(
		void *ctx); /* called between two rounds of pumps, every tick_ns; may be NULL */
	void *tick_ctx;
	uint64_t tick_ns; /* 0: 200 ms */
};

/*
 * Pumps the @n sources in turn; the first that has not ended does the waiting. When a limit is reached or a source has
 * ended, the others are asked to stop and pumped until they have ended. *@ret: how the first ended; or the limit, unless
 * a source gives a better reason while it stops. After an error nothing is pumped any more; if it is of a source, the
 * others are asked to stop.
 */
struct wc_error *session_run(const struct source *source, size_t n, const struct session_limits *limits,
			     enum session_end *ret);

#endif
