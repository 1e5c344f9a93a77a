/*
 * tsc_clock - time stamp counter -> CLOCK_MONOTONIC. Valid only where tsc_usable() says so.
 */
#ifndef WATCHCTL_BASE_TIME_TSC_CLOCK_H
#define WATCHCTL_BASE_TIME_TSC_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counter and clock, read at once. */
struct tsc_reading {
	uint64_t tsc, ns;
	uint64_t width; /* in how many ticks; 0: none was taken */
};

/* The tightest of @tries (1 or more): an interruption between the two clocks shows as a wide one. */
struct tsc_reading tsc_read(unsigned int tries);

struct tsc_clock {
	uint64_t tsc0, ns0, width0; /* first sample, and in how many ticks it was taken */
	uint64_t tsc, ns, width;    /* latest sample */
	double slope;		    /* ns for each tick, between the two */
	/* The counter's latest jump against the clock, until it is told: how much later it said it was. 0: none */
	int64_t jump_ns;
};

/*
 * Takes a sample; call it again from time to time: the slope is taken between the first and the latest. Where the counter has jumped it
 * goes on from there, with the slope that it had.
 */
void tsc_clock_sample(struct tsc_clock *c);

/* For people, of a jump since the last time that this was asked. False: there was none. */
bool tsc_clock_tell_jump(struct tsc_clock *c, char *text, size_t len);

/* The time of a counter value near the latest sample. Exact to well under a microsecond. */
uint64_t tsc_clock_ns(const struct tsc_clock *c, uint64_t tsc);

#endif
