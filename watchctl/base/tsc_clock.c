#include "watchctl/base/tsc_clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"

#define SAMPLES 5

bool tsc_usable(void)
{
	char name[32] = "";
	scoped(fclosep) FILE *f =
		fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");

	return f && fgets(name, sizeof(name), f) && !strncmp(name, "tsc", 3);
}

/* The tightest of several readings: an interruption between the two clocks shows as a wide one. */
static void sample(uint64_t *ret_tsc, uint64_t *ret_ns)
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
}

void tsc_clock_sample(struct tsc_clock *c)
{
	if (!c->tsc0) {
		sample(&c->tsc0, &c->ns0);
		/* A slope needs two points: half a millisecond apart is good to a few parts in a thousand. */
		nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	}
	sample(&c->tsc, &c->ns);
}

uint64_t tsc_clock_ns(const struct tsc_clock *c, uint64_t tsc)
{
	double slope = (double)(c->ns - c->ns0) / (double)(c->tsc - c->tsc0);

	return c->ns + (uint64_t)(int64_t)((double)(int64_t)(tsc - c->tsc) * slope);
}
