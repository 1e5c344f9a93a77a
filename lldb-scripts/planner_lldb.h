/* planner_lldb - the planner that the step recorder uses: LLDB's functions and types, DWARF's places. */
#ifndef LLDB_SCRIPTS_PLANNER_LLDB_H
#define LLDB_SCRIPTS_PLANNER_LLDB_H

#include "lldb-scripts/lldb_shim.h"
#include "watchctl/step/planner.h"

extern const struct planner_ops planner_lldb;

/* The same on a session that exists already, and outlives the planner. */
struct wc_error *planner_lldb_on(struct lldb_session *s, const struct planner_options *o,
				 struct planner **ret);

#endif
