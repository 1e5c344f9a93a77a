#include "watchctl/view/table/site_stats_values.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

static bool is_number(const struct value_type *t)
{
	return t->kind == VALUE_SIGNED || t->kind == VALUE_UNSIGNED || t->kind == VALUE_CHAR ||
	       t->kind == VALUE_UNKNOWN;
}

static uint64_t mask_of(unsigned int bits)
{
	return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

/* Without the neighbours of a bit field. */
static uint64_t own_bits(const struct value_type *t, unsigned int size, uint64_t raw)
{
	raw &= mask_of(size * 8);
	return t->bit_size ? raw & mask_of(t->bit_size) << t->bit_offset : raw;
}

/* The number that the own bits @raw stand for, as a magnitude. */
static uint64_t magnitude(const struct value_type *t, unsigned int size, uint64_t raw, bool *negative)
{
	unsigned int bits = t->bit_size ? t->bit_size : size * 8;

	if (t->bit_size)
		raw >>= t->bit_offset;
	*negative = t->kind == VALUE_SIGNED && raw >> (bits - 1) & 1;
	return *negative ? -raw & mask_of(bits) : raw;
}

static bool spread(struct site_values *s, const struct value_type *t, unsigned int size,
		   const struct site_value *v)
{
	bool negative;
	uint64_t number = magnitude(t, size, v->value, &negative), i;
	struct value_spread **to = negative ? &s->negative : &s->positive;

	if (!*to)
		*to = calloc(1, sizeof(**to));
	if (!*to)
		return false;
	for (i = 0; i < v->count; i++)
		value_spread_add(*to, number);
	return true;
}

/* From now on, numbers are counted by range. */
static void begin_spread(struct site_values *s, const struct value_type *t, unsigned int size)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (!spread(s, t, size, &s->v[i]))
			s->incomplete = true;
	free(s->v);
	s->v = NULL;
	s->n = s->cap = s->last = 0;
}

static struct site_value *site_stats_values_find(struct site_values *s, uint64_t raw)
{
	size_t i;

	if (s->last < s->n && s->v[s->last].value == raw)
		return &s->v[s->last];
	for (i = 0; i < s->n; i++) {
		if (s->v[i].value == raw) {
			s->last = i;
			return &s->v[i];
		}
	}
	return NULL;
}

bool site_values_are_spread(const struct site_values *s)
{
	return s->positive || s->negative;
}

void site_values_add(struct site_values *s, const struct value_type *t, unsigned int size, uint64_t raw)
{
	struct site_value one = { .value = own_bits(t, size, raw), .count = 1 }, *known;

	assert(size >= 1 && size <= 8);
	s->total++;
	known = site_stats_values_find(s, one.value);
	if (known) {
		known->count++;
		return;
	}
	if (!site_values_are_spread(s) && s->n < SITE_VALUES_MAX) {
		if (!vec_push(s->v, s->n, s->cap, one))
			s->incomplete = true;
		else
			s->last = s->n - 1;
		return;
	}
	if (!is_number(t)) {
		s->other++;
		return;
	}
	if (!site_values_are_spread(s))
		begin_spread(s, t, size);
	if (!spread(s, t, size, &one))
		s->incomplete = true;
}

/* Ranges */

static void add_range(struct site_value_range *ret, size_t *n, uint64_t low, uint64_t high, uint64_t count,
		      bool negative)
{
	ret[(*n)++] = negative ? (struct site_value_range){ (int64_t)-high, (int64_t)-low, true, count }
			       : (struct site_value_range){ (int64_t)low, (int64_t)high, false, count };
}

/* Joins @per neighbouring buckets of @s into one range. */
static size_t site_stats_values_join(const struct value_spread *s, size_t per, bool negative,
				     struct site_value_range *ret, size_t cap)
{
	size_t i, n = 0;

	for (i = 0; i < SPREAD_BUCKETS; i += per) {
		uint64_t low, high, unused, count = 0;
		size_t k;

		for (k = i; k < i + per && k < SPREAD_BUCKETS; k++)
			count += s->bucket[k];
		if (!count)
			continue;
		if (n == cap)
			return cap + 1;
		value_spread_bounds(i, &low, &unused);
		value_spread_bounds(k - 1, &unused, &high);
		add_range(ret, &n, low > s->min ? low : s->min, high < s->max ? high : s->max, count,
			  negative);
	}
	return n;
}

static size_t join_to_fit(const struct value_spread *s, bool negative, struct site_value_range *ret,
			  size_t cap)
{
	size_t per, n = 0;

	for (per = 1; s && per < SPREAD_BUCKETS * 2; per *= 2) {
		n = site_stats_values_join(s, per, negative, ret, cap);
		if (n <= cap)
			break;
	}
	return n;
}

size_t site_values_ranges(const struct site_values *s, struct site_value_range *ret, size_t n)
{
	size_t below = 0, above, i;

	assert(n >= 4);
	if (s->negative) {
		below = join_to_fit(s->negative, true, ret, s->positive ? n / 2 : n);
		for (i = 0; i < below / 2; i++) {
			struct site_value_range other = ret[i];

			ret[i] = ret[below - 1 - i];
			ret[below - 1 - i] = other;
		}
	}
	above = join_to_fit(s->positive, false, ret + below, n - below);
	return below + above;
}

static bool copy_spread(const struct value_spread *s, struct value_spread **ret)
{
	if (!s)
		return true;
	*ret = malloc(sizeof(**ret));
	if (!*ret)
		return false;
	**ret = *s;
	return true;
}

bool site_values_copy(const struct site_values *s, struct site_values *ret)
{
	*ret = *s;
	ret->positive = ret->negative = NULL;
	ret->v = NULL;
	ret->cap = s->n;
	if (s->n) {
		ret->v = calloc(s->n, sizeof(*s->v));
		if (ret->v)
			memcpy(ret->v, s->v, s->n * sizeof(*s->v));
	}
	if ((s->n && !ret->v) || !copy_spread(s->positive, &ret->positive) ||
	    !copy_spread(s->negative, &ret->negative)) {
		site_values_deinit(ret);
		return false;
	}
	return true;
}

void site_values_deinit(struct site_values *s)
{
	free(s->v);
	free(s->positive);
	free(s->negative);
	*s = (struct site_values){ 0 };
}
