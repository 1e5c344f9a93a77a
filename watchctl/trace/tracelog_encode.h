/* tracelog_encode - struct trace_event -> the bytes of its fields in a log. Inside of the writer. */
#ifndef WATCHCTL_TRACE_TRACELOG_ENCODE_H
#define WATCHCTL_TRACE_TRACELOG_ENCODE_H

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
void encode_capture(struct encoder *c, const struct capture_event *e, uint32_t stack, uint64_t before_ns);

void encode_thread_process(struct encoder *c, int32_t pid, int32_t tid);

#endif
