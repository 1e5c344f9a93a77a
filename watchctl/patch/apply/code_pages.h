/*
 * code_pages - changes to code that are written a page at a time: quick while threads stand still, and a page is written whole or
 * not at all, should we be killed.
 */
#ifndef WATCHCTL_PATCH_APPLY_CODE_PAGES_H
#define WATCHCTL_PATCH_APPLY_CODE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/wire.h"

struct code_pages {
	pid_t pid;
	uint64_t start; /* of the page that is here; 0: none */
	bool dirty;
	bool failed; /* a page could not be written */
	uint8_t bytes[PROBE_PAGE];
};

/*
 * The bytes from @addr on, of the page that they are on, to be read, and changed after code_pages_change(). NULL: they are not
 * there, or (failed) a page before could not be written (errno). Valid until the next call.
 */
uint8_t *code_pages_at(struct code_pages *c, uint64_t addr);
void code_pages_change(struct code_pages *c);

/* Writes what was changed. False: it could not (errno). */
bool code_pages_flush(struct code_pages *c);

#endif
