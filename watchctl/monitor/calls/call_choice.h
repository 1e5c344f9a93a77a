/*
 * call_choice - what `watchctl step` records, as functions that are traced: recorded ones, those that are stepped over, and where the range
 * begins and ends (watchctl/step/model/step_select.h says which). By addresses in the process.
 */
#ifndef WATCHCTL_MONITOR_CALLS_CALL_CHOICE_H
#define WATCHCTL_MONITOR_CALLS_CALL_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/step/model/planner.h"
#include "watchctl/step/model/step_select.h"

#define CALL_POINT_NEW UINT32_MAX

/* A function that was chosen. */
struct call_point {
	uint64_t address; /* of its first instruction, or of the stub that leads to it */
	const char *name; /* the planner's; NULL: it has none */
	bool over;
	uint8_t leaves;	   /* enum track_leaves */
	bool met;	   /* there is a site for it, whatever became of that */
	uint32_t function; /* the user's number of it; CALL_POINT_NEW: none yet */
};

struct call_choice;

/* @s, @from and @to (NULL: none) outlive the choice, and so does the planner. NULL: no memory. */
struct call_choice *call_choice_new(pid_t pid, const struct step_selection *s, const char *from,
				    const char *to, const struct planner_ops *ops, struct planner *planner);
void call_choice_free(struct call_choice *c); /* accepts NULL */

/* Looks at modules that were not seen yet. Cheap where there are none. WC_ENAME: an end of the range is ambiguous, or malformed. */
struct wc_error *call_choice_look(struct call_choice *c, const struct module_list *all);

/* Whether something of it is in @m: code that may be recorded, a function that is stepped over, an end of the range. */
bool call_choice_wants_module(const struct call_choice *c, const struct module *m);

/* The point at @address; NULL: none. Moves with the next look. */
struct call_point *call_choice_point(const struct call_choice *c, uint64_t address);

/* All of them. */
struct call_point *call_choice_points(const struct call_choice *c, size_t *n);

/* Whether @address lies in code that is recorded: what is called from elsewhere is not, if it is stepped over. */
bool call_choice_is_code(const struct call_choice *c, uint64_t address);

/* Whether @address lies in a module that is recorded, as far as functions of it are chosen. */
bool call_choice_is_in_module(const struct call_choice *c, uint64_t address);

/*
 * Where the range begins and ends: the instruction there that may be patched. 0: it has no such end, or that is not in the process (yet).
 * *@is_function: a function begins there.
 */
uint64_t call_choice_from(const struct call_choice *c, bool *is_function);
uint64_t call_choice_to(const struct call_choice *c);

/* How many functions are recorded, and in how many modules. */
void call_choice_count(const struct call_choice *c, size_t *functions, size_t *over, size_t *modules);

#endif
