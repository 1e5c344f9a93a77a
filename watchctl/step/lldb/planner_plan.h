/*
 * planner_plan - from what is known about a function to what is to be fetched: types and places become
 * fetches, and recipes that say which fetches are which parameter.
 */
#ifndef WATCHCTL_STEP_LLDB_PLANNER_PLAN_H
#define WATCHCTL_STEP_LLDB_PLANNER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/insn/live_in.h"
#include "watchctl/step/lldb/planner_types.h"
#include "watchctl/step/lldb/prototypes.h"
#include "watchctl/step/model/planner.h"

/* One plan in the making: its function's params are filled in, in a pool of the caller's. */
struct plan_maker {
	struct planner_types *types;
	struct strings *pool;
	const struct planner_options *options;
	struct function_plan *plan;
	uint64_t bias; /* of the module: runtime address minus that of the file */
};

/* What the compiler has made of a function, by the linker's name. */
enum plan_variant {
	VARIANT_NONE,
	VARIANT_CONSTANT, /* parameters that were constants are gone: the others move up */
	VARIANT_REDUCED,  /* parameters and the result may be gone, or come in another way */
};

/* By debug information; @places has the same function's parameters. False: no memory. */
bool plan_by_debug_info(struct plan_maker *m, const struct lldb_function *f,
			const struct function_places *places, enum plan_variant variant);

bool plan_by_prototype(struct plan_maker *m, const struct prototype *p);

/* By the argument registers that the code reads; of general ones as much as it reads. */
bool plan_by_registers(struct plan_maker *m, const struct live_in *live);

#endif
