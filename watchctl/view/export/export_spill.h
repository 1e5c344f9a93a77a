/*
 * export_spill - many lists that grow at the same time and are read one after the other: their records wait
 * in a file without a name, but for the last few of each list.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_SPILL_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

#define SPILL_RECORDS 63 /* of a list, in memory: a chunk takes 1 KB */

struct spill_record {
	uint64_t time_ns;
	uint32_t what;
	uint32_t pad; /* written to a file as it is: bytes of ours, not what memory held */
};

/* Zero-initialised is empty. Lives as long as the spill. */
struct spill_list {
	struct spill_record *record; /* those that are in memory; NULL: none yet */
	size_t n, cap;
	uint64_t before; /* where the chunk before them lies, plus 1; 0: there is none */
	uint64_t total;
};

struct spill;

/* NULL: no memory. The file is made when it is needed: where TMPDIR says, or in /tmp. */
struct spill *spill_new(void);

/* WC_EFAIL: the file cannot be written. */
struct wc_error *spill_put(struct spill *s, struct spill_list *l, const struct spill_record *r);

/* Calls @each for all records of @l in their order. */
struct wc_error *spill_each(struct spill *s, struct spill_list *l,
			    void (*each)(void *ctx, const struct spill_record *r), void *ctx);

/* Frees what @l has in memory. */
void spill_list_deinit(struct spill_list *l);

/* Accepts NULL. */
void spill_free(struct spill *s);

#endif
