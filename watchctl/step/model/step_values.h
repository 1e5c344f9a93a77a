/* step_values - fetched bytes -> the values of parameters and results, as logs have them. */
#ifndef WATCHCTL_STEP_MODEL_STEP_VALUES_H
#define WATCHCTL_STEP_MODEL_STEP_VALUES_H

#include "watchctl/step/model/planner.h"

/* More than all values of one call take: what a plan fetches at most, and the heads. */
#define STEP_VALUES_MAX (2 * PLAN_BYTES + 8 * FUNCTION_PARAMS_MAX)

/* Appends the value that @recipe makes of @f, of type @type (NULL: not known). */
void step_value_put(const struct param_recipe *recipe, const struct fetched *f, const struct type_event *type,
		    uint8_t *buf, size_t cap, size_t *len);

/* Whether the result in @f says that the function has failed and errno shows why; *ret is errno then. */
bool step_value_error(const struct function_plan *plan, const struct fetched *f, int32_t *ret);

#endif
