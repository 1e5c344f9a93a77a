/*
 * export_curve - the values of a watch as points of a curve, for formats with counters: numbers of up to 8 bytes;
 * pointers, structures and executed code have none.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_CURVE_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_CURVE_H

#include <math.h>

#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/view/event/view.h"

/* True if the watch's values are numbers that a curve can show. */
static inline bool export_curve_fits(const struct watch_event *e)
{
	switch (e->type.kind) {
	case VALUE_SIGNED:
	case VALUE_UNSIGNED:
	case VALUE_BOOL:
	case VALUE_CHAR:
	case VALUE_FLOAT:
	case VALUE_ENUM:
		return e->access != ACCESS_EXECUTE;
	default:
		return false;
	}
}

/* True, with its bytes in *@raw, if the variable had a value when it was armed that is the curve's first point. */
static inline bool export_curve_begin(const struct watch_event *e, uint64_t *raw)
{
	if (!e->has_value || e->per_thread || !export_curve_fits(e) || !e->size || e->size > 8)
		return false;
	*raw = e->value;
	return true;
}

/* True, with its bytes in *@raw, if the access leaves a value that is a point of the curve. */
static inline bool export_curve_point(const struct view_access *a, uint64_t *raw)
{
	const struct access_event *e = a->raw;

	if (!export_curve_fits(&a->watch->e) || (!e->has_new && !e->has_old) || e->size > 8)
		return false;
	*raw = e->has_new ? e->new_value : e->old_value;
	return true;
}

/* The number that @size bytes @raw are, in *@ret. False: it is infinite, or no number. */
static inline bool export_curve_number(const struct watch_event *e, unsigned int size, uint64_t raw,
				       struct value_number *ret)
{
	struct value_number n = value_to_number(&e->type, size, raw);

	if (n.kind == NUMBER_FLOAT && !isfinite(n.f))
		return false;
	*ret = n;
	return true;
}

#endif
