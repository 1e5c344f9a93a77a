/*
 * tsc_clock - time stamp counter -> CLOCK_MONOTONIC. Valid only where the kernel itself trusts the
 * counter as its clock source: constant, never stopping, equal on all CPUs (Intel SDM vol. 3, 18.17.1).
 */
#ifndef WATCHCTL_BASE_TSC_CLOCK_H
#define WATCHCTL_BASE_TSC_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct tsc_clock {
	uint64_t tsc0, ns0; /* first sample */
	uint64_t tsc, ns;   /* latest sample */
};

bool tsc_usable(void);

/* Takes a sample; call it again from time to time: the slope is taken between the first and the latest. */
void tsc_clock_sample(struct tsc_clock *c);

/* The time of a counter value near the latest sample. Exact to well under a microsecond. */
uint64_t tsc_clock_ns(const struct tsc_clock *c, uint64_t tsc);

#endif
