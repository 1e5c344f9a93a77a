/*
 * step_select - which functions are recorded, which are stepped over, and which are left alone.
 *
 * A module is recorded or stepped over. Recorded are the program and its libraries but for the low-level ones
 * (see step_low_level()), or with modules named, those alone. Of a recorded module each function is recorded,
 * or with names given, those that match; calls that leave recorded code for a module that is stepped over are
 * one event each. Functions that match neither are left alone: they run at full speed.
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_SELECT_H
#define WATCHCTL_STEP_MODEL_STEP_SELECT_H

#include "watchctl/step/model/stepper.h"
#include "watchctl/step/model/planner.h"

/* Lists of patterns as for fnmatch(3), each ended by NULL; NULL: none. */
struct step_selection {
	char *const *only;    /* functions, by name without parameters */
	char *const *modules; /* by path, base name, or that up to its version: "libfoo.so", "libfoo" */
	char *const *over;    /* modules or functions that are stepped over */
	char *const *into; /* modules or functions that are not, against the default or a module in @over */
	char *const *skip; /* functions that are left alone, whatever the others say */
};

/* "libc.so.6", "ld-linux-x86-64.so.2", "[vdso]": stepped over unless told otherwise. Takes a path. */
bool step_low_level(const char *path);

/* The names in that list, separated by spaces. */
const char *step_low_level_names(void);

/* Whether the module at @path is recorded, as far as functions of it are chosen; else it is stepped over. */
bool step_selection_records(const struct step_selection *s, const char *path);

struct step_chosen {
	uint64_t address;
	uint64_t module;  /* its start */
	const char *name; /* lives as long as the planner; NULL: not known */
	bool over;
};

/* How much of a function's name comes before its parameters, which patterns need not have. */
size_t step_select_bare(const char *name);

struct step_select;

/* What they point to outlives the selection. NULL: no memory. */
struct step_select *step_select_new(const struct step_selection *s, const struct planner_ops *ops,
				    struct planner *planner);
void step_select_free(struct step_select *s);

/*
 * Looks at modules that it has not seen yet, after planner_ops.set_modules(). *@ret: the points that are
 * new, with what they are in *@chosen, as many; both live until the next call. Functions of modules that are
 * gone are forgotten.
 */
struct wc_error *step_select_update(struct step_select *s, const struct module_list *modules,
				    const struct step_point **ret, const struct step_chosen **chosen,
				    size_t *n);

/* All code that is recorded now; lives until the next update. */
const struct stepper_code *step_select_code(const struct step_select *s, size_t *n);

/* How many functions are recorded, and in how many modules. */
void step_select_count(const struct step_select *s, size_t *functions, size_t *over, size_t *modules);

/* A text that is the same for the same selection, for the log. Malloc'd; NULL: no memory. */
char *step_selection_text(const struct step_selection *s);

/* Whether a function of that name begins at @address. *@name: as the planner calls it. */
bool step_select_function(const struct step_select *s, uint64_t address, uint64_t *size);

#endif
