/*
 * tag_totals - what was captured under each tag: how often, by how many threads, with which values, and from
 * which places in the code. Bounded by the numbers of tags, places and threads, not by that of captures.
 */
#ifndef WATCHCTL_VIEW_TABLE_TAG_TOTALS_H
#define WATCHCTL_VIEW_TABLE_TAG_TOTALS_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"
#include "watchctl/view/table/value_spread.h"

/* Where captures were made: equal across runs, whatever ASLR does. */
struct tag_place {
	struct tag_place *next; /* of the same tag */
	struct tag_place *same_hash;
	const struct view_tag *tag;
	struct view_frame source; /* the innermost function there, whose file and line it is */
	struct view_frame frame;  /* the real one, which `source` may have been inlined into */
	uint64_t count;
};

struct tag_row {
	const struct view_tag *tag;
	uint64_t count;
	uint64_t first_tid; /* a tag has one thread at least, and often no more */
	struct map64 tids;  /* the others */
	struct view_time first, last;
	struct value_spread *values; /* NULL: none had a value */
	struct tag_place *place;     /* all of them, see tag_totals_sort(). NULL: hostile log */
	size_t nplaces;
};

/* Zero-initialised is empty. Points into the annotate that fed it: deinit before that is freed. */
struct tag_totals {
	struct map64 by_tag; /* view_tag.id -> struct tag_row */
	struct map64 places; /* hash -> struct tag_place, of all tags */
	struct tag_row **v;
	size_t n, cap;
	bool incomplete; /* memory ran out: some captures are not counted */
};

/* A view that counts into @t. */
struct view tag_totals_view(struct tag_totals *t);

size_t tag_row_threads(const struct tag_row *r);

/* Captures a second, between the first and the last; 0: cannot be known. */
double tag_row_rate(const struct tag_row *r);

/* Most captures first; equal ones in the order of their ids. The first place becomes the most frequent one.
 */
void tag_totals_sort(struct tag_totals *t);

void tag_totals_deinit(struct tag_totals *t);

#endif
