/*
 * closed_logs - the logs that a pattern of CALLTRACE_OUTPUT may have made (own_log_path()), found in the file system, and
 * their removal. A log is taken for one by its metadata, in which the call tracer has described its calls. Symbolic links
 * are not followed, but in folders that the pattern names without a number.
 *
 * Ordinary code, that allocates.
 */
#ifndef CALLTRACE_RUNTIME_CLOSED_LOGS_H
#define CALLTRACE_RUNTIME_CLOSED_LOGS_H

#include <stdbool.h>
#include <stdint.h>

#include "calltrace/runtime/call_output.h"

struct closed_log {
	const char *path; /* absolute */
	uint64_t bytes;
	int64_t modified_s;
	bool has_others; /* there are files in its directory that belong to no log */

	int parent, dir; /* directories, descriptors */
	const char *name;
};

/*
 * Calls @each for each log, by name, but for one that is being recorded and for @own (NULL: none). Its first result that
 * is not 0 ends it, and is returned; or -errno, -EINVAL: @pattern has an unknown %, or is too long.
 */
int closed_logs_each(const char *pattern, const struct output_place *own,
		     int (*each)(const struct closed_log *l, void *ctx), void *ctx);

/* 0, or -errno; -ENOTEMPTY: it has others, and is as it was. Its metadata go last: until then it is still a log. */
int closed_log_delete(const struct closed_log *l);

#endif
