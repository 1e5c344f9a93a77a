/* code_map_impl - what the sweep leaves for the jump tables; private to code_map. */
#ifndef WATCHCTL_PATCH_PLAN_CODE_MAP_IMPL_H
#define WATCHCTL_PATCH_PLAN_CODE_MAP_IMPL_H

#include "watchctl/patch/plan/code_map.h"

/* An instruction that takes the address of data: perhaps of a jump table. */
struct code_reference {
	uint64_t from, to;
};

#endif
