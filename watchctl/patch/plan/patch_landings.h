/*
 * patch_landings - where calls return to whose end is not seen in the function that is called: because that is in another module, or not known,
 * or cannot be patched where it returns, or jumps to such a one last of all.
 */
#ifndef WATCHCTL_PATCH_PLAN_PATCH_LANDINGS_H
#define WATCHCTL_PATCH_PLAN_PATCH_LANDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/patch/plan/code_map.h"

/* Calls @each for the instruction behind each such call; for some it need not have been. False: no memory. */
bool patch_landings_find(const struct code_map *m, void (*each)(void *ctx, uint64_t addr), void *ctx);

#endif
