/*
 * unheld - reports threads that did not wait at a hook until we had done what it is for: once when it
 * begins, and with the number of all of them when we have caught up.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_UNHELD_H
#define WATCHCTL_ENGINE_INTAKE_UNHELD_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/event.h"

/* Zero-initialise. */
struct unheld {
	uint32_t reported;
	bool lags; /* we are behind, and have reported it */
};

/* Whether we are behind now. */
static inline void unheld_lags(struct unheld *u, bool behind)
{
	u->lags = u->lags && behind;
}

/* It need not be reported now. */
static inline bool unheld_is_reported(const struct unheld *u)
{
	return u->lags;
}

extern const char unheld_in_time[]; /* nobody answered them */

/* @n in all so far, because of @why. */
struct wc_error *unheld_report(struct unheld *u, uint32_t n, const char *why, struct event_sink sink);

#endif
