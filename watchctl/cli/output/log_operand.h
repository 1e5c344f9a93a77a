/*
 * log_operand - LOG on a command line, which may be the core of a dead program instead: its calls are made a log of, in a
 * folder below $TMPDIR that goes when this process ends, by SIGINT, SIGTERM and SIGHUP too.
 */
#ifndef WATCHCTL_CLI_OUTPUT_LOG_OPERAND_H
#define WATCHCTL_CLI_OUTPUT_LOG_OPERAND_H

#include "watchctl/base/error.h"

/* *@log, unless it is a core, stays; of a core it becomes that log, whose name is valid to the end. WC_ELOG. */
struct wc_error *log_operand_open(const char **log);

/* As the user has called it, for sentences. */
const char *log_operand_name(const char *log);

#endif
