/*
 * wait_file_lock - waits for a lock on a file, of flock(2) or fcntl(2): which processes hold a lock that is in the way.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_WAIT_FILE_LOCK_H
#define WATCHCTL_FLOW_EXPLAIN_WAIT_FILE_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/flow/explain/wait_object.h"

/* flock(@fd, @operation) */
void wait_flock(const struct waiter *by, int fd, int operation, struct wait *ret);

/* fcntl(@fd, @command, @lock): F_SETLKW or F_OFD_SETLKW. */
void wait_record_lock(const struct waiter *by, int fd, int command, uint64_t lock, struct wait *ret);

/*
 * A thread that sleeps shortly, in between two tries of a lock perhaps: sqlite3 waits so. If another process has an exclusive
 * lock on a file that its process has open for writing, *ret becomes a wait for it, as a guess. False: there is none, *ret is untouched.
 */
bool wait_lock_retry(const struct waiter *by, double sleep_s, struct wait *ret);

#endif
