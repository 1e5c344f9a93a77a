/* tracelog_encode - struct trace_event -> its bytes in a log. Inside of those who write one. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_ENCODE_H
#define WATCHCTL_TRACE_LOG_TRACELOG_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/trace/event.h"

/* A buffer that grows at its end. Zero-initialised is empty; its owner frees buf. */
struct encoder {
	uint8_t *buf;
	size_t len, cap;
	bool no_memory; /* something is missing at the end; sticks until the owner clears it */
};

void encode_bytes(struct encoder *c, const void *bytes, size_t n);

struct packet_head {
	const uint8_t *uuid;
	uint64_t begin, end, discarded;
};

/* Room in the empty @c for the head and the checksum of a packet, or (@major is 1) the head alone. */
void encode_packet_begin(struct encoder *c, unsigned int major);

/* Fills the room at the beginning of @c in: what begins there is the packet of @len bytes. */
void encode_packet_head(struct encoder *c, size_t len, const struct packet_head *h, unsigned int major);

/* Where the events of a packet begin. */
size_t encode_packet_start(unsigned int major);

/* The packet of @len bytes has been written: what is behind it in @c begins the next one. */
void encode_next_packet(struct encoder *c, size_t len, unsigned int major);

/* Room for an event's head; returns where it is. After the fields, encode_event_head() fills it in. */
size_t encode_event_begin(struct encoder *c);
void encode_event_head(struct encoder *c, size_t start, uint16_t id, uint64_t time_ns);

/* The fields of @e; @stack: the number of an access's stack. Not for captures. */
void encode_fields(struct encoder *c, const struct trace_event *e, uint32_t stack);

/* A stack as it is stored: why the walk ended, and the frames. */
struct stack_ref {
	uint8_t walk_end;
	uint32_t nframes;
	const uint64_t *frame;
};

/* The fields of the event that stores @s as number @id. */
void encode_stack(struct encoder *c, uint32_t id, const struct stack_ref *s);

/* The fields of a capture that was @before_ns earlier than its event's timestamp says. */
void encode_capture(struct encoder *c, const struct trace_event *e, uint32_t stack, uint64_t before_ns);

/*
 * The fields of a hit: an access of the bytes of its watch, which is at @watch_addr, that was @before_ns
 * earlier than its event's timestamp says.
 */
struct hit_ref {
	uint64_t watch_addr;
	uint32_t stack;
	uint32_t before_ns;
};
void encode_hit(struct encoder *c, const struct access_event *a, const struct hit_ref *h);

void encode_thread_process(struct encoder *c, int32_t pid, int32_t tid);

#endif
