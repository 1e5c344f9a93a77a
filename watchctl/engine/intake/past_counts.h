/*
 * past_counts - what watches counted in places of an engine that were given to others since, by the watches'
 * ids.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_PAST_COUNTS_H
#define WATCHCTL_ENGINE_INTAKE_PAST_COUNTS_H

#include "watchctl/engine/plan/engine.h"

struct past_count {
	uint32_t id;
	struct engine_counts counts;
};

struct past_counts {
	struct past_count *v;
	size_t n, cap;
};

/* False: no memory. */
bool past_counts_add(struct past_counts *p, uint32_t id, const struct engine_counts *c);

/* Of @id; nothing: zero. */
struct engine_counts past_counts_of(const struct past_counts *p, uint32_t id);

/* Nobody will ask for @id any more. */
void past_counts_drop(struct past_counts *p, uint32_t id);

void past_counts_deinit(struct past_counts *p);

#endif
