/* How often a test repeats what it tries at random: in the gate a quarter as often as in make nightly. */
#ifndef TESTS_UNIT_EFFORT_H
#define TESTS_UNIT_EFFORT_H

#include <stdlib.h>
#include <string.h>

/* All of @n with UNIT_EFFORT=full in the environment, a quarter (at least 1) without. */
static inline unsigned int effort(unsigned int n)
{
	const char *how = getenv("UNIT_EFFORT");

	if (how && !strcmp(how, "full"))
		return n;
	return n < 4 ? 1 : n / 4;
}

#endif
