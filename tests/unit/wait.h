/*
 * How long a test waits for anything: until it is so, within one limit, which WAIT_FACTOR stretches where all is
 * slow.
 */
#ifndef TESTS_UNIT_WAIT_H
#define TESTS_UNIT_WAIT_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "watchctl/base/clock.h"

/* The limit, in nanoseconds: 60 s, times the WAIT_FACTOR of the environment (under AddressSanitizer 4, valgrind 10). */
static inline uint64_t wait_ns(void)
{
	const char *factor = getenv("WAIT_FACTOR");

	return (uint64_t)((factor ? strtod(factor, NULL) : 1) * 60e9);
}

/* For poll(2) and its like. */
static inline int wait_ms(void)
{
	return (int)(wait_ns() / 1000000);
}

/* Of monotonic_ns(): until then, for a loop that has more to do than to look. */
static inline uint64_t wait_end_ns(void)
{
	return monotonic_ns() + wait_ns();
}

/*
 * Of this thread, whatever else the machine does: for a claim that is one of magnitude. Compare with a share of
 * wait_ns(), many times what it takes.
 */
static inline uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Between two looks. */
static inline void wait_a_little(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Looks every millisecond until @condition holds; the test fails, and says which one, if it does not within wait_ns(). */
#define WAIT_UNTIL(condition)                                          \
	do {                                                           \
		const uint64_t wait_end = wait_end_ns();               \
                                                                       \
		while (!(condition)) {                                 \
			if (monotonic_ns() > wait_end)                 \
				fail_msg("still not: %s", #condition); \
			wait_a_little();                               \
		}                                                      \
	} while (0)

#endif
