/* tracelog_writer - the inside of a writer. See tracelog.h for what it is. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_WRITER_H
#define WATCHCTL_TRACE_LOG_TRACELOG_WRITER_H

#include "watchctl/base/map64.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_encode.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/log/tracelog_reemit.h"
#include "watchctl/trace/log/tracelog_ring.h"

struct tracelog_watch {
	uint64_t addr;
	uint32_t size;
	bool known;
	bool moved; /* it was at another address before */
};

struct tracelog_writer {
	char *path;
	uint8_t uuid[16];
	bool failed;
	struct tracelog_ring files;
	int mark; /* see tracelog_files.h */

	struct encoder packet;
	size_t packet_max;
	uint64_t begin, end; /* times of the first and last event in the packet */
	uint64_t last_time;
	uint64_t discarded;

	struct map64 stacks; /* hash -> struct seen_stack */
	size_t stacks_bytes;
	uint32_t next_stack;
	struct map64 processes; /* tid -> pid, as a reader has it */
	int32_t last_tid, last_pid;
	struct tracelog_watch watch[TRACELOG_HIT_WATCHES];

	/* Of a flight recorder: */
	bool ring;
	struct tracelog_reemit reemit;
	uint64_t file_begin;	 /* time of the first event of the file that was put; 0: none yet */
	uint64_t reemitted_size; /* bytes that this file begins with */
};

/* Forgets which stacks are in the log: they are written anew when they come again. */
void tracelog_forget_stacks(struct tracelog_writer *w);

/* Frees @w and leaves its files as they are: who calls it has closed them. */
void tracelog_writer_forget(struct tracelog_writer *w);

#endif
