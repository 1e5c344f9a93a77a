/*
 * planner_registers - the planner that knows nothing of functions: of each, the six registers that integers and pointers are passed in,
 * and the one of a result (psABI for x86-64, 3.2.3), as they are.
 */
#ifndef WATCHCTL_STEP_MODEL_PLANNER_REGISTERS_H
#define WATCHCTL_STEP_MODEL_PLANNER_REGISTERS_H

#include "watchctl/step/model/planner.h"

extern const struct planner_ops planner_registers;

#endif
