/* log_settle - for who reads a log that is not whole yet, and will be in a moment. */
#ifndef WATCHCTL_CLI_OUTPUT_LOG_SETTLE_H
#define WATCHCTL_CLI_OUTPUT_LOG_SETTLE_H

/*
 * Where somebody records into @log still, but the process that it is about has ended: waits until the rest is written, for five
 * seconds at most. What is recorded from a running process is not waited for. Any file is fit for it.
 */
void log_settle(const char *log);

#endif
