/*
 * site_index - finds the site at which an access was made. A site is (module, offset in it, kind, origin, watch): equal
 * across runs, whatever ASLR does.
 */
#ifndef WATCHCTL_VIEW_TABLE_SITE_INDEX_H
#define WATCHCTL_VIEW_TABLE_SITE_INDEX_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

/* What makes a site; the first member of what its owner keeps about it. */
struct site_key {
	struct site_key *same_hash;
	const struct view_watch *watch;
	enum access_kind kind;
	enum access_origin origin;
	uint64_t ip; /* of the first access seen here; where execution went on when `after` */
	bool after;  /* the accessing instruction is not known */
	const struct location *location;
	char *insn; /* NULL: unknown */
};

/* Zero-initialised is empty. */
struct site_index {
	struct map64 sites; /* hash of a site -> struct site_key chain */
	struct map64 known; /* hash of what leads there fast -> struct site_key */
};

/* NULL: none yet. */
struct site_key *site_index_find(struct site_index *x, const struct view_access *a);

/*
 * Makes @key that of @a's site, which was not found, and keeps a pointer to it. Its @insn is the caller's to free. False: no
 * memory, nothing changed.
 */
bool site_index_add(struct site_index *x, const struct view_access *a, struct site_key *key);

/* Releases the index, not the keys. */
void site_index_deinit(struct site_index *x);

#endif
