/*
 * call_writer - entries and exits of functions into LOG/calls.N, see call_format.h. A stream is one thread's, and used
 * by one thread at a time; streams of one writer do not touch each other.
 */
#ifndef WATCHCTL_TRACE_CALLS_CALL_WRITER_H
#define WATCHCTL_TRACE_CALLS_CALL_WRITER_H

#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/calls/call_format.h"

struct call_writer;

/* For the log @path, which is there, and says from now on what is in such files. WC_ELOG: it cannot be written to. */
struct wc_error *call_writer_open(const char *path, struct call_writer **ret);

/* Frees it; its streams must be closed. Accepts NULL. */
void call_writer_close(struct call_writer *w);

struct call_stream {
	uint64_t *at, *end; /* where the next event goes, in the packet */
	uint64_t last_ns;
	struct call_file *file;
};

/* WC_ELOG: the file cannot be created. It is there as soon as the first packet is. */
struct wc_error *call_stream_open(struct call_writer *w, pid_t pid, pid_t tid, struct call_stream *ret);

/* The packet is full, or @time_ns is not what may follow in it. For call_stream_put(). */
void call_stream_turn(struct call_stream *s, uint64_t *time_ns);

/*
 * @time_ns: CLOCK_MONOTONIC; one that is before the last event's is taken for that. @function <= CALL_FUNCTION_MAX.
 * After an error events are counted as discarded, and call_stream_flush() says why.
 */
static inline void call_stream_put(struct call_stream *s, enum call_what what, uint64_t time_ns,
				   uint32_t function)
{
	if (__builtin_expect(s->at == s->end || (time_ns - s->last_ns) >> 32, 0))
		call_stream_turn(s, &time_ns);
	*s->at++ = call_pack(what, time_ns, function);
	s->last_ns = time_ns;
}

/* Knowledge of an entry or exit besides. */
struct call_besides {
	uint64_t mark;	       /* of kind CALL_WORD_MARK; 0: none */
	const uint8_t *values; /* as of call_event and return_event; at most CALL_BESIDES_MAX */
	uint32_t values_len;
	bool has_error;
	int32_t error;
};

#define CALL_BESIDES_MAX (CALL_PACKET_BYTES / 4)

/* The same, with what @b has in front of it. */
void call_stream_put_with(struct call_stream *s, enum call_what what, uint64_t time_ns, uint32_t function,
			  const struct call_besides *b);

/* @count events of the thread are missing here: the log will say so. */
void call_stream_lost(struct call_stream *s, uint64_t count);

/*
 * Hands what was put so far to the kernel, in a packet that is smaller than others: every half second or so, not more
 * often. WC_ELOG, once: no space, or another error; whole packets that were written before are in the log.
 */
struct wc_error *call_stream_flush(struct call_stream *s);

/* Flushes and frees it in any case; likewise. */
struct wc_error *call_stream_close(struct call_stream *s);

#endif
