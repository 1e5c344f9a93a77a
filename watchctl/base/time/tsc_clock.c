#include "watchctl/base/time/tsc_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#include "watchctl/base/clock.h"

#define SAMPLES 5

/* Neither readings nor a clock that is being set right (adjtimex(2): by one part in 2,000, and as much on the host) are off by so much. */
#define JUMP_NS 20000
#define RATE_CHANGE 1000 /* one part in so many */

struct tsc_reading tsc_read(unsigned int tries)
{
	struct tsc_reading best = { .width = UINT64_MAX };

	for (unsigned int i = 0; i < tries; i++) {
		const uint64_t before = __rdtsc(), ns = monotonic_ns(), width = __rdtsc() - before;

		if (width && width < best.width)
			best = (struct tsc_reading){ before + width / 2, ns, width };
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
	struct tsc_reading r = tsc_read(SAMPLES);
	int64_t off;

	if (!c->tsc0) {
		c->tsc0 = r.tsc;
		c->ns0 = r.ns;
		c->width0 = r.width;
		/* A slope needs two points: half a millisecond apart is good to a few parts in ten thousand. */
		nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
		r = tsc_read(SAMPLES);
	} else {
		off = (int64_t)(tsc_clock_ns(c, r.tsc) - r.ns);
		if (llabs(off) > allowed_ns(c, r.ns, r.width))
			follow_jump(c, r.tsc, r.ns, off);
	}
	c->tsc = r.tsc;
	c->ns = r.ns;
	c->width = r.width;
	c->slope = (double)(c->ns - c->ns0) / (double)(c->tsc - c->tsc0);
}

uint64_t tsc_clock_ns(const struct tsc_clock *c, uint64_t tsc)
{
	return c->ns + (uint64_t)(int64_t)((double)(int64_t)(tsc - c->tsc) * c->slope);
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
