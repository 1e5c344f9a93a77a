/*
 * planner_types - the types of a planner: LLDB's, those of built-in prototypes, and registers, each distinct
 * one once, with dense ids. Only what stands by value in a type, and what a parameter itself points to, is
 * looked at: a pointer in a struct leads nowhere, so that no program's whole web of types is drawn in.
 */
#ifndef WATCHCTL_STEP_LLDB_PLANNER_TYPES_H
#define WATCHCTL_STEP_LLDB_PLANNER_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/map64.h"
#include "watchctl/code/strings.h"
#include "watchctl/step/lldb/abi.h"
#include "watchctl/step/lldb/lldb_shim.h"
#include "watchctl/trace/event.h"

/* Zero-initialised is empty. */
struct planner_types {
	const struct type_event **v; /* by id */
	size_t n, cap;
	struct strings pool;
	struct map64 shallow, followed; /* lldb_type -> type_event */
	struct map64 by_hash;		/* of their content; the next hash is tried where two are equal */
};

void planner_types_deinit(struct planner_types *t);

/* The type @id; NULL: none. */
const struct type_event *planner_types_at(const struct planner_types *t, uint32_t id);

/* @follow: say what a pointer points to. NULL: @type is NULL, or no memory. */
const struct type_event *planner_types_of(struct planner_types *t, const struct lldb_type *type, bool follow);

/* The one that equals @e in all but its id; copies what it needs. NULL: no memory. */
const struct type_event *planner_types_put(struct planner_types *t, const struct type_event *e);

/* How the calling convention sees @type. False: it cannot be known. */
bool planner_types_layout(const struct lldb_type *type, const struct param_type_facts *facts,
			  struct abi_layout *ret);

#endif
