/*
 * ready_options - --ready-fd N: whoever started us hears when he can rely on what was asked for. The same for every
 * command that attaches to a process; a command's table holds these, for the struct ready_ask in its request.
 */
#ifndef WATCHCTL_CLI_OUTPUT_READY_OPTIONS_H
#define WATCHCTL_CLI_OUTPUT_READY_OPTIONS_H

#include "watchctl/cli/options/options.h"

struct ready_ask {
	int fd; /* open for writing; 0: nobody asks */
};

extern const struct option ready_options[];

/*
 * Before anything is started: programs that we execute do not inherit the descriptor, so that its end is closed when
 * we end without having been ready. WC_EUSAGE: it is not open for writing.
 */
struct wc_error *ready_check(const struct ready_ask *q);

/* Now: writes one byte, a newline, and closes it. A failure is said on standard error, and changes nothing else. */
void ready_tell(struct ready_ask *q);

#endif
