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

/* The fields of @e; @stack: the number of an access's stack. */
void encode_fields(struct encoder *c, const struct trace_event *e, uint32_t stack);

/* The fields of the event that stores @a's stack as number @id. */
void encode_stack(struct encoder *c, uint32_t id, const struct access_event *a);

#endif
