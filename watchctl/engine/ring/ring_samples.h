/*
 * ring_samples - from the kernel's own samples to records as the injected handler writes them, where BPF is
 * not permitted. A sample has no value: it is known where the instruction moved a register or a constant, if
 * the code reports so; and what was there before, where that is known of the last access as well.
 */
#ifndef WATCHCTL_ENGINE_RING_RING_SAMPLES_H
#define WATCHCTL_ENGINE_RING_RING_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/engine/intake/intake.h"
#include "watchctl/engine/perf/perf_rings.h"

struct ring_samples;

/* NULL: no memory. @in will take the records, and knows the watches; it must outlive this. */
struct ring_samples *ring_samples_new(struct perf_rings *rings, struct intake *in);

/* The tables that @in is to publish into: what was learnt once about code need not be worked out again. */
const struct wire_area *ring_samples_area(const struct ring_samples *s);
void ring_samples_free(struct ring_samples *s); /* accepts NULL */

/* Place @i is given to another watch, whose variable holds @value if @has_value. */
void ring_samples_arm(struct ring_samples *s, unsigned int i, bool has_value, uint64_t value);

/* Takes in what was sampled until @until_ns, as long as there is room. *any: there was something. */
struct wc_error *ring_samples_take(struct ring_samples *s, uint64_t until_ns, bool *any);

#endif
