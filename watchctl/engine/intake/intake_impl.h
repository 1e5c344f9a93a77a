/*
 * intake_impl - what the intake's files share:
 *
 *	intake.c	empties the ring into the queue
 *	intake_take.c	the way of one record into the queue, step by step
 *	intake_values.c	the values before and after it
 *	intake_judge.c	whether a hit is what its watch asked for
 *	intake_out.c	out of it, into the sink
 *	intake_hook.c	hits that are no events, at which a thread may wait for us
 *	intake_code.c	the modules and the code that a record is about, and its stack
 */
#ifndef WATCHCTL_ENGINE_INTAKE_INTAKE_IMPL_H
#define WATCHCTL_ENGINE_INTAKE_INTAKE_IMPL_H

#include "watchctl/engine/intake/intake.h"

struct queued_access {
	struct trace_event event;
	uint64_t frame[WIRE_FRAMES];
	bool goes_on;	    /* the next record of the thread may be a further step of it */
	uint64_t step_ns;   /* when its last step was */
	uint64_t step_look; /* how many looks there had been when that came */
};

#define INTAKE_STEPS_APART 128u /* accesses by other threads between two steps of one */

/* One record into the queue, which has room, with all that it needs made known; or it is counted and dropped. */
struct wc_error *intake_take_in(struct intake *in, const struct wire_record *r);

enum intake_fate { INTAKE_KEEP, INTAKE_FILTERED, INTAKE_NEVER_WAS };

/* @e: its access. @code: the facts about its code; the rest of it is filled in here. */
enum intake_fate intake_judge(const struct intake *in, struct intake_watch *w, const struct wire_record *r,
			      struct trace_event *e, struct access_query *code);

/*
 * The values of *@e, an access, by what its instruction tells, @code; and whether the old one may have been replaced
 * unseen. To be called for each record, in their order.
 */
void intake_correct_values(struct intake *in, struct intake_watch *w, const struct wire_record *r,
			   const struct access_query *code, struct trace_event *e);

/* Into the sink. An error of it is returned once: the hits still to come must be taken in all the same. */
struct wc_error *intake_put(struct intake *in, const struct trace_event *event);

/* The next one that is queued goes there. */
struct wc_error *intake_hand_out_one(struct intake *in);

/* All that is queued goes there now; the queue's places stay taken until they are given free together. */
struct wc_error *intake_report_queued(struct intake *in);

/* Makes the facts, listening, and looks for the first time. */
struct wc_error *intake_code_init(struct intake *in, const struct wire_area *area, bool family);

/* No records wait: the modules are those of a moment ago. */
struct wc_error *intake_catch_up_idle(struct intake *in);

/* Frames of *@a, in @frame: those that were recorded, and what can be walked from there. */
struct wc_error *intake_complete_stack(struct intake *in, const struct wire_record *r, uint64_t time_ns,
				       struct followed_process *p, uint64_t *frame, struct access_event *a);

/* A hit of a hook; in->hook_hit is set if a thread may wait at it. */
void intake_take_hook(struct intake *in, struct intake_watch *w, const struct wire_record *r);

/* The code that *@a is about, made known. */
struct wc_error *intake_know_code(struct intake *in, const struct access_event *a, uint64_t now,
				  struct access_query *q);

#endif
