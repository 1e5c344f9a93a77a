/*
 * tracelog - append events to a log on disk; iterate them; survive a truncated tail.
 *
 * A log is a directory that is a valid CTF 1.8 trace: `babeltrace2 LOG` reads it as it is. The
 * bytes are described in tracelog_format.h and, for writers of a second reader, in
 * watchctl-log(5).
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_H
#define WATCHCTL_TRACE_LOG_TRACELOG_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/trace/event.h"

struct tracelog_writer;

/*
 * Creates the directory @path (mode 0700) with an empty log in it. WC_ELOG when it exists already
 * or cannot be created; nothing is left behind then.
 */
struct wc_error *tracelog_writer_open(const char *path, struct tracelog_writer **ret);

/*
 * A flight recorder: the log is a ring of packet files, each of which begins with what a reader must know to
 * understand it (the process, its modules, watches, types ...), and the oldest of which is removed before the
 * log would become larger than allowed. 0: no such bound; one of them must be given.
 */
struct tracelog_bounds {
	uint64_t bytes;	  /* all files of the log together, at every instant; at least TRACELOG_RING_MIN */
	uint64_t keep_ns; /* what ended longer ago than that is removed, but for what shares a file with newer
			   */
};

#define TRACELOG_RING_MIN (1u << 20)

/* As above, for a flight recorder. WC_EUSAGE: bounds that make no sense. */
struct wc_error *tracelog_writer_open_ring(const char *path, const struct tracelog_bounds *b,
					   struct tracelog_writer **ret);

/*
 * The sink that appends to @w. Events may come slightly out of order (several threads): the log's
 * timestamps never go back, an access keeps its true time. After an error the log holds every whole
 * packet written before it, and each further put fails.
 */
struct event_sink tracelog_writer_sink(struct tracelog_writer *w);

/*
 * Hands everything put so far to the kernel: what a killed recorder cannot lose any more. Call it
 * every half second or so. WC_ELOG: no space, I/O error.
 */
struct wc_error *tracelog_writer_flush(struct tracelog_writer *w);

/* Flushes, closes and frees @w in any case; an error means that the last events are not in the log. */
struct wc_error *tracelog_writer_close(struct tracelog_writer *w);

/* Closes and frees @w, and removes the log: for one that was begun and found to have no use. Accepts NULL. */
void tracelog_writer_discard(struct tracelog_writer *w);

/* For scoped(): as _close, for paths that already have an error to report. */
void tracelog_writer_closep(struct tracelog_writer **w);

struct tracelog_reader;

enum log_outcome {
	LOG_EVENT,     /* one event was read */
	LOG_END,       /* the log ends here; before, parts may be missing: see tracelog_damage() */
	LOG_TRUNCATED, /* what follows cannot be read: see tracelog_ignored() */
	LOG_WAIT,      /* of a log that is followed: nothing more for now, ask again later */
};

/*
 * Opens the log at @path. WC_ELOG when there is none, when it is not ours (another tracer's CTF
 * trace, another file), or when a newer version with another format made it.
 */
struct wc_error *tracelog_reader_open(const char *path, struct tracelog_reader **ret);

/*
 * The same for the names that `watchctl symbolize` added to the log: EVENT_SYMBOL, in any order. *@ret is
 * NULL if it did not.
 */
struct wc_error *tracelog_reader_open_symbols(const char *path, struct tracelog_reader **ret);

/* The same from memory, which must outlive the reader. */
struct wc_error *tracelog_reader_open_memory(const char *metadata, size_t metadata_len, const uint8_t *events,
					     size_t events_len, struct tracelog_reader **ret);

/*
 * Reads the next event into @ret; it, and what it points to, is valid until the next call.
 * *@outcome says whether there was one; LOG_END and LOG_TRUNCATED are final. Fails only with
 * WC_ELOG for an I/O error and for lack of memory, never because of what the log contains.
 */
struct wc_error *tracelog_next(struct tracelog_reader *r, struct trace_event *ret, enum log_outcome *outcome);

/*
 * From now on, as long as somebody records into the log, its end is LOG_WAIT: what comes later can be read
 * later. When the recorder has gone, also killed, LOG_END or LOG_TRUNCATED come as they do without this. What
 * a flight recorder has removed before it was read is counted by tracelog_missed(); what it removes after
 * that is let go of, and cannot be read again.
 */
void tracelog_follow(struct tracelog_reader *r);

/* True if a process records into the log at @path now. */
bool tracelog_is_recording(const char *path);

/* Of all files of the log, about which share was read, 0 to 1: for progress. */
double tracelog_progress(const struct tracelog_reader *r);

/*
 * About how many bytes in the middle of the log were not read, because they are damaged or
 * (of a flight recorder) were removed while it was read; events before and after them were. *@why is a phrase about the first of
 * them. 0 and NULL: none so far.
 */
uint64_t tracelog_missed(const struct tracelog_reader *r, const char **why);

/* A part of the log that is missing, or damaged, while what comes behind it was read. */
struct log_gap {
	uint64_t bytes; /* about */
	/* CLOCK_MONOTONIC: of the last event read before it, and of the first packet behind it; 0: there is none.
	 */
	uint64_t from_ns, to_ns;
	const char *why; /* a phrase, lives for ever */
};

/* Those met so far, in order; valid until the next call with @r. Returns how many. */
size_t tracelog_gaps(const struct tracelog_reader *r, const struct log_gap **ret);

/* Why a log is not whole, as far as it has been read. */
struct log_damage {
	uint64_t ignored; /* as tracelog_ignored() */
	const char *why;  /* NULL: it was read to its end */
	uint64_t missed;  /* as tracelog_missed() */
	uint64_t outrun;  /* of them, what was removed by the recorder that is followed */
	const char *why_missed;
	size_t ngaps;
	uint64_t from_ns, to_ns; /* from the first gap's begin to the last one's end; 0: not known */
	uint64_t last_ns;	 /* of the last event that was read */
	uint64_t left_out;	 /* events that were read, but what they refer to was in a gap */
	uint64_t realtime_ns;	 /* minus CLOCK_MONOTONIC; 0: not known */
	const char *why_names;	 /* of who reads those too: some names that were added cannot be read; NULL */
	/* Of who reads calls.N too: damaged or missing packets, bytes at ends of files, calls of unknown functions. */
	uint64_t call_packets, call_bytes, calls_left_out;
	const char *why_calls; /* NULL: they are whole */
};

void tracelog_damage(const struct tracelog_reader *r, struct log_damage *ret);

/* False: the log is whole. */
bool log_damage_is(const struct log_damage *d);

/* "about 65536 bytes in it are missing, from 12:00:01.500000 to 12:00:01.600000 (0.100000 s): ..." */
void log_damage_text(const struct log_damage *d, char *buf, size_t cap);

/* "from 12:00:01.500000 to 12:00:01.600000 (0.100000 s)", in local time; @realtime_ns as in struct log_damage. */
void log_span_text(uint64_t from_ns, uint64_t to_ns, uint64_t realtime_ns, char *buf, size_t cap);

/* WC_ELOG that says so, with @path in it; NULL: the log is whole. */
struct wc_error *log_damage_error(const char *path, const struct log_damage *d);

/* True for a flight recorder's log that does not begin where the recording did: older files were removed. */
bool tracelog_is_rest(const struct tracelog_reader *r);

/* Where the event that was read last lies in the log, to read it again; it never goes down. */
uint64_t tracelog_position(const struct tracelog_reader *r);

/*
 * Reads the event at @position again, into @ret as above; what tracelog_next() gives is not changed by it.
 * *@outcome is LOG_EVENT or, if nothing can be read there any more, LOG_TRUNCATED.
 */
struct wc_error *tracelog_read_again(struct tracelog_reader *r, uint64_t position, struct trace_event *ret,
				     enum log_outcome *outcome);

/*
 * After LOG_TRUNCATED: how many bytes at the end of the log were not read, and why (a phrase like
 * "it ends in the middle of an event"). Before, 0 and NULL.
 */
uint64_t tracelog_ignored(const struct tracelog_reader *r, const char **why);

/* Accepts NULL. */
void tracelog_reader_close(struct tracelog_reader *r);
void tracelog_reader_closep(struct tracelog_reader **r);

#endif
