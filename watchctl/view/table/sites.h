/* sites - how often each place in the code made an access of one kind to a watch. */
#ifndef WATCHCTL_VIEW_TABLE_SITES_H
#define WATCHCTL_VIEW_TABLE_SITES_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"
#include "watchctl/view/table/site_index.h"

struct site {
	struct site_key key; /* first */
	uint64_t count;
	struct map64 tids;
	uint64_t last_tid; /* key in tids, plus 1 */
	struct view_time first, last;
	bool has_old, has_new, old_uncertain; /* of the last access */
	bool withheld;			      /* its values were */
	uint64_t old_value, new_value;
};

/* Zero-initialised is empty. Points into the annotate that fed it: deinit before that is freed. */
struct sites {
	struct site_index index;
	struct site **v;
	size_t n, cap;
	bool incomplete; /* memory ran out: some accesses are not counted */
};

/* Counts @a; the site that it was made at, which lives as long as @s. NULL: no memory. */
struct site *sites_count(struct sites *s, const struct view_access *a);

/* A view that counts into @s. */
struct view sites_view(struct sites *s);

/* Most accesses first; equal ones by watch, then in the order in which they were first seen. */
void sites_sort(struct sites *s);

void sites_deinit(struct sites *s);

#endif
