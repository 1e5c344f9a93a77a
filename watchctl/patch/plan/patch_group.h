/* patch_group - sites that one jump serves, and the bytes of that jump. */
#ifndef WATCHCTL_PATCH_PLAN_PATCH_GROUP_H
#define WATCHCTL_PATCH_PLAN_PATCH_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/patch/plan/patch_plan.h"

struct patch_group {
	uint64_t start;	       /* of the file: where the jump stands */
	uint64_t via;	       /* where a short jump leads, whence another goes on; 0: it is none */
	uint8_t len;	       /* bytes that are overwritten there */
	uint8_t tail;	       /* of a punned jump: bytes behind @len that are its end, and stay; else 0 */
	uint8_t moved, nmoved; /* bytes and instructions that move from @start on */
	uint64_t pun_low, pun_high; /* of a punned jump: where it can lead, of the file */
	size_t first_site, nsites;  /* of the array, in a row */
};

struct patch_groups {
	struct patch_group *v; /* by start */
	size_t n, cap;
};

/*
 * Of the @n sites of one module, as patch_plan_next() gives them; those whose tactic is no jump are in no group. False: no memory.
 */
bool patch_groups_make(const struct patch_site *site, size_t n, struct patch_groups *ret);
void patch_groups_deinit(struct patch_groups *g); /* accepts zeros */

/*
 * Of a group with a tail: the addresses in the process, from *@low to *@high, where its trampoline may begin. False: none of them is a
 * program's.
 */
bool patch_group_reach(const struct patch_group *g, uint64_t bias, uint64_t *low, uint64_t *high);

/* Bytes for one place. */
struct patch_write {
	uint64_t addr;
	uint8_t len, tail; /* the last @tail bytes of the @len + @tail must be there already */
	uint8_t bytes[8];
};

/*
 * What is to be written for a trampoline at @trampoline, where the module is at @bias: the last of *@n writes is the one at the
 * group's start, that before it (if any) is the way station, to be written first. False: it does not reach.
 */
bool patch_group_write(const struct patch_group *g, uint64_t bias, uint64_t trampoline,
		       struct patch_write ret[2], unsigned int *n);

#endif
