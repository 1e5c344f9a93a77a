#include "watchctl/view/table/value_spread.h"

/* Values of 16 and more: the highest five bits choose, the first of which is one. */
static size_t bucket_of(uint64_t value)
{
	unsigned int shift;

	if (value < 32)
		return value;
	shift = 59 - __builtin_clzll(value);
	return shift * 16 + (value >> shift);
}

void value_spread_bounds(size_t i, uint64_t *low, uint64_t *high)
{
	unsigned int shift = i < 32 ? 0 : i / 16 - 1;
	uint64_t top = i - shift * 16;

	*low = top << shift;
	*high = *low + (((uint64_t)1 << shift) - 1);
}

void value_spread_add(struct value_spread *s, uint64_t value)
{
	if (!s->n || value < s->min)
		s->min = value;
	if (!s->n || value > s->max)
		s->max = value;
	s->n++;
	s->bucket[bucket_of(value)]++;
}

void value_spread_median(const struct value_spread *s, uint64_t *low, uint64_t *high)
{
	uint64_t below = 0;
	size_t i;

	for (i = 0; i < SPREAD_BUCKETS - 1; i++) {
		below += s->bucket[i];
		if (below >= (s->n + 1) / 2)
			break;
	}
	value_spread_bounds(i, low, high);
	if (*low < s->min)
		*low = s->min;
	if (*high > s->max)
		*high = s->max;
}
