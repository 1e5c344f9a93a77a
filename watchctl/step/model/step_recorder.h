/*
 * step_recorder - what a stepper saw (struct step_record) -> the events of a log: functions and types are reported
 * before their first call, fetched bytes become values, raw stacks become frames.
 *
 * The same for every stepper, in `watchctl step` and inside LLDB.
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_RECORDER_H
#define WATCHCTL_STEP_MODEL_STEP_RECORDER_H

#include "watchctl/step/model/step_globals.h"
#include "watchctl/step/model/stepper.h"
#include "watchctl/step/model/planner.h"
#include "watchctl/trace/event.h"

struct step_recorder;

/* What has gone through, for a last line. */
struct step_tally {
	uint64_t calls, returns, steps, signals, threads, lost;
	uint64_t untyped; /* calls of functions of which neither debug information nor a prototype is known */
	uint64_t untyped_functions, functions;
	uint32_t occurrences;	  /* that were recorded */
	enum range_what last_end; /* how the last one ended; 0: none has */
};

/*
 * @planner, @globals, which may change (those whose changes the stepper reports), and what @sink leads to outlive the
 * recorder. NULL: no memory.
 */
struct step_recorder *step_recorder_new(const struct planner_ops *ops, struct planner *planner,
					const struct step_globals *globals, struct event_sink sink);
void step_recorder_free(struct step_recorder *r);

/* The modules of process @pid as they are now: shows what has come and what has gone. */
struct wc_error *step_recorder_modules(struct step_recorder *r, pid_t pid, const struct module_list *modules);

/*
 * Reports the mappings of @pid that were not reported before. Also done at each end of an occurrence; call it now
 * and then, best while a thread waits, because the mappings of a process that has ended cannot be read.
 */
struct wc_error *step_recorder_regions(struct step_recorder *r, pid_t pid);

/* The plan of point @point, which lives as long as the planner. */
struct wc_error *step_recorder_plan(struct step_recorder *r, uint32_t point,
				    const struct function_plan *plan);

struct wc_error *step_recorder_put(struct step_recorder *r, const struct step_record *rec);

/* Something that readers of the log should know. */
struct wc_error *step_recorder_note(struct step_recorder *r, const char *text);

void step_recorder_totals(const struct step_recorder *r, struct step_tally *ret);

/* A phrase on calls of functions without types, and on what to install, malloc'd. NULL: there were none. */
char *step_recorder_untyped(struct step_recorder *r);

#endif
