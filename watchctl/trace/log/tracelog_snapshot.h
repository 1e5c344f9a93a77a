/* tracelog_snapshot - saves what a log holds, or the end of it, as a log of its own; the recording goes on.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_SNAPSHOT_H
#define WATCHCTL_TRACE_LOG_TRACELOG_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/log/tracelog.h"

struct snapshot_info {
	uint64_t begin_ns, end_ns; /* of the packets that were saved, CLOCK_MONOTONIC; 0: none */
	uint64_t bytes;		   /* in the new log */
	uint64_t files;		   /* of events */
	uint64_t asked_ns;	   /* when it was asked for: what happened before is in it, unless !flushed */
	bool recording;		   /* somebody records into the log */
	bool flushed;	  /* false: the recorder did not answer in time, the last events may be missing */
	bool is_ring;	  /* false: a plain log, which can only be saved from its beginning */
	uint64_t ignored; /* bytes at its end that are no whole packet, while nobody records */
	bool has_flow;	  /* the log has events of the system */
	bool lacks_flow;  /* and a snapshot that is recorded anew has not got them */
	struct log_damage damage; /* of a snapshot that is recorded anew: of the log it was made from */
};

/*
 * Saves the log @src as the new directory @dst (mode 0700). Of a flight recorder, the files that hold its
 * last
 * @last_ns (0: all): it begins up to a sixteenth of the recorder's bounds earlier. Of calls and of the
 * system's events it has all. Waits until the recorder
 * has written what happened so far, 2 s at most. WC_ELOG: @src is no log, @dst exists or cannot be made, no
 * space; nothing is left of @dst then. @ret may be NULL.
 */
struct wc_error *tracelog_snapshot(const char *src, const char *dst, uint64_t last_ns,
				   struct snapshot_info *ret);

/* "DIR/.NAME@infix.PID" for the log DIR/NAME: where it is made until it is whole. Owned by the caller; NULL:
 * no memory. */
char *tracelog_hidden_name(const char *to, const char *infix);

#endif
