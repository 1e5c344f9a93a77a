/* ending - how a program of ours begins and ends: signals of writing, what was printed, the exit status. */
#ifndef WATCHCTL_CLI_OUTPUT_ENDING_H
#define WATCHCTL_CLI_OUTPUT_ENDING_H

#include "watchctl/base/error.h"
#include "watchctl/trace/log/tracelog.h"

/*
 * A reader that went away (`| head`: the command ends, in order) and a file size limit (an error) are to be handled
 * from now on, and are no deaths.
 * Programs that we start have the actions that we were started with.
 */
void survive_write_signals(void);

/* What was written to standard output past its FILE did not arrive, because of this errno. */
void stdout_has_failed(int sys_errno);

/* What a command that has read @log to its end returns: WC_ELOG when @d says that it is not whole. Warns of the rest.
 */
struct wc_error *end_of_log(const char *log, const struct log_damage *d);

/* Flushes standard output, prints @err if there is one, and frees it. The exit status. */
int end_with(struct wc_error *err);

#endif
