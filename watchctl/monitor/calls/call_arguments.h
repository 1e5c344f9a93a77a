/*
 * call_arguments - what is recorded of the parameters and results of traced functions: a planner's plans (watchctl/step/model/planner.h) as
 * the program carries them out (probe/calls/call_wire.h), and what came of that.
 */
#ifndef WATCHCTL_MONITOR_CALLS_CALL_ARGUMENTS_H
#define WATCHCTL_MONITOR_CALLS_CALL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/monitor/calls/call_functions.h"
#include "watchctl/patch/probe/call_buffers.h"
#include "watchctl/step/model/told_types.h"

struct call_arguments {
	struct told_types types; /* with the planner */
	size_t nfiles;		 /* of the functions' modules: that the planner knows */
	bool told_modules;	 /* somebody else tells them to the planner */
	pid_t pid;
	struct fetched entry, leave;	  /* of the last call_arguments_read() */
	const struct function_plan *left; /* of the function that @leave is of; NULL: nothing was read */
	struct fetched other;		  /* of call_arguments_result() */
	struct map64 both;		  /* plan -> that of a landing behind a call of its function; owned */
};

/* @ops: NULL: nothing is known of functions but registers. @o->memory is ignored. */
struct wc_error *call_arguments_open(pid_t pid, const struct planner_ops *ops,
				     const struct planner_options *o, struct call_arguments **ret);
void call_arguments_free(struct call_arguments *a); /* accepts NULL */

/* Sets the plan of function @i, which lives as long as @a. */
struct wc_error *call_arguments_plan(struct call_arguments *a, struct call_functions *f, uint32_t i);

/*
 * Sets the plan of values of a site, once its function has one, and its callee. Behind a call of a function that may end as another one does, it has
 * both what that function returns and what others do.
 */
struct wc_error *call_arguments_at(struct call_arguments *a, const struct call_functions *f,
				   struct call_site *s);

/* Turns the plan into that of such a place of the function. False: nothing is fetched there. @room: of CALL_PLAN_MOST bytes. */
bool call_arguments_fetches(const struct function_plan *plan, enum call_place place, struct call_plan *room);

/* Reads what was fetched there into @a->entry and @a->leave; of what makes no sense, as much as does. */
void call_arguments_read(struct call_arguments *a, const struct function_plan *plan, enum call_place place,
			 const struct call_passed *c);

/*
 * Finds what @plan's function has returned, by what was last read: where it was left itself, or another one that it has called last of all, by a
 * jump. NULL: nothing was read.
 */
const struct fetched *call_arguments_result(struct call_arguments *a, const struct function_plan *plan);

#endif
