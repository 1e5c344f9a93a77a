/* probe_cc - runs a compiler: no shell, nothing to read, a limit of time, and no way out that leaves it running. */
#ifndef WATCHCTL_PATCH_PROBE_PROBE_CC_H
#define WATCHCTL_PATCH_PROBE_PROBE_CC_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/error.h"

struct probe_cc_run {
	char *const *argv; /* argv[0] is looked up in $PATH */
	int stderr_fd;	   /* where all that it prints goes; -1: to our standard error */
	uint64_t patience_ns;
};

/*
 * *@ok: it ended by itself, and with success. WC_EUSAGE: there is no such program. WC_EFAIL: it was ended, after
 * @patience_ns, or because a signal waits for us that probe_cc_hold() holds back.
 */
struct wc_error *probe_cc_run(const struct probe_cc_run *q, bool *ok);

struct probe_cc_signals;

/* Holds back the signals that would end us, so that what was made can be removed first. NULL: no memory. */
struct probe_cc_signals *probe_cc_hold(void);
void probe_cc_release(struct probe_cc_signals *s); /* accepts NULL */

static inline void probe_cc_releasep(struct probe_cc_signals **s)
{
	probe_cc_release(*s);
}

#endif
