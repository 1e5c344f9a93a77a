/*
 * intake - from the handler's records to events: completes stacks, makes known what an event refers to,
 * drops what a watch did not ask for, and puts the rest into the sink.
 *
 * Two steps, so that a slow sink (a view that loads debug information) does not cost events: taking a record
 * in publishes the unwind rules it lacked, which makes all later records of its place small; handing out
 * comes after, and looks for new records in between.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_INTAKE_H
#define WATCHCTL_ENGINE_INTAKE_INTAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/filter.h"
#include "watchctl/base/time/tsc_clock.h"
#include "watchctl/engine/intake/code_facts.h"
#include "watchctl/engine/intake/departures.h"
#include "watchctl/engine/intake/followed.h"
#include "watchctl/engine/intake/handler_ring.h"
#include "watchctl/engine/intake/kernel_access.h"
#include "watchctl/engine/intake/stuck.h"
#include "watchctl/engine/intake/thread_ends.h"
#include "watchctl/engine/plan/engine.h"
#include "watchctl/engine/plan/watch_home.h"

struct intake_watch {
	struct watchpoint w;	   /* size 0: none; its want_* are filled in */
	struct wire_filter filter; /* for hits that could not be decided where they happened */
	uint64_t passed, recorded_ns;
	uint64_t seen; /* records taken out of the ring, whatever became of them */
	uint64_t recorded, filtered;
	struct watch_home home;
	bool late; /* of a hook: it was hit, and nobody waits for us */
	struct engine_hook hook;
	uint64_t last_ns; /* of the last record that may have changed the value; 0: there was none */
	pid_t last_tid;
	uint64_t steps; /* of one access that the CPU counted several times: see kernel_access_goes_on() */
};

struct queued_access;

struct intake {
	pid_t pid;
	unsigned int frames;
	struct event_sink sink;
	struct ring ring;
	bool begun; /* intake_init() found the memory for all of it; else there is nothing to take in */
	struct code_facts *facts;
	struct kernel_access *kernel; /* of the engine; NULL: nothing is known of the kernel's code */
	struct tsc_clock clock;
	struct intake_watch watch[WIRE_WATCHES];
	struct followed who;
	struct queued_access *queue;
	size_t queued, handed;
	uint64_t looks; /* passes so far: those who pass look for records before and after */
	uint64_t modules_ns, modules_backoff_ns;
	uint64_t code_ns, code_every_ns; /* when the mapped code was compared last, and how often it is */
	bool hook_hit;		 /* stops the intake until the caller has dealt with it and cleared it */
	struct engine_hook hook; /* the thread that waits, when hook_hit */
	bool hooks_wait;	 /* hits of hooks do not stop it: they are kept, as late ones */
	uint64_t behind;	 /* wire_control's: at hooks up to there nobody waits any more */
	bool samples;		 /* stacks are walked as records are taken in, and by what is known then */
	bool reported_blocked;
	bool reported_unknown;	 /* that code is not known, because its process ended */
	bool reported_lost_file; /* ... because the file that it came from can no longer be opened */
	struct thread_ends ends;
	struct stuck stuck;
	struct departures departures;
	bool execed;  /* the kernel told that the target has executed another program */
	bool muted;   /* the sink has failed, and its error was returned: nothing more goes there */
	bool corrupt; /* the ring does not hold what a handler writes: it is not read any further */
};

/*
 * @area holds the tables (NULL: there are none) and, with @layout, the ring; it must outlive the intake.
 * Without @layout records come by intake_take(). WC_EFAIL: no memory, or a sink's error.
 */
struct wc_error *intake_init(struct intake *in, pid_t pid, const struct engine_options *o,
			     struct event_sink sink, const struct wire_area *area,
			     const struct wire_control *layout);

/* Watch @i is armed as @w says; its counts begin anew. */
void intake_arm(struct intake *in, unsigned int i, const struct watchpoint *w);

/* Room for another record? Else intake_pass() must be called before intake_take(). */
bool intake_has_room(const struct intake *in);

/* Takes in a record that did not come through the ring; the caller vouches for its form. */
struct wc_error *intake_take(struct intake *in, const struct wire_record *r);
void intake_deinit(struct intake *in); /* accepts zero-initialised */

/*
 * Delivers what is there, for a limited time: the target may write as fast as we read. *any: whether there
 * was anything.
 */
struct wc_error *intake_pass(struct intake *in, bool *any);

/*
 * Hits of hooks that nobody waits at any more are dealt with once for all of the same hook, when we have
 * caught up: what is to be done depends on how things are now. Sets in->hook_hit if there is one.
 */
void intake_take_late_hook(struct intake *in);

/* Everything that was taken in, without a look for more; whatever the sink says to it. */
struct wc_error *intake_hand_out(struct intake *in);

/* What still comes of watch @i is nobody's any more: it is only counted as seen. */
void intake_forget(struct intake *in, unsigned int i);

/* Looks at the target's modules again, at most every @min_age_ns. */
struct wc_error *intake_refresh_modules(struct intake *in, uint64_t now_ns, uint64_t min_age_ns);

/* The modules are those of the time @time_ns from here on: intake_take() does so by itself. */
struct wc_error *intake_catch_up(struct intake *in, uint64_t time_ns);

/* Whether the kernel shows what the target maps; else it must be looked at while the target has it. */
bool intake_is_reported(const struct intake *in);

/*
 * At the end: of children that have executed other programs, what was not reported yet. @n: how many the engine
 * counted; 0: it does not count them.
 */
struct wc_error *intake_report_departures(struct intake *in, uint64_t n);

/* Once: thread @tid blocks SIGTRAP, and what that does to its hits. */
struct wc_error *intake_report_blocked(struct intake *in, pid_t tid);

/* The target executes another program; what was recorded of the one before has been taken in. */
struct wc_error *intake_other_program(struct intake *in);

#endif
