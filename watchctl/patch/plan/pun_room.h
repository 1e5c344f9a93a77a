/*
 * pun_room - where the trampolines of punned jumps go. The bytes behind such a jump say in which range of addresses: of 16 MiB down to
 * a single one. As few pages as are found to do take all of them; where these lie side by side they are one area.
 *
 * Arithmetic only: nothing here touches a process.
 */
#ifndef WATCHCTL_PATCH_PLAN_PUN_ROOM_H
#define WATCHCTL_PATCH_PLAN_PUN_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/patch/plan/free_space.h"

#define PUN_HEAD 16u /* bytes at the beginning of each area that no trampoline has */

struct pun_want {
	uint64_t low, high; /* where it may begin, both included */
	uint32_t len;	    /* 1 .. a page less PUN_HEAD */
	size_t group;	    /* the caller's */
	uint64_t at;	    /* where it is to begin; 0: there is no room */
	bool limited;	    /* ... but there would be, in one more page */
};

struct pun_area {
	uint64_t start, size; /* whole pages */
};

struct pun_areas {
	struct pun_area *v; /* by address */
	size_t n, cap;
};

/* Of all @n, in any order (they are sorted by @at afterwards), in at most @max_pages pages of @space. False: no memory. */
bool pun_room_make(struct pun_want *want, size_t n, const struct free_space *space, size_t max_pages,
		   struct pun_areas *ret);
void pun_areas_deinit(struct pun_areas *a); /* accepts zeros */

#endif
