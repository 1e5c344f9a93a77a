#include "watchctl/base/tsc_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#include "watchctl/base/clock.h"

#define SAMPLES 5

/* Neither readings nor a clock that is being set right (adjtimex(2): by one part in 2,000, and as much on the host) are off by so much. */
#define JUMP_NS 20000
#define RATE_CHANGE 1000 /* one part in so many */

/* The tightest of several readings: an interruption between the two clocks shows as a wide one. Returns its width, in ticks. */
static uint64_t sample(uint64_t *ret_tsc, uint64_t *ret_ns)
{
	uint64_t best = UINT64_MAX;
	int i;

	for (i = 0; i < SAMPLES; i++) {
		uint64_t before = __rdtsc(), ns = monotonic_ns(), after = __rdtsc();

		if (after - before < best) {
			best = after - before;
			*ret_tsc = before + best / 2;
			*ret_ns = ns;
		}
	}
	return best;
}

/* With the slope that they have, the two points go to where the counter is now. */
static void follow_jump(struct tsc_clock *c, uint64_t tsc, uint64_t ns, int64_t by)
{
	c->jump_ns = by;
	c->tsc0 = tsc - (c->tsc - c->tsc0);
	c->ns0 = ns - (c->ns - c->ns0);
}

/* How far the time of the counter may be from the clock's, by what is known of both. */
static int64_t allowed_ns(const struct tsc_clock *c, uint64_t ns, uint64_t width)
{
	const double since = (double)(ns - c->ns);
	const double slope_error = (double)(c->width0 + c->width) / (double)(c->tsc - c->tsc0);

	return JUMP_NS + (int64_t)(since * slope_error + since / RATE_CHANGE) + (int64_t)width;
}

void tsc_clock_sample(struct tsc_clock *c)
{
	uint64_t tsc = 0, ns = 0, width;
	int64_t off;

	if (!c->tsc0) {
		c->width0 = sample(&c->tsc0, &c->ns0);
		/* A slope needs two points: half a millisecond apart is good to a few parts in ten thousand. */
		nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
		c->width = sample(&c->tsc, &c->ns);
		return;
	}
	width = sample(&tsc, &ns);
	off = (int64_t)(tsc_clock_ns(c, tsc) - ns);
	if (llabs(off) > allowed_ns(c, ns, width))
		follow_jump(c, tsc, ns, off);
	c->tsc = tsc;
	c->ns = ns;
	c->width = width;
}

uint64_t tsc_clock_ns(const struct tsc_clock *c, uint64_t tsc)
{
	double slope = (double)(c->ns - c->ns0) / (double)(c->tsc - c->tsc0);

	return c->ns + (uint64_t)(int64_t)((double)(int64_t)(tsc - c->tsc) * slope);
}

bool tsc_clock_tell_jump(struct tsc_clock *c, char *text, size_t len)
{
	if (!c->jump_ns)
		return false;
	snprintf(
		text, len,
		"the time stamp counter has jumped by %.3f ms against the clock (was the machine suspended, or moved to "
		"another host?): times of what was recorded since the last look may be wrong by that",
		(double)c->jump_ns / 1e6);
	c->jump_ns = 0;
	return true;
}
