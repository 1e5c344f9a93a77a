/*
 * monitored - what the files of the monitor share: its state, and who does what.
 *
 *	monitor.c	opens and closes: the order of life
 *	run.c		pumps, until something ends it
 *	exec.c		into the next program that the process executes
 *	change.c	watches that come and go while it runs
 *	choose.c	which engine
 *	yield.c		from an engine that gives up to the next
 *	plan.c		a request -> where it is, the registers it takes, its filter
 *	arm.c		arms what was planned, reports the watch
 *	loader.c	what waits for a library, or for the program to begin
 *	summary.c	what became of the hits of a watch
 *	unseen.c	values that change without an access
 *	follow.c	the pointers on a path, and moving the watch when one changes
 *	per_thread.c	the threads of a variable of which each thread has its own
 *	collect.c	the captures that the program makes itself
 */
#ifndef WATCHCTL_MONITOR_MONITORED_H
#define WATCHCTL_MONITOR_MONITORED_H

#include "handler/filter.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/engine/intake/exec_watch.h"
#include "watchctl/engine/plan/engine.h"
#include "watchctl/engine/plan/range_plan.h"
#include "watchctl/monitor/monitor.h"
#include "watchctl/monitor/tags.h"
#include "watchctl/monitor/timeline.h"
#include "watchctl/monitor/reported_modules.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/tracee.h"

/*
 * Ids of hooks in the engine; below are the watches: those of the command line from 0 on, then those that
 * were added, each by an id that no other had.
 */
#define LOADER_HOOK 0xffff1000u
#define THREAD_HOOK 0xffff1100u /* and those that follow: one for each place where threads get their copies */
#define POINTER_HOOK 0xffff1200u /* + LOCATE_POINTERS * place + how far along the path */
#define THREAD_PLACES 3u
#define FIRST_HOOKS 3u /* places at which a static program may set up its first thread */

/* How often threads are looked for that have no copy armed yet, and elements whose array may have changed. */
#define EXTEND_NS 50000000ull

#define SEEN_BEFORE 4u

struct seen_value {
	uint64_t value, ns;
	pid_t tid; /* whose access it was; 0: a look */
};

/* The value of a variable, as accesses and looks at it have shown. */
struct value_seen {
	bool known;
	struct seen_value last, before[SEEN_BEFORE]; /* those of other threads, just before */
	unsigned int nbefore;
	bool corrects;	  /* last is a look's, and differs from what the engine saw last */
	uint64_t dropped; /* accesses that are not given on, up to last */
	bool partial, kernel, shared;
	unsigned int looks; /* that have differed, one after the other, */
	uint64_t counted;   /* while no access was counted */
	struct seen_value differs;
	uint64_t changes; /* without an access */
	bool has_final;
	struct seen_value final; /* before anything was disarmed */
	bool reported_shared;
};

/* A watch in its place, of which there are MONITOR_WATCHES: place @i's request is options.watch[i]. */
struct monitored {
	bool used; /* else the place is free, and nothing below counts */
	uint32_t id;
	bool disabled; /* by the user */
	bool armed;
	bool follows;	 /* the pointers on its path are armed */
	bool tested;	 /* where the path led before, a known access was seen */
	bool waits;	 /* a pointer on the path is null: nothing is armed but the pointers */
	bool on_demand;	 /* per thread: a thread gets its copy only when it first asks for it */
	bool has_bounds; /* it is an element of an array whose bounds may change */
	struct variable variable;
	uint32_t size; /* asked for, or the type's */
	struct range_part part[RANGE_PARTS];
	unsigned int nparts;
	struct wire_filter filter;
	char *filter_text;		   /* for people; NULL: no filter */
	uint64_t pointer[LOCATE_POINTERS]; /* armed as hooks; 0: not */
	void *address_ctx[2];		   /* for the engine's callback: the monitor, this */
	uint64_t thread_address;	   /* per thread: that of the first thread that has one */
	bool reported;			   /* the watch event has been emitted */
	uint64_t forwarded;		   /* accesses given to the sink */
	uint64_t armed_ns;
	struct value_seen seen;
	struct engine_counts past; /* by engines that are closed: before an exec */
	char *texts;		   /* of a request that was added; NULL: the caller's */
};

/* Places in the code that threads pass before they access copies of their own. */
struct thread_places {
	bool known;
	uint64_t at[THREAD_PLACES]; /* of n, if not more */
	size_t n;
	bool hooked, reported_late;
};

struct monitor {
	struct monitor_options options;
	struct event_sink sink;
	const struct engine_ops *ops;
	struct engine *engine;
	char why[200];		/* this engine; "": it is the default one */
	unsigned int candidate; /* engine auto: how far down the list of them */
	struct wc_error *left;	/* ... what those before had to leave behind in the program; NULL: nothing */
	struct locator *locator;
	struct tracee held;
	struct monitored watch[MONITOR_WATCHES];
	uint32_t next_id;
	unsigned int thread_hooks;   /* at some of these: */
	struct thread_places starts; /* where threads start, and have the copies that do not come on demand */
	struct thread_places copies; /* where they get those that do */
	uint64_t extended_ns;	     /* when the source last did what it does every EXTEND_NS */
	pid_t pid;
	uint64_t stack_start; /* of the program that it ran at first; 0: not known */
	bool launched, hooked, started, reported_kernel, reported_begun_again;
	bool executed; /* it has executed another program, which is watched */
	bool begins;   /* the program is seen from its first instruction on: launched, or executed before our
			eyes */
	int wait_status;
	uint64_t limit, forwarded;
	bool at_hook;	  /* a thread waits for the next pump */
	uint64_t wait_ns; /* of a pump, at most */
	bool over;	  /* the end has come, and how */
	enum session_end end;

	/* With captures; else NULL and zero. */
	struct event_sink events;	 /* where all events go: through the timeline, or straight on */
	struct timeline *timeline;	 /* with watches as well */
	struct reported_modules modules; /* likewise */
	struct tags *tags;		 /* NULL before and after */
	struct tag_table tag_table;
	struct tag_counts tag_counts; /* of what was stopped */
	bool reported_tags;
	uint64_t collected_ns; /* since when; 0: it never was */
	uint64_t captured;     /* captures given to the sink */
	uint64_t tags_wait_ns; /* until the next poll */
	int pidfd;
	struct exec_watch exec; /* with may_add: asked while there is no engine */
};

/* Looks whether values changed without an access, at all watches that are armed; notes say so. */
struct wc_error *monitor_look_at_values(struct monitor *m);

/* The same at the end of a watch, in two steps: before anything is disarmed, and when all hits have come. */
void monitor_look_last(struct monitor *m, unsigned int i);
struct wc_error *monitor_judge_last(struct monitor *m, unsigned int i, const struct engine_counts *c);

/* Watch @i has been armed: what its variable holds now is the first value. */
void monitor_look_first(struct monitor *m, unsigned int i, const struct arm_report *report);

/* How often more than notes have said. */
struct wc_error *monitor_report_changes(struct monitor *m, unsigned int i);

/* An access, before it is given on. *@corrected: a copy of it, with the old value that a look has seen; else unused. */
const struct trace_event *monitor_see_access(struct monitor *m, const struct trace_event *e,
					     struct trace_event *corrected);

/* There is one in that place, and it is to be armed. */
static inline bool monitor_wants(const struct monitor *m, unsigned int i)
{
	return m->watch[i].used && !m->watch[i].disabled;
}

bool monitor_has_watches(const struct monitor *m);

/*
 * Chooses an engine and opens it: fills in m->ops, m->why and m->engine. WC_ENOTSUP, WC_EPERM: none can work,
 * or not the one asked for, and why. Without watches there is nothing to open it for.
 */
struct wc_error *monitor_open_engine(struct monitor *m);

/* Engine auto: it is not the last that could be tried. */
bool monitor_has_next_engine(const struct monitor *m);

/* ... the next that can work is opened; the one before is closed. WC_ENOTSUP, WC_EPERM: none can. */
struct wc_error *monitor_open_next_engine(struct monitor *m);

/* After PUMP_ENDED: the next engine goes on, or the watch is over. */
struct wc_error *monitor_yield(struct monitor *m);

/* The engine has stopped: what it counted of each watch is kept, for it is to be closed. */
void monitor_keep_counts(struct monitor *m);

/* The engine with the hooks is gone, or the program. */
void monitor_forget_hooks(struct monitor *m);

/* Nothing is armed any more; all is to be found again. */
void monitor_forget_armed(struct monitor *m);

/* A program that we started, and that has not run a line of its own: it goes with our error. */
void monitor_drop_child(struct monitor *m);

/* Looks whether a program that we started has ended. */
void monitor_reap(struct monitor *m);

/* Arms what is to be armed from the start, and hooks the loader if something may come with a library. */
struct wc_error *monitor_arm_first(struct monitor *m);

/* The same of watch @i, which comes later. With --pending it may wait for its library. */
struct wc_error *monitor_arm_later(struct monitor *m, unsigned int i);

/* Lets go of the hook of the loader if nothing waits for it any more. */
void monitor_unhook_loader(struct monitor *m);

/* After PUMP_HOOK. */
struct wc_error *monitor_on_hook(struct monitor *m);

/* --exec follow: the same names in the program that the process runs now. */
struct wc_error *monitor_follow_exec(struct monitor *m);

/* One pump of the engine, and of the captures, and what follows from it; sets m->over. */
struct wc_error *monitor_pump(struct monitor *m, uint64_t most_ns);

/* What was lost, and the summary, of watch @i. @c: its counts by the engine that is open. */
struct wc_error *monitor_report_summary(struct monitor *m, unsigned int i, const struct engine_counts *c);

void monitor_add_counts(struct engine_counts *sum, const struct engine_counts *c);

struct wc_error *monitor_put(struct monitor *m, struct trace_event *e);
struct wc_error *monitor_note(struct monitor *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Finds watch @i and fills in what is to be armed; nothing is armed. *missing: it is not there yet, but may
 * come with a library. A null pointer on a path that is followed is no error: then ->waits is set.
 */
struct wc_error *monitor_plan(struct monitor *m, unsigned int i, bool *missing);

/*
 * Plans and arms all watches that are not armed yet. What is missing waits for the loader where it may still
 * come: *ret_missing.
 */
struct wc_error *monitor_arm_all(struct monitor *m, bool any_name_may_come, bool *ret_missing);

/* Plans and arms watch @i alone, with the pointers on its path. */
struct wc_error *monitor_arm_one(struct monitor *m, unsigned int i, bool *missing);

/* Arms watch @i as planned, and reports it. */
struct wc_error *monitor_arm(struct monitor *m, unsigned int i);

/* Arms the pointers on the path of watch @i as hooks, those that are not yet; disarms the others. */
struct wc_error *monitor_arm_pointers(struct monitor *m, unsigned int i);
void monitor_disarm_pointers(struct monitor *m, unsigned int i);

/* A pointer has changed. */
struct wc_error *monitor_follow(struct monitor *m, unsigned int i);

/* Looks whether elements of followed arrays have moved for another reason than a pointer: by new bounds. */
struct wc_error *monitor_look_again(struct monitor *m);

/* How many registers the pointers of watch @i take. */
unsigned int monitor_pointers(const struct monitor *m, unsigned int i);

bool monitor_is_per_thread(const struct monitored *w);
bool monitor_any_per_thread(const struct monitor *m);

/* Once a per-thread variable is armed: sees to it that copies that threads get from now on are, before they are used. */
struct wc_error *monitor_hook_threads(struct monitor *m);

/* Does what takes long of that, before the variable is armed: threads that get copies meanwhile are late. */
struct wc_error *monitor_find_thread_places(struct monitor *m);
void monitor_unhook_threads(struct monitor *m);

/*
 * The same for the first thread of a launched program that has no loader, and so nothing that shows when that
 * thread has its copy.
 */
struct wc_error *monitor_hook_first_thread(struct monitor *m);

/* Begins with the captures, if they were asked for. A held program is run to its entry point. */
struct wc_error *monitor_collect(struct monitor *m);

/* Before anything is done: whether there can be captures at all, as far as that can be known now. */
struct wc_error *monitor_check_library(const struct monitor *m);

struct wc_error *monitor_collect_poll(struct monitor *m, enum tags_state *ret);

/* Waits as long as the last poll said, but at most @most_ns; and no longer than the process lives. */
void monitor_wait(const struct monitor *m, uint64_t most_ns);

/* After TAGS_ENDED: PUMP_EXITED or PUMP_EXECED. */
enum pump_result monitor_how_it_ended(const struct monitor *m);

/* With neither an engine nor captures: what an engine would have to say about the process. */
enum pump_result monitor_look(struct monitor *m);

/* Delivers the rest. Accepts that there is nothing to stop. */
struct wc_error *monitor_collect_stop(struct monitor *m);

struct wc_error *monitor_collect_summary(struct monitor *m);

/* Arms threads that have no copy armed yet. */
struct wc_error *monitor_extend(struct monitor *m);

#endif
