/*
 * tracelog_ring - the files of a log as bytes: one that grows, or as many as a bound allows. Inside of the
 * writer.
 *
 * With a bound in bytes the sizes of all files of the log's directory together never exceed it: the oldest
 * file is removed before a write that would.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_RING_H
#define WATCHCTL_TRACE_LOG_TRACELOG_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/trace/log/tracelog.h"

struct ring_file {
	uint64_t number;
	uint64_t size;	 /* whole packets only */
	uint64_t end_ns; /* of its last event */
};

/* Zero-initialise, but for the descriptors: -1. */
struct tracelog_ring {
	const char *path; /* of the log, for messages; its owner's */
	int dir, fd;
	struct tracelog_bounds bounds; /* all 0: one plain file */
	uint64_t others;	       /* bytes of the files that are not events */
	struct ring_file *file;	       /* ascending; the last one is written to */
	size_t nfiles, cap;
	uint64_t next_number;
};

bool tracelog_ring_is_bounded(const struct tracelog_ring *r);

/* How large a file may become before the next one begins. */
uint64_t tracelog_ring_file_limit(const struct tracelog_ring *r);

/* The next file (the first one too); the one before is complete. */
struct wc_error *tracelog_ring_next(struct tracelog_ring *r);

/*
 * Appends the packet of @len bytes, which ends at @end_ns. WC_ELOG when it cannot be written: what is there
 * stays, in whole packets.
 */
struct wc_error *tracelog_ring_write(struct tracelog_ring *r, const void *packet, size_t len,
				     uint64_t end_ns);

/* Removes what ended longer ago than the bound of time allows. */
void tracelog_ring_expire(struct tracelog_ring *r, uint64_t now_ns);

/* Bytes of all event files that are there. */
uint64_t tracelog_ring_bytes(const struct tracelog_ring *r);

/* Removes all files: the log was of no use. */
void tracelog_ring_remove(struct tracelog_ring *r);

void tracelog_ring_close(struct tracelog_ring *r);

#endif
