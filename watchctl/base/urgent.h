/*
 * urgent - for the moments in which another program waits for us: on a busy machine we would have to wait for
 * our turn, and it with us.
 */
#ifndef WATCHCTL_BASE_URGENT_H
#define WATCHCTL_BASE_URGENT_H

#include <stdbool.h>

struct urgent {
	int policy; /* to go back to */
	bool raised;
};

/* This thread goes before all that has no real-time priority, where that is permitted. Not for long, nor
 * nested. */
void urgent_begin(struct urgent *u);

/* Accepts zero-initialised. */
void urgent_end(struct urgent *u);

#endif
