/*
 * call_trace - every call of chosen functions of one process: a probe at the first instruction of each function, and one at each that
 * leaves it (watchctl/monitor/patch); what they record becomes calls and returns, as a step recording has them.
 *
 * Emits: the process, its modules and threads, one recording and its range, each function before its first call, calls and returns, and at
 * the end what was lost and what was switched off, by function, and one summary (WATCH_CALLS).
 *
 * A call is over when its function's return is seen. Where that cannot be seen, for the return could not be patched, or the function was
 * left by longjmp or an exception, the next event of the thread farther out shows that it is over: its time is the latest possible.
 */
#ifndef WATCHCTL_MONITOR_CALLS_CALL_TRACE_H
#define WATCHCTL_MONITOR_CALLS_CALL_TRACE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/monitor/calls/call_functions.h"
#include "watchctl/monitor/monitor.h"
#include "watchctl/step/model/planner.h"
#include "watchctl/target/inject/same_addresses.h"
#include "watchctl/trace/event.h"

/* A recording of `watchctl step`. */
struct call_step_options {
	const struct step_selection *selection;
	const char *from, *to; /* as of step_request */
	uint32_t occurrence, count;
	bool one_thread; /* only the one that begins the range */
	uint32_t depth;
	uint64_t events;
	bool no_start; /* what the program was started with is not recorded */
};

struct call_trace_options {
	pid_t pid;			/* 0: launch */
	char *const *argv;		/* ended by NULL; the program to launch */
	enum same_addresses *addresses; /* as patch_session_options */
	struct call_selection selection;
	const struct call_step_options
		*step; /* in place of the selection, and of pending and max_rate; NULL: calls are traced */
	bool pending;  /* modules and functions may come later */
	bool args;     /* parameters and results are recorded */
	const struct planner_ops *planner; /* says what they are; NULL: registers */
	struct planner_options values;	   /* with @args; memory is ignored */
	uint64_t
		max_rate; /* calls a second of one function; one that is called more often is switched off. 0: none is */
	bool wait;	 /* threads that find no room wait for us; else their calls are lost */
	uint64_t buffer; /* bytes for each CPU, of what waits to be read */
	const char *
		log; /* the log that is written, which gets the calls in files of their own; NULL: calls are events */
	const volatile sig_atomic_t *stop;
};

struct call_trace_counts {
	size_t functions,
		entries_refused; /* functions that are traced; that are not, for they cannot be patched */
	size_t exits_refused;	 /* places that leave a traced function and cannot be patched */
	size_t modules;
	size_t off;				       /* functions that were switched off */
	uint64_t called, recorded, lost, switched_off; /* calls: called == recorded + lost + switched_off */
	uint64_t longest_stop_ns;
	char why[120]; /* of the first refusal */
	/* Of a step recording: */
	size_t over;		/* functions that are stepped over */
	size_t unknown;		/* functions whose code is not known well enough to be patched */
	size_t results_refused; /* places behind calls of these that cannot be patched: their results are not seen */
	uint64_t from_seen, to_seen;		    /* how often the ends of the range were reached */
	uint32_t occurrences, recorded_occurrences; /* of the range */
	uint64_t untyped,
		untyped_functions; /* calls of functions without types, and those that were called */
};

struct call_trace;

/* As patch_session_open(). WC_ENAME: no function is to be traced. */
struct wc_error *call_trace_open(const struct call_trace_options *o, struct event_sink sink,
				 struct call_trace **ret);

/* Until something ends it. @limits->count: calls. */
struct wc_error *call_trace_run(struct call_trace *t, const struct session_limits *limits,
				enum session_end *ret);

pid_t call_trace_pid(const struct call_trace *t);

/* A chosen function that is not traced, or of which not all ends are seen, for one reason. */
struct call_untraced {
	const char *module;	/* path */
	const char *function;	/* as people know it; NULL: it has no name */
	uint64_t module_offset; /* of its first instruction, in bytes, of the file */
	bool at_end;		/* it is traced, but not all of its ends are seen; else it is not traced */
	uint32_t places;	/* of the function, where this is so: at least 1 */
	const char *why;	/* static */
};

/*
 * The next one from *@at on, which begins at 0 and moves on: those of modules that come later are behind all others. False: there is
 * none yet. The texts are @t's, until it is closed.
 */
bool call_trace_untraced(const struct call_trace *t, size_t *at, struct call_untraced *ret);

/* Functions and modules up to now. */
void call_trace_so_far(const struct call_trace *t, struct call_trace_counts *ret);

/* Takes all out, reports, frees. Accepts NULL; *@counts may be NULL. WC_EFAIL: something had to stay, and why. */
struct wc_error *call_trace_close(struct call_trace *t, struct call_trace_counts *counts);

#endif
