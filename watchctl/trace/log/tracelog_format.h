/*
 * tracelog_format - the bytes of a log, shared by its writer and its reader.
 *
 *	LOG/metadata	TSDL text (CTF 1.8): who wrote it, the clock, every event's fields
 *	LOG/events	packets, one after the other, little endian, no padding anywhere
 *	LOG/events.N	of a flight recorder, N ten digits: the same, in several files, the oldest of which go
 *	LOG/.recorder	while somebody records: tracelog_files.h
 *	LOG/calls.N	entries and exits of functions: calls/call_format.h
 *	LOG/flow.G-C	events of the system: flow/flow_format.h
 *	LOG/symbols	the same, with `symbol` events only: what `watchctl symbolize` found out, if it ran
 *
 *	packet		header   u32 magic 0xC1FC1FC1, u8 uuid[16], u32 stream_id 0
 *			context  u64 timestamp_begin, timestamp_end, content_size, packet_size (bits),
 *				 events_discarded (accesses known lost since the start)
 *			event... until content_size
 *	event		u16 id, u64 timestamp, u32 size, then the fields of that id
 *
 * `size` counts the whole event in bytes, header included, so that a reader steps over ids and
 * trailing fields that it does not know: adding either raises the minor version, anything else
 * the major one. Strings end with a NUL byte. Packets are written whole, with one write(2) as
 * far as the kernel allows; one that does not fit on the disk is cut off again. A stack is
 * written once, as an event of its own before the first access that refers to its id.
 *
 * Since major version 2 the first event of a packet is `checksum`, of the whole packet but for these four
 * bytes: what is not whole, or not what was written, is not read at all. And most accesses are a `hit`: the
 * watch reports the address, the last `thread` event the process. That is what made the version a major one: a
 * reader that stepped over them would say that there are none.
 *
 * Each file of a flight recorder can be read without those before it. It begins, but for the very first, with
 * what still holds, between two `retold` events; stack numbers begin anew; and threads, code facts and tags
 * are re-emitted, as _again events, before the first event of the file that refers to them. The first
 * timestamp of a file is later than the last one of the file before it.
 *
 * Timestamps are CLOCK_MONOTONIC in ns and never go back. An access that was put after a later
 * one carries its true time in its field `time`; a capture and what a probe has recorded, how much earlier than its timestamp it was, in
 * `before_ns`.
 *
 * A capture is small, 32 bytes with its header (40 with a value): its tag and its stack are in events of
 * their own, and so is the process of its thread: that of the last `thread` event of that tid. So it is with
 * a call (56 bytes and its values) and a return (33 and its value), and with what a probe has recorded.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_FORMAT_H
#define WATCHCTL_TRACE_LOG_TRACELOG_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/regs.h"

#define TRACELOG_OLD_UNCERTAIN 2u /* has_old of an access: it is there, and uncertain */

#define TRACELOG_MAJOR 2
#define TRACELOG_MINOR 6

#define TRACELOG_MAGIC 0xC1FC1FC1u
#define TRACELOG_PACKET_HEAD 64 /* header and context */
#define TRACELOG_EVENT_HEAD 14
#define TRACELOG_OFF_CHECKSUM (TRACELOG_PACKET_HEAD + TRACELOG_EVENT_HEAD)
#define TRACELOG_PACKET_START (TRACELOG_OFF_CHECKSUM + 4) /* of the events, behind the checksum */
#define TRACELOG_PACKET_SIZE (64u << 10)		  /* a larger event gets a packet of its own */
#define TRACELOG_PACKET_MAX (16u << 20)			  /* no packet is larger: a size above is damage */
#define TRACELOG_STRING_MAX (1u << 20)			  /* longer ones are cut by the writer */

/* Offsets in an event. */
#define TRACELOG_OFF_TIME 2
#define TRACELOG_OFF_SIZE 10

/* Offsets in a packet. */
#define TRACELOG_OFF_UUID 4
#define TRACELOG_OFF_STREAM 20
#define TRACELOG_OFF_BEGIN 24
#define TRACELOG_OFF_END 32
#define TRACELOG_OFF_CONTENT 40
#define TRACELOG_OFF_PACKET 48
#define TRACELOG_OFF_DISCARDED 56

/* Ids from here are events that only the log has; below, they are enum event_type. */
#define TRACELOG_ID_STACK 256
#define TRACELOG_ID_CAPTURE_VALUE 257  /* EVENT_CAPTURE with a value */
#define TRACELOG_ID_THREAD_PROCESS 258 /* of a tid, where the last `thread` event says something else */

#define TRACELOG_ID_RETURN_ERROR 259 /* EVENT_RETURN with an error */
#define TRACELOG_ID_HIT 260	     /* EVENT_ACCESS, of the bytes of its watch */
#define TRACELOG_ID_CHECKSUM 261     /* first of a packet */
#define TRACELOG_ID_REEMITTED 262    /* what follows was reported before: enum tracelog_reemitted */
#define TRACELOG_ID_THREAD_AGAIN 263 /* EVENT_THREAD, _CODE, _TAG that were reported before */
#define TRACELOG_ID_CODE_AGAIN 264
#define TRACELOG_ID_TAG_AGAIN 265
#define TRACELOG_ID_CAPTURE_WITHHELD 266 /* EVENT_CAPTURE with a value that is not recorded */

enum tracelog_reemitted {
	REEMITTED_END = 0,
	REEMITTED_BEGIN = 1,
};

/* In a hit. */
#define TRACELOG_HIT_WATCHES 256 /* with a smaller number */
#define TRACELOG_HIT_OLD 1u
#define TRACELOG_HIT_NEW 2u
#define TRACELOG_HIT_DISPLACED 4u
#define TRACELOG_HIT_OFFSET_SHIFT 3 /* bytes from the watch's address, 0 to 31 */

struct tracelog_hit {
	uint8_t watch;
	uint8_t flags;
	uint8_t size;
	int32_t tid;
	uint32_t stack;
	uint32_t before_ns;
	uint64_t old_value, new_value;
	uint64_t regs[WREG_COUNT];
} __attribute__((packed));

/* In place of the number of a stack: it has no frames, and its walk_end is what this is less than. */
#define TRACELOG_NO_STACK 0xfffffff0u

#define TRACELOG_BEFORE_BYTES 6 /* of before_ns */
#define TRACELOG_BEFORE_MAX ((1ull << 8 * TRACELOG_BEFORE_BYTES) - 1)

/* The description of all events in the metadata. */
extern const char tracelog_events_text[];

/* That of the event `symbol`, which logs of minor versions before 2 lack. */
extern const char tracelog_symbol_event_text[];

/* The text of LOG/metadata; NULL: no memory. @offset_ns: realtime minus monotonic, not negative. */
char *tracelog_metadata_text(const uint8_t uuid[16], uint64_t offset_ns, const char *host);

/* What a reader must know of the metadata. */
struct tracelog_identity {
	uint8_t uuid[16];
	unsigned int major, minor;
	uint64_t realtime_ns; /* minus CLOCK_MONOTONIC; 0: not known */
};

/* WC_ELOG, with @path in the sentence, when it is not a log of ours, or of a newer major version. */
struct wc_error *tracelog_metadata_parse(const char *path, const char *text, size_t len,
					 struct tracelog_identity *ret);

#endif
