/*
 * probe_rings - reads what probes have recorded, in the order of time. The rings are the program's memory: whatever stands in them
 * is checked, and taken as data.
 */
#ifndef WATCHCTL_PATCH_PROBE_PROBE_RINGS_H
#define WATCHCTL_PATCH_PROBE_PROBE_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_place.h"

struct probe_record {
	uint64_t tsc;
	uint32_t tid; /* as the program numbers it */
	uint32_t site;
	enum probe_record_kind kind;
	uint8_t string_words;
	size_t nwords;	/* how many slots hold: more than it has may be of what was there before */
	uint64_t *word; /* lives during the call */
};

typedef struct wc_error *probe_record_sink(void *ctx, const struct probe_record *r);

struct probe_rings;

/* Of @p, which must outlive it. NULL: no memory. */
struct probe_rings *probe_rings_new(const struct probe_place *p);
void probe_rings_free(struct probe_rings *r); /* accepts NULL */

/*
 * Delivers what was recorded before @until_tsc; UINT64_MAX: all that there is, for nothing comes any more. *@more (may be NULL): as
 * much was there as is taken at a time.
 */
struct wc_error *probe_rings_read(struct probe_rings *r, uint64_t until_tsc, probe_record_sink *each,
				  void *ctx, bool *more);

/* Records that were begun and never completed: their thread has ended, or stands still, in the middle of one. */
uint64_t probe_rings_unfinished(const struct probe_rings *r);

#endif
