/*
 * probe_totals - the sites of probes: how often each was reached, and what was recorded there. Bounded by the numbers of
 * sites and threads.
 */
#ifndef WATCHCTL_VIEW_TABLE_PROBE_TOTALS_H
#define WATCHCTL_VIEW_TABLE_PROBE_TOTALS_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

struct probe_row {
	const struct view_probe_site *site;
	uint64_t events; /* that were counted here */
	struct map64 tids;
	uint64_t last_tid; /* key in tids, plus 1 */
};

/* Zero-initialised is empty. Points into the annotate that fed it: deinit before that is freed. */
struct probe_totals {
	struct map64 by_site; /* view_probe_site.id -> struct probe_row */
	struct probe_row **v;
	size_t n, cap;
	bool is_part;	 /* a part of the recording is counted: its own totals are of something else */
	bool incomplete; /* memory ran out: some events are not counted */
};

/* A view that counts into @t. */
struct view probe_totals_view(struct probe_totals *t);

/* Whether the recording's own total is known, and means what is counted here. */
bool probe_row_has_total(const struct probe_totals *t, const struct probe_row *r);

/* How often the site was reached, or where that is not known, how many events there are of it. */
uint64_t probe_row_count(const struct probe_totals *t, const struct probe_row *r);

/* The highest counts first, then the most events; equal ones by probe, then by address. Of a part, sites without events go. */
void probe_totals_sort(struct probe_totals *t);

void probe_totals_deinit(struct probe_totals *t);

#endif
