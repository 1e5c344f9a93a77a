/*
 * step_session - one recording of a range: a stepper, a planner, what is selected, and the events that come of
 * it. The wiring, and their lifetimes; the same for `watchctl step` and for steprec inside LLDB.
 *
 * Emits the recording, the process, its modules, then what step_recorder makes of the stepper's records.
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_SESSION_H
#define WATCHCTL_STEP_MODEL_STEP_SESSION_H

#include "watchctl/session/session.h"
#include "watchctl/step/model/stepper.h"
#include "watchctl/step/model/planner.h"
#include "watchctl/step/model/step_recorder.h"
#include "watchctl/step/model/step_select.h"

struct step_request {
	pid_t pid;
	struct tracee
		*held; /* of a launched program that stands before its first instruction; NULL: it runs */
	void *host;    /* for the stepper: see stepper_options */
	const char *from,
		*to; /* functions, file:line, addresses (watchctl/code/locate/code_name.h); NULL: none */
	struct step_selection selection;
	uint32_t occurrence, count;
	enum stepper_threads threads;
	uint32_t depth;
	uint64_t events;
	uint64_t stuck_ns;
	bool instructions;
	uint32_t stack_bytes;
	bool no_inputs;
	uint32_t input_bytes;
	uint32_t globals; /* bytes of variables of the modules whose changes are recorded; 0: none */
	struct planner_options plans;
	const struct stepper_ops *stepper;
	const struct planner_ops *planner_ops;
	struct planner *planner; /* on loan; NULL: the session opens and closes its own */
	void (*say)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *say_ctx;
	/*
	 * Once, when the program is let run for the first time: from now on all is recorded that was asked for; may be
	 * NULL.
	 */
	void (*started)(void *ctx);
	void *started_ctx;
};

#define STEP_MOST 2u

/* A function with many of the calls. */
struct step_most {
	const char *
		name; /* lives as long as the session; NULL: it has no name, or calls is 0, and there is none */
	uint64_t calls;
};

struct step_session;

/* Finds everything, and lets nothing run. @q and what it points to outlives the session. On error the program
 * is as it was found. */
struct wc_error *step_session_open(const struct step_request *q, struct event_sink sink,
				   struct step_session **ret);

/* Lets the program run, until something ends the recording. @limits->count is not looked at. */
struct wc_error *step_session_run(struct step_session *s, const struct session_limits *limits,
				  enum session_end *ret);

/* Ends a recording after SESSION_PAUSED, without letting the program run: what is open is reported. */
struct wc_error *step_session_finish(struct step_session *s, enum session_end *ret);

void step_session_totals(const struct step_session *s, struct step_tally *totals,
			 struct stepper_counts *counts);

/* The functions that have most of the calls so far, by name, the first one first. */
void step_session_most(const struct step_session *s, struct step_most ret[STEP_MOST]);

/* As step_recorder_untyped(). */
char *step_session_untyped(struct step_session *s);

/* The wait status of the process after SESSION_EXITED. */
int step_session_status(const struct step_session *s);

/* How many functions are recorded, in how many modules, and how many are stepped over. */
void step_session_selected(const struct step_session *s, size_t *functions, size_t *over, size_t *modules);

/* Leaves the program running. Accepts NULL. */
struct wc_error *step_session_close(struct step_session *s);

#endif
