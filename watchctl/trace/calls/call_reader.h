/*
 * call_reader - the entries and exits of LOG/calls.N, thread by thread, thousands at a time. What is damaged or missing
 * is left out and counted, never guessed.
 */
#ifndef WATCHCTL_TRACE_CALLS_CALL_READER_H
#define WATCHCTL_TRACE_CALLS_CALL_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/calls/call_format.h"

struct call_reader;

/* WC_ELOG: @path is no log, or cannot be read. A log without calls has no threads. */
struct wc_error *call_reader_open(const char *path, struct call_reader **ret);
void call_reader_close(struct call_reader *r); /* accepts NULL */
void call_reader_closep(struct call_reader **r);

/* A thread, as one file of the log has it; the order is that of the files. */
struct call_thread {
	pid_t pid, tid;
	uint64_t begin_ns, end_ns; /* of its first and last packet that is there */
	size_t packets;
};

size_t call_reader_threads(const struct call_reader *r);
void call_reader_thread(const struct call_reader *r, size_t thread, struct call_thread *ret);

/*
 * Words that belong to an event: to the one before them, or the next one, as their first word says (enum call_word).
 * Those of an event of the program's own are that event, the one at @at.
 */
struct call_more {
	size_t at; /* the event of the batch before which they are; call_batch.n: behind the last one */
	const uint64_t *word;
	size_t n;
};

/* Some of a thread's events, in the order in which they happened; valid until the next call for the reader. */
struct call_batch {
	size_t n; /* > 0 */
	const uint64_t *time_ns;
	const uint32_t *function; /* of an event of the program's own: its type */
	const uint8_t *what;	  /* enum call_what; CALL_MORE: an event of the program's own */
	bool torn;		  /* something is missing before the first of them */
	size_t packet;		  /* that they are in, of the thread's: see call_reader_seek_packet() */
	const struct call_more *more;
	size_t nmore;
};

/* False: there are no more. */
bool call_reader_next(struct call_reader *r, size_t thread, struct call_batch *ret);

/* The next batch of @thread begins with its first event at or after @time_ns. Backwards, too. */
void call_reader_seek(struct call_reader *r, size_t thread, uint64_t time_ns);

/* The next batch of @thread is that of the packet call_batch.packet, whole; or one behind it, if that is damaged. */
void call_reader_seek_packet(struct call_reader *r, size_t thread, size_t packet);

/* Damage that was met up to now. */
struct call_damage {
	uint64_t discarded; /* events that their recorder says are missing */
	uint64_t packets;   /* that are damaged or missing in the middle, at least */
	uint64_t ignored;   /* bytes at the ends of files */
	const char *why;    /* of `packets` or `ignored`, a phrase; NULL: of neither */
};

void call_reader_damage(const struct call_reader *r, struct call_damage *ret);

#endif
