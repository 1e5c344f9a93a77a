/*
 * tag_ring - reads complete records from one ring of a program with libstackwalk, without trusting its contents:
 * a forged ring yields false captures of its own program, or none. Internal to the collector.
 */
#ifndef WATCHCTL_TRACE_TAGS_TAG_RING_H
#define WATCHCTL_TRACE_TAGS_TAG_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/unwind/capture_wire.h"

/*
 * The program's memory. Both move all @len bytes, or return false. read() takes them in ascending order, in
 * pieces of 8 bytes or more: a record's first word says that the rest is there. (process_vm_readv(2) does;
 * reading /proc/PID/mem, or memcpy(3), need not.)
 */
struct tag_memory {
	bool (*read)(void *ctx, uint64_t addr, void *buf, size_t len);
	bool (*write)(void *ctx, uint64_t addr, const void *buf, size_t len);
	void *ctx;
};

/* That of the calling process itself. Addresses are not checked. */
extern const struct tag_memory tag_memory_self;

struct tag_ring {
	uint64_t address; /* 0: none */
	uint64_t size;
	uint64_t head, tail; /* as last read; what lies before has been taken */
	/* The ring's own counters: at the start of this collection, and as last read. */
	uint64_t calls_before, lost_before, calls, lost;
	uint64_t recorded; /* captures that were taken */
	uint64_t stuck_ns; /* since when the record at tail is not whole; 0: it is, or there is none */
	uint64_t overdue;  /* a record before this is not waited for, when there are others behind it */
	uint64_t marked, marked_ns; /* what `overdue` will be next */
	bool hurry;		    /* this is the end: nothing is waited for */
	uint32_t owner;
	bool lies; /* its header makes no sense: not read any further */
};

/*
 * Begins with the ring at @address. @skip: what is in it is of an earlier collection, and is passed over.
 * False: there is no such ring, or it cannot be read.
 */
bool tag_ring_begin(struct tag_ring *r, const struct tag_memory *m, uint64_t address, bool skip);

#define TAG_RING_ROOM_MIN 8192u /* of a buffer: longer than any record by far */

/*
 * Moves whole records to @buf, which has room for @room bytes (>= TAG_RING_ROOM_MIN), and frees their place.
 * *len: how many bytes; each record in them is well-formed, see tag_record_next(). False: the memory cannot
 * be read.
 */
bool tag_ring_take(struct tag_ring *r, const struct tag_memory *m, uint8_t *buf, size_t room, uint64_t now_ns,
		   size_t *len);

/* The record at @at; *next is where the one behind it begins. */
static inline const struct capture_record *tag_record_next(const uint8_t *buf, size_t at, size_t *next)
{
	const struct capture_record *r = (const struct capture_record *)(const void *)(buf + at);

	*next = at + 8u * r->words;
	return r;
}

/* What is known to have been lost, and what was asked for, since the start. */
uint64_t tag_ring_calls(const struct tag_ring *r);
uint64_t tag_ring_lost(const struct tag_ring *r);

#endif
