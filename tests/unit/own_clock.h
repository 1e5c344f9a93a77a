/*
 * A clock that the test moves, where a claim is about time: to sleep instead says nothing exact on a busy machine.
 * Whoever includes this has its own clock_gettime(), which all of our code in the program asks. Nothing may be waited
 * for (wait.h) while it stands.
 */
#ifndef TESTS_UNIT_OWN_CLOCK_H
#define TESTS_UNIT_OWN_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/clock.h"

#define OWN_CLOCK static __attribute__((unused))

/* Of CLOCK_MONOTONIC; the others are the kernel's. */
OWN_CLOCK uint64_t own_clock_stands_ns; /* where it stands; 0: it goes */
OWN_CLOCK uint64_t own_clock_ahead_ns;	/* of the kernel's, while it goes */
OWN_CLOCK uint64_t own_clock_looks;	/* how often it was asked */

int clock_gettime(clockid_t id, struct timespec *ret)
{
	int result = (int)syscall(SYS_clock_gettime, id, ret);
	uint64_t ns = (uint64_t)ret->tv_sec * 1000000000u + (uint64_t)ret->tv_nsec + own_clock_ahead_ns;

	if (id != CLOCK_MONOTONIC)
		return result;
	own_clock_looks++;
	ns = own_clock_stands_ns ? own_clock_stands_ns : ns;
	*ret = (struct timespec){ (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
	return result;
}

OWN_CLOCK void own_clock_stop(void)
{
	own_clock_stands_ns = monotonic_ns();
}

/* Goes on from where it stands. */
OWN_CLOCK void own_clock_go(void)
{
	uint64_t stood = own_clock_stands_ns;

	own_clock_stands_ns = 0;
	own_clock_ahead_ns += stood ? stood - monotonic_ns() : 0;
}

/* Time goes by. */
OWN_CLOCK void own_clock_skip(uint64_t ns)
{
	*(own_clock_stands_ns ? &own_clock_stands_ns : &own_clock_ahead_ns) += ns;
}

#endif
