#include "watchctl/view/table/duration_spread.h"

#include <stdlib.h>

static unsigned int step_of(uint64_t ns)
{
	unsigned int high, i;

	if (ns < DURATION_STEPS)
		return (unsigned int)ns;
	high = 63u - (unsigned int)__builtin_clzll(ns);
	i = (high - 3) * DURATION_STEPS + (unsigned int)(ns >> (high - 4)) % DURATION_STEPS;
	return i < DURATION_SPREAD ? i : DURATION_SPREAD - 1;
}

/* The longest that is counted there. */
static uint64_t longest_of(unsigned int i)
{
	const unsigned int shift = i / DURATION_STEPS;

	if (!shift)
		return i;
	return ((uint64_t)(DURATION_STEPS + i % DURATION_STEPS + 1) << (shift - 1)) - 1;
}

bool duration_spread_add(uint64_t **spread, uint64_t ns)
{
	if (!*spread)
		*spread = calloc(DURATION_SPREAD, sizeof(**spread));
	if (!*spread)
		return false;
	(*spread)[step_of(ns)]++;
	return true;
}

uint64_t duration_spread_quantile(const uint64_t *spread, uint64_t n, uint64_t max_ns, unsigned int permille)
{
	uint64_t left = n * (1000 - permille) / 1000; /* that may be longer */
	unsigned int i = DURATION_SPREAD;

	if (!spread)
		return 0;
	while (i-- > 0) {
		if (spread[i] > left)
			return longest_of(i) < max_ns ? longest_of(i) : max_ns;
		left -= spread[i];
	}
	return max_ns;
}
