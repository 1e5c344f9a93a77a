/* tsc_usable_impl - what tsc_usable.c finds of readings; here for its test. */
#ifndef WATCHCTL_BASE_TSC_USABLE_IMPL_H
#define WATCHCTL_BASE_TSC_USABLE_IMPL_H

#include <stddef.h>
#include <stdint.h>

/* Counter and clock, read at once, on one CPU. */
struct tsc_reading {
	uint64_t tsc, ns;
	uint64_t width; /* in how many ticks; 0: none was taken */
};

/* One of each of @n CPUs, and @last, of the first one again, some time later. What is wrong, as tsc_unusable_why() has it; NULL: nothing. */
const char *tsc_readings_judge(const struct tsc_reading *r, size_t n, const struct tsc_reading *last);

#endif
