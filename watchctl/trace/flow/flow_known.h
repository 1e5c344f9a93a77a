/*
 * flow_known - the threads and sockets that the events of a flight recorder speak of, with the event that said what they
 * are: a generation that begins repeats these.
 */
#ifndef WATCHCTL_TRACE_FLOW_FLOW_KNOWN_H
#define WATCHCTL_TRACE_FLOW_FLOW_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/id_map.h"
#include "watchctl/base/map64.h"
#include "watchctl/trace/flow/flow_format.h"

struct flow_known_entry;

/* Zero-initialised is empty. */
struct flow_known {
	struct id_map thread; /* by tid */
	struct map64 socket;  /* by number */
	struct flow_known_entry **all;
	size_t n, cap;
};

/* A whole event at @word of a thread @tid (UINT32_MAX: not known), in generation @generation. False: no memory. */
bool flow_known_note(struct flow_known *k, const uint32_t *word, uint32_t tid, uint64_t time_ns,
		     uint32_t generation);

/*
 * Forgets threads that ended before @time_ns, and sockets of which nothing was heard since @generation. False: no memory,
 * all are still there.
 */
bool flow_known_forget(struct flow_known *k, uint64_t time_ns, uint32_t generation);

/* Event @i < n, without the time in its head, *@words of them. */
const uint32_t *flow_known_event(const struct flow_known *k, size_t i, uint32_t *words);

void flow_known_deinit(struct flow_known *k);

#endif
