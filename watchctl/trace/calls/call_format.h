/*
 * call_format - the bytes of LOG/calls.N: entries and exits of functions by the million, a file a thread, beside the
 * events of the log. Stream class 1 of the same CTF 1.8 trace, little endian, without padding: babeltrace2 reads it.
 *
 *	LOG/calls.N	packets, one after the other, N ten digits
 *	packet		header   u32 magic 0xC1FC1FC1, u8 uuid[16] (that of LOG/metadata), u32 stream_id 1
 *			context  u64 timestamp_begin, timestamp_end (of its first and last event),
 *				 content_size, packet_size (bits, the same),
 *				 events_discarded (of this thread since its beginning),
 *				 i32 pid, i32 tid, u32 packet (0.. in this file), u32 crc32c
 *			event... 8 bytes each
 *	event		bit 0 to 1   id: 0 entry, 1 exit, 2 exit that was not seen and follows from what came next,
 *				     3 more: bit 34 to 63 is how many words of 8 bytes follow it
 *			bit 2 to 33  timestamp: the low 32 bits of CLOCK_MONOTONIC in ns
 *			bit 34 to 63 function: the id of the event `function` of the log
 *
 * An event is less than 2^32 ns later than the one before it, and not earlier: what is later begins another packet.
 * `crc32c` is of the whole packet but for itself: what is not whole, or not what was written, is not read at all. A
 * reader steps over the words behind a `more` whose function it does not know.
 */
#ifndef WATCHCTL_TRACE_CALLS_CALL_FORMAT_H
#define WATCHCTL_TRACE_CALLS_CALL_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#define CALL_STREAM_ID 1u
#define CALL_PACKET_BYTES (64u << 10) /* at most */
#define CALL_FUNCTION_MAX ((1u << 30) - 1)

/* Stored in logs: never renumber. */
enum call_what {
	CALL_ENTRY = 0,
	CALL_EXIT = 1,
	CALL_EXIT_UNSEEN = 2,
	CALL_MORE = 3,
};

struct call_packet {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_id;
	uint64_t begin_ns, end_ns;
	uint64_t content_bits, packet_bits;
	uint64_t discarded;
	int32_t pid, tid;
	uint32_t packet;
	uint32_t crc32c;
	uint64_t event[];
};

_Static_assert(sizeof(struct call_packet) == 80, "the events of a packet are aligned");

#define CALL_PACKET_EVENTS ((CALL_PACKET_BYTES - sizeof(struct call_packet)) / sizeof(uint64_t))

#define CALL_TIME_SHIFT 2
#define CALL_FUNCTION_SHIFT 34

static inline uint64_t call_pack(enum call_what what, uint64_t time_ns, uint32_t function)
{
	const uint64_t function_and_time =
		(uint64_t)function << (CALL_FUNCTION_SHIFT - CALL_TIME_SHIFT) | (uint32_t)time_ns;

	return function_and_time << CALL_TIME_SHIFT | (uint64_t)what;
}

/*
 * The words behind a `more`: the first says what it is, in its low byte, and of which function, in its high half, but
 * for an event of the program's own, of which that is the type; then:
 *
 *	CALL_WORD_VALUE		bit 8 to 15: which parameter, from 0; of the call whose entry comes before it. Its value,
 *				the lowest byte first; bytes beyond the size of its type are not defined
 *	CALL_WORD_RESULT	the value, likewise, of the function's exit that comes next
 *	CALL_WORD_EVENT		two words that the program has recorded at the time of the `more`. The log's probe_site
 *				of that id, tactic source, is the type
 *	CALL_WORD_BYTES		what a value points to, bit 8 to 15: that of which parameter, or 255: of the result. Bit 16 to
 *				27: how many bytes, at most 1024; bit 28 to 31: 0 these are all that were asked for, of a
 *				string those before its NUL; 2 they cannot be read; 3 there is more, or what is behind them
 *				cannot be read. Then the bytes, the last word filled up with zeros
 *	CALL_WORD_MARK		alone, of the function's entry or exit that comes next. Bit 8 to 15: of an entry CALL_ flags,
 *				of an exit enum return_how, or 0 (trace/event.h). Bit 16 to 31: of an exit how many calls
 *				inside of the one that ends stay open, on another stack
 *	CALL_WORD_VALUES	of the function's entry or exit that comes next, in the same packet: all values of its parameters, or
 *				of its result, in place of the above. Bit 16 to 31: how many bytes; these, as the log's events `call`
 *				and `return` have them (trace/call_values.h), the last word filled up with zeros. Bit 8: 1, the first
 *				four are errno (i32)
 *
 * Stored in logs: never renumber.
 */
enum call_word {
	CALL_WORD_VALUE = 1,
	CALL_WORD_RESULT = 2,
	CALL_WORD_EVENT = 3,
	CALL_WORD_BYTES = 4,
	CALL_WORD_MARK = 5,
	CALL_WORD_VALUES = 6,
};

#define CALL_EVENT_WORDS 3u /* behind its `more` */

#define CALL_WORD_FUNCTION_SHIFT 32
#define CALL_WORD_NUMBER_SHIFT 8

static inline uint64_t call_word(enum call_word what, uint32_t number, uint32_t function)
{
	return (uint64_t)what | (uint64_t)(number & 0xff) << CALL_WORD_NUMBER_SHIFT |
	       (uint64_t)function << CALL_WORD_FUNCTION_SHIFT;
}

#define CALL_MARK_INSIDE_SHIFT 16
#define CALL_MARK_INSIDE_MAX 0xffffu

#define CALL_VALUES_ERRNO 1u
#define CALL_VALUES_COUNT_SHIFT 16
#define CALL_VALUES_COUNT_MASK 0xffffu

static inline uint64_t call_values_word(bool has_errno, uint32_t count, uint32_t function)
{
	return call_word(CALL_WORD_VALUES, has_errno ? CALL_VALUES_ERRNO : 0, function) |
	       (uint64_t)(count & CALL_VALUES_COUNT_MASK) << CALL_VALUES_COUNT_SHIFT;
}

/* @what: flags, or how. */
static inline uint64_t call_mark(uint32_t what, uint32_t inside, uint32_t function)
{
	return call_word(CALL_WORD_MARK, what, function) | (uint64_t)inside << CALL_MARK_INSIDE_SHIFT;
}

static inline enum call_word call_word_kind(uint64_t word)
{
	return word & 0xff;
}

static inline uint32_t call_word_function(uint64_t word)
{
	return (uint32_t)(word >> CALL_WORD_FUNCTION_SHIFT);
}

#define CALL_BYTES_MAX 1024u
#define CALL_BYTES_RESULT 255u
#define CALL_BYTES_COUNT_SHIFT 16
#define CALL_BYTES_COUNT_MASK 0xfffu
#define CALL_BYTES_STATE_SHIFT 28

static inline uint64_t call_bytes_word(uint32_t number, uint32_t state, uint32_t count, uint32_t function)
{
	return call_word(CALL_WORD_BYTES, number, function) | (uint64_t)count << CALL_BYTES_COUNT_SHIFT |
	       (uint64_t)(state & 0xf) << CALL_BYTES_STATE_SHIFT;
}

/* How the note begins by which a log says that a flight recorder wrote its calls: they are the last ones. */
#define CALL_RING_NOTE "a flight recorder:"

/* The description of them in LOG/metadata, and how a part of it begins that no other has. */
#define CALL_STREAM_BEGIN "stream {\n\tid = 1;\n"
extern const char call_stream_text[];

/* crc32c of @p, of @len bytes. */
uint32_t call_packet_checksum(const struct call_packet *p, uint64_t len);

#endif
