/*
 * plain_slots - the slots that are nearly all: entries and exits of one module's functions, properly nested. Reading them
 * is most of what a recorded call costs more than one of a flight recorder's, and what it costs is its instructions.
 */
#ifndef CALLTRACE_RUNTIME_PLAIN_SLOTS_H
#define CALLTRACE_RUNTIME_PLAIN_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "calltrace/abi.h"
#include "calltrace/runtime/call_output.h"
#include "calltrace/runtime/clock_rate.h"
#include "calltrace/runtime/modules.h"
#include "calltrace/runtime/open_calls.h"

#define PLAIN_RECORD_SHIFT 5

_Static_assert(sizeof(struct calltrace_function) == 1 << PLAIN_RECORD_SHIFT,
	       "records are counted by shifting");
_Static_assert(CALLTRACE_ENTRY == CALL_ENTRY + 1 && CALLTRACE_EXIT == CALL_EXIT + 1,
	       "one is computed from the other");
_Static_assert(offsetof(struct calltrace_slot, what) == 8 && offsetof(struct calltrace_slot, frame) == 12,
	       "the two are loaded at once");

static inline size_t least_of(size_t a, size_t b, size_t c)
{
	const size_t least = a < b ? a : b;

	return least < c ? least : c;
}

/* An open call as a number: its function, bit 31 that it is replaced, its frame in the high half. */
typedef uint64_t open_word __attribute__((may_alias));
typedef uint64_t slot_word __attribute__((may_alias));

#define OPEN_REPLACED (1ull << 31)
#define NO_FUNCTION ((1u << 31) - 1)
#define FAR_ABOVE (1u << 30)

_Static_assert(NO_FUNCTION > CALL_FUNCTION_MAX, "no function has this number");

/*
 * Reads slots from @slot on, of functions of @m, into @calls and @out; zeroes them. Returns the first that is another one,
 * or not written yet, or @end, or one that there is no room for: nothing was done with it.
 */
static inline struct calltrace_slot *
plain_slots_take(struct calltrace_slot *slot, const struct calltrace_slot *end, const struct module_range *m,
		 const struct clock_rate *clock, struct open_calls *calls, struct call_output *out)
{
	const struct clock_rate c = *clock;
	const uint32_t low = m->low, functions = m->size >> PLAIN_RECORD_SHIFT, base = m->base;
	open_word *open = (open_word *)(calls->call + calls->depth); /* behind the innermost one */
	uint64_t *const event = out->packet->event + out->n;
	uint64_t time_ns = out->last_ns;
	size_t n, i;

	/* No time here will be 2^32 ns later than the one before it. */
	if (slot >= end || !out->n || out->n >= OUTPUT_FULL || (c.from.ns + c.most_ns - time_ns) >> 32 ||
	    !calls->cap || calls->is_leaving || calls->beyond)
		return slot;
	n = least_of((size_t)(end - slot), OUTPUT_FULL - out->n, calls->cap - calls->depth);
	/* In this one all that the thread calls is inside, whose frames are not far below. It never ends. */
	calls->call[-1] = (struct open_call){ .function = NO_FUNCTION, .frame = slot->frame + FAR_ABOVE };

	for (i = 0; i < n; i++) {
		const uint64_t what = __atomic_load_n((const slot_word *)&slot[i].what, __ATOMIC_ACQUIRE);
		const uint32_t record = ((uint32_t)what - low) >> PLAIN_RECORD_SHIFT;
		const uint32_t kind = (uint32_t)what & CALLTRACE_KIND_MASK;
		const uint64_t ns = clock_rate_time(&c, slot[i].tsc);
		const uint64_t is = what >> 32 << 32 | (base + record);

		if (record >= functions)
			break;
		if (kind == CALLTRACE_ENTRY) {
			if ((int32_t)((what >> 32) - (open[-1] >> 32)) >= 0)
				break;
			*open++ = is;
		} else {
			if (kind != CALLTRACE_EXIT || open[-1] != is || open[-2] & OPEN_REPLACED)
				break;
			open--;
		}
		time_ns = ns > time_ns ? ns : time_ns;
		event[i] = call_pack((enum call_what)(kind - 1), time_ns, (uint32_t)is);
		__atomic_store_n(&slot[i].what, 0, __ATOMIC_RELAXED);
	}
	calls->depth = (uint32_t)(open - (open_word *)calls->call);
	out->n += (uint32_t)i;
	out->last_ns = time_ns;
	return slot + i;
}

#endif
