/*
 * event_pairs - events of the program's own, each from its two slots (calltrace/abi.h). Between these there may be
 * others, of signal handlers; where one of the two is missing, the event is.
 */
#ifndef CALLTRACE_RUNTIME_EVENT_PAIRS_H
#define CALLTRACE_RUNTIME_EVENT_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "calltrace/abi.h"
#include "calltrace/runtime/call_output.h"

/* That are begun at once: by handlers in handlers, or left behind by handlers that jumped away. */
#define EVENT_PAIRS_MAX 8u

/* Zero-initialise. The oldest one comes first. */
struct event_pairs {
	struct begun_event {
		uint64_t time_ns;
		uint32_t key; /* its slots' `what` without their kinds */
		uint32_t low; /* half of its first payload */
	} begun[EVENT_PAIRS_MAX];
	uint32_t n;
};

static inline bool event_pairs_have(uint32_t what)
{
	const uint32_t kind = what & CALLTRACE_KIND_MASK;

	return kind == CALLTRACE_EVENT || kind == CALLTRACE_EVENT_REST;
}

/*
 * Takes @slot, whose `what` is @what, of which event_pairs_have() is true: with its second slot the event is put to
 * @out. One that can have none any more is discarded. A second slot alone is nothing: where the first one is missing,
 * that was counted.
 */
void event_pairs_take(struct event_pairs *p, const struct calltrace_slot *slot, uint32_t what,
		      uint64_t time_ns, struct call_output *out);

/* Slots are missing here: those that are begun are discarded. */
void event_pairs_lose(struct event_pairs *p, struct call_output *out);

/* They are gone, and not discarded. */
void event_pairs_forget(struct event_pairs *p);

#endif
