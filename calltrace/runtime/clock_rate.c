#include "calltrace/runtime/clock_rate.h"

#include <time.h>
#include <x86intrin.h>

#include "calltrace/runtime/raw_call.h"

struct clock_point clock_point_now(void)
{
	struct clock_point best = { 0 };
	uint64_t width = UINT64_MAX;

	for (int tries = 0; tries < 3 && width > WIDE_SAMPLE; tries++) {
		struct timespec t = { 0 };
		const uint64_t before = __rdtsc();

		raw_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&t, 0, 0);
		if (__rdtsc() - before < width) {
			width = __rdtsc() - before;
			best.tsc = before + width / 2;
			best.ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
		}
	}
	return best;
}

struct clock_rate clock_rate_of(const struct clock_point *from, const struct clock_point *until)
{
	const uint64_t ns = until->ns > from->ns ? until->ns - from->ns : 0;
	struct clock_rate c = { .from = *from, .most_ns = ns };

	if (until->tsc > from->tsc)
		c.rate = (uint64_t)(((unsigned __int128)ns << RATE_SHIFT) / (until->tsc - from->tsc));
	return c;
}
