/* patch_apply_impl - what the files of patch_apply.h share. */
#ifndef WATCHCTL_PATCH_APPLY_PATCH_APPLY_IMPL_H
#define WATCHCTL_PATCH_APPLY_PATCH_APPLY_IMPL_H

#include <stdbool.h>

#include "watchctl/patch/apply/patch_apply.h"

void patch_note_hold(struct patch_hold_times *t, uint64_t ns);

/* A near area as it says itself. */
struct patch_area {
	const struct probe_range *range;
	struct probe_near head;
	struct probe_patch *patch; /* by trampoline or not: as they lie there; owned */
};

struct patch_area_list {
	struct patch_area *v;
	size_t n, cap;
};

/* Near areas that do not exist (any more) are passed over. False: no memory. */
bool patch_areas_read(const struct probe_place *p, struct patch_area_list *ret);
void patch_areas_deinit(struct patch_area_list *a); /* accepts zeros */

/* That of @range only. False: it is not there, or no memory (errno ENOMEM). */
bool patch_area_read(const struct probe_place *p, const struct probe_range *range, struct patch_area *ret);

/*
 * Nobody has written to where the patch was since that was mapped, or nothing is mapped: the module has gone. Only then is a patch
 * whose bytes are neither the written nor the original ones nobody's.
 */
bool patch_has_gone(const struct probe_place *p, const struct probe_patch *q);

/* What the program's memory says is not trusted. */
bool patch_is_sound(const struct probe_patch *q);

/*
 * Sets the result of jobs (by address, all announced) that no other watchctl's patches go together with: who comes later sees the
 * other's announcement; of two at the same time both may.
 */
struct wc_error *patch_heed_others(const struct probe_place *p, struct patch_job *job, size_t n);

#endif
