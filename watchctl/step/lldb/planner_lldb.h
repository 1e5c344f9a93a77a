/* planner_lldb - the planner that the step recorder uses: LLDB's functions and types, DWARF's places. */
#ifndef WATCHCTL_STEP_LLDB_PLANNER_LLDB_H
#define WATCHCTL_STEP_LLDB_PLANNER_LLDB_H

#include "watchctl/step/lldb/lldb_shim.h"
#include "watchctl/step/model/planner.h"

extern const struct planner_ops planner_lldb;

/* The same on a session that exists already, and outlives the planner. */
struct wc_error *planner_lldb_on(struct lldb_session *s, const struct planner_options *o,
				 struct planner **ret);

#endif
