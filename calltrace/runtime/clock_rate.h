/* clock_rate - times of CLOCK_MONOTONIC from those of the TSC, by two points at which both were read. Integers only:
 * floating-point exceptions may be unmasked in the program. */
#ifndef CALLTRACE_RUNTIME_CLOCK_RATE_H
#define CALLTRACE_RUNTIME_CLOCK_RATE_H

#include <stdint.h>

#include "calltrace/runtime/memory_layout.h"

struct clock_point clock_point_now(void);

#define RATE_SHIFT 40

struct clock_rate {
	struct clock_point from;
	uint64_t most_ns; /* after it, the later one: nothing is later */
	uint64_t rate;	  /* nanoseconds a cycle, << RATE_SHIFT; 0: not known */
};

/* Between two points. */
struct clock_rate clock_rate_of(const struct clock_point *from, const struct clock_point *until);

static inline uint64_t clock_rate_time(const struct clock_rate *c, uint64_t tsc)
{
	const uint64_t cycles = tsc > c->from.tsc ? tsc - c->from.tsc : 0;
	const uint64_t ns = (uint64_t)((unsigned __int128)cycles * c->rate >> RATE_SHIFT);

	return c->from.ns + (ns < c->most_ns ? ns : c->most_ns);
}

#endif
