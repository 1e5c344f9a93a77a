/*
 * call_output - a thread's LOG/calls.N, packet by packet (call_format.h), for code that may call nothing of the program.
 * The file is opened for each packet and closed again: the program may close all descriptors and use their numbers.
 *
 * All signals are blocked while one of these runs, and one thread at a time uses an output.
 */
#ifndef CALLTRACE_RUNTIME_CALL_OUTPUT_H
#define CALLTRACE_RUNTIME_CALL_OUTPUT_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "calltrace/abi.h"
#include "watchctl/trace/calls/call_format.h"

/* The log, as all outputs share it. */
struct output_place {
	char path[PATH_MAX]; /* of its directory, absolute */
	uint64_t device, inode;
	uint8_t uuid[16];
	pid_t pid;
	atomic_uint next_file;
};

struct call_output {
	struct output_place *place;
	struct call_packet *packet; /* CALL_PACKET_BYTES, the owner's */
	uint32_t n;		    /* words in it */
	pid_t tid;
	uint64_t begin_ns, last_ns;
	uint64_t discarded; /* events, since its beginning */
	uint64_t reported;  /* of them, in the packet that was written last */
	uint64_t size;	    /* of the file */
	uint32_t packets;   /* in it */
	uint32_t number;    /* of it */
	bool has_file;
	long error; /* -errno of the packet that came last; 0: it was written */
	uint32_t
		values; /* of these, words of values and of events of the program's own; the others are events */
	bool is_stopped; /* the file is ours no more: all is discarded */
};

void output_begin(struct call_output *o, struct output_place *place, struct call_packet *packet, pid_t tid);

#define OUTPUT_VALUE_WORDS 3u
/* Of what 64 pointers point to: the bytes, and for each two words and one that is not full. */
#define OUTPUT_MEMORY_WORDS (CALLTRACE_MEMORY_SUM / 8 + 64 * 3)
/* Behind the last event of a packet there is room for the values of its parameters. */
#define OUTPUT_FULL ((uint32_t)CALL_PACKET_EVENTS - 64 * OUTPUT_VALUE_WORDS - OUTPUT_MEMORY_WORDS)

/* Puts @n words behind the last event, which belong to it or to the next one; less than would fill a packet. */
void output_put_words(struct call_output *o, const uint64_t *word, uint32_t n);

/* Puts a value behind the last event, whose time is its. @word: call_word(). */
void output_put_value(struct call_output *o, uint64_t word, uint64_t value);

/* A packet begins with what happened at @time_ns. For output_put(). */
void output_turn(struct call_output *o, uint64_t time_ns);

/* @time_ns: CLOCK_MONOTONIC; one that is before the last event's is taken for that. */
static inline void output_put(struct call_output *o, enum call_what what, uint64_t time_ns, uint32_t function)
{
	if (time_ns < o->last_ns)
		time_ns = o->last_ns;
	if (!o->n || o->n >= OUTPUT_FULL || (time_ns - o->last_ns) >> 32)
		output_turn(o, time_ns);
	o->packet->event[o->n++] = call_pack(what, time_ns, function);
	o->last_ns = time_ns;
}

/* An event of the program's own. @time_ns as of output_put(). */
void output_put_event(struct call_output *o, uint32_t type, uint64_t time_ns, uint64_t first,
		      uint64_t second);

/* Writes the packet, if there are events in it: those that could not be written are discarded, and counted. */
void output_flush(struct call_output *o);

/*
 * Drops events of the packet, but for exits of calls whose entries are not in it. Returns how many calls were entered in
 * it and have not ended.
 */
uint32_t output_clear(struct call_output *o);

/* Flushes; a last packet without events says what was discarded after the one before. */
void output_finish(struct call_output *o);

#endif
