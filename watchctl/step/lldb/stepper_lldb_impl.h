/*
 * stepper_lldb_impl - what the files of the LLDB stepper share:
 *
 *	stepper_lldb.c		the main loop: run, stop, examine the stopped threads, continue
 *	stepper_lldb_hit.c	what a stop means: calls, returns, ends of the range
 *	stepper_lldb_range.c	occurrences: how they begin and end
 *	stepper_lldb_place.c	addresses where the program is to be stopped, and LLDB's breakpoints there
 *	stepper_lldb_thread.c	threads, their creators, and what is read from a stopped thread
 *	stepper_lldb_insn.c	instruction stepping: which thread is stepped next
 *	stepper_lldb_report.c	records that wait to be fetched by next()
 *
 * The whole process stops at each stop, and stands until all that its threads have met is reported. LLDB executes
 * the instruction under a breakpoint itself, holding the other threads. So that it is certain which threads
 * have arrived somewhere since the last stop, at most one that stands at a breakpoint runs together with
 * others; more are stepped off one by one.
 */
#ifndef WATCHCTL_STEP_LLDB_STEPPER_LLDB_IMPL_H
#define WATCHCTL_STEP_LLDB_STEPPER_LLDB_IMPL_H

#include "watchctl/base/map64.h"
#include "watchctl/step/insn/fetch_run.h"
#include "watchctl/step/lldb/lldb_shim_process.h"
#include "watchctl/step/lldb/stepper_lldb.h"

#define NO_POINT UINT32_MAX

/* What is to be done about a thread that has stopped, in this order. */
#define DUE_SIGNAL 1u
#define DUE_LOADER 2u
#define DUE_MAKES 4u /* it enters pthread_create() or fork(), or leaves it */
#define DUE_RETURN 8u
#define DUE_FROM 16u
#define DUE_TO 32u
#define DUE_POINT 64u
#define DUE_INSN 128u

enum maker { MAKES_NOTHING, MAKES_THREAD, MAKES_PROCESS };

struct place {
	uint64_t address;
	uint32_t point; /* that is a function; NO_POINT */
	uint32_t from;	/* that is POINT_FROM; NO_POINT */
	bool to;
	bool loader;
	enum maker makes; /* pthread_create(), fork() */
	bool once;	  /* the range's first function returns here */
	uint32_t homes;	  /* so many threads wait for it: stepping goes on, or a maker returns */
	bool set;	  /* LLDB has a breakpoint there */
};

struct stepper_thread {
	pid_t tid;
	bool present, reported;
	bool recorded; /* in the present occurrence */
	bool fresh;    /* its next entry is its first one: CALL_FIRST */
	bool handling; /* it got a signal, whose handler may be entered next */
	bool has_regs; /* of this stop */
	bool stepping; /* by single instructions */
	uint32_t due;  /* DUE_ */
	enum lldb_why why;
	int32_t signal, code;
	uint64_t pc, sp;
	struct regs regs;
	uint64_t at, at_sp;	/* where it stands, and that has been dealt with; 0 */
	uint64_t redo, redo_sp; /* a signal came before it got away from there: met again it is not new; 0 */
	uint64_t home, home_sp; /* stepping goes on there; 0 */
	enum maker makes;	/* inside that: */
	uint64_t make_result, make_return, make_sp;
	uint64_t stack_start, stack_end;
	pid_t creator;
	uint64_t creating_call;
	int32_t syscall; /* it was in when it was found to be stuck; -1 */
};

struct reported {
	struct reported *next;
	struct step_record record;
	struct track_call call;
	struct fetched fetched;
	uint8_t *stack;
	char *why;
};

enum stepper_phase {
	PHASE_NEW,     /* before start() */
	PHASE_RUNNING, /* LLDB is at it */
	PHASE_STOPPED, /* threads have things to be done, or the program can go on */
	PHASE_PAUSED,  /* the user has it */
	PHASE_OVER,
};

struct stepper {
	struct stepper_options o;
	struct lldb_process *process;
	bool owns_process;
	enum stepper_phase phase;
	bool stopping;	/* stop() was called */
	bool pausing;	/* the user wants the process */
	bool resuming;	/* the user had it, and may have moved it */
	bool stuck;	/* it was interrupted because nothing happens */
	bool lending;	/* it was let run for a moment for the threads that are not stepped */
	pid_t alone;	/* the only thread that was let run; 0: all */
	size_t turn;	/* whose instruction was stepped last */
	uint32_t steps; /* since others had their turn */
	uint64_t lend_until;
	uint64_t interrupted_ns; /* when it was interrupted last, and has not stopped yet; 0 */

	struct stepper_thread **thread;
	size_t nthreads, threads_cap;

	struct map64 by_address; /* of struct place */
	struct place **place;
	size_t nplaces, places_cap;
	uint64_t loader_state; /* address of r_state; 0 */

	struct step_point *point;
	size_t npoints, points_cap;
	struct step_plan **plan; /* by point; NULL: none yet */
	size_t plans_cap;
	struct stepper_code *code;
	size_t ncode;
	int64_t errno_offset; /* step_errno.h; 0: not known */
	unsigned int errno_tries;
	pid_t asking; /* the thread that waits for a plan */

	struct range range;
	struct track *track;
	bool recording;
	uint64_t entries, last_ns;
	pid_t from_tid; /* in the function that the occurrence began with; 0: none is */
	uint64_t from_sp, from_return;
	uint64_t hidden; /* a call that was entered and is not reported; 0 */

	bool waits_for_plan, waits_for_modules;
	struct reported *first, **last, *current;
	struct stepper_counts counts;
	struct map64 children; /* by pid: known before, or told */
};

/* tell */
/* A copy of @r, with what it points to. */
struct wc_error *stepper_report(struct stepper *m, const struct step_record *r);
/* That there is @t, if that was not reported. */
struct wc_error *stepper_report_thread(struct stepper *m, struct stepper_thread *t);
/* A record of @t, which is reported first if it is new. */
struct wc_error *stepper_report_of(struct stepper *m, struct stepper_thread *t, struct step_record *r);
struct wc_error *stepper_note(struct stepper *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void stepper_reported_free(struct reported *t);

/* place */
/* The one at @address, made if need be; NULL: no memory. */
struct place *stepper_place(struct stepper *m, uint64_t address);
const struct place *stepper_place_find(const struct stepper *m, uint64_t address);
/* LLDB's breakpoint is there if it is needed now, and only then. */
struct wc_error *stepper_place_sync(struct stepper *m, struct place *p);
struct wc_error *stepper_places_sync(struct stepper *m);
/* None is set any more. */
void stepper_places_clear(struct stepper *m);
/* Where the loader announces libraries, and where threads and processes are made: in those that are loaded.
 */
struct wc_error *stepper_places_prepare(struct stepper *m);
void stepper_places_free(struct stepper *m);
bool stepper_is_code(const struct stepper *m, uint64_t address);

/* thread */
/* All threads of the process that has stopped: who is new, who is gone, what each has to do. */
struct wc_error *stepper_threads_look(struct stepper *m);
void stepper_threads_free(struct stepper *m);
struct stepper_thread *stepper_thread_find(const struct stepper *m, pid_t tid);
bool stepper_thread_load(struct stepper *m,
			 struct stepper_thread *t); /* registers; false: it is being killed */
void stepper_thread_fetch(struct stepper *m, struct stepper_thread *t, const struct fetch_list *l,
			  uint64_t entry_sp, struct fetched *ret);
/* As much as can be read of the stack from its rsp up, at most o.stack_bytes; malloc'd. */
uint8_t *stepper_thread_stack(struct stepper *m, const struct stepper_thread *t, uint32_t *len);
bool stepper_read(struct stepper *m, uint64_t addr, void *buf, size_t len);
void stepper_thread_bounds(struct stepper *m, struct stepper_thread *t);
/* It enters a maker, or leaves it. */
struct wc_error *stepper_thread_makes(struct stepper *m, struct stepper_thread *t);
/* Children that were forked since the last look. */
struct wc_error *stepper_forks_look(struct stepper *m, bool report);
/* The number of the system call that each thread is in. */
void stepper_threads_syscalls(struct stepper *m);

/* hit */
/* Does the next thing that @t has to do. */
struct wc_error *stepper_hit(struct stepper *m, struct stepper_thread *t);
/* Reports ends of calls of @t, whose registers are those of the moment. */
struct wc_error *stepper_report_ends(struct stepper *m, struct stepper_thread *t,
				     const struct track_end *ended, size_t n);

/* range */
struct wc_error *stepper_range_start(struct stepper *m);
struct wc_error *stepper_range_at_from(struct stepper *m, struct stepper_thread *t, uint32_t point);
struct wc_error *stepper_range_at_to(struct stepper *m, struct stepper_thread *t);
/* The function that the occurrence began with may have returned to where @t stands. */
struct wc_error *stepper_range_look(struct stepper *m, struct stepper_thread *t);
/* It has ended. */
struct wc_error *stepper_range_from_ended(struct stepper *m);
struct wc_error *stepper_range_cut(struct stepper *m, pid_t tid, enum range_what what);
struct wc_error *stepper_range_thread_ended(struct stepper *m, pid_t tid);
/* The process has ended, or executes another program. */
struct wc_error *stepper_range_over(struct stepper *m, enum range_what what, enum return_how how);

/* insn */
/* Whether @t goes on by single instructions; reports the one that comes next. */
struct wc_error *stepper_insn(struct stepper *m, struct stepper_thread *t);
/* It runs until it comes back to @home with @sp. */
struct wc_error *stepper_insn_run_to(struct stepper *m, struct stepper_thread *t, uint64_t home, uint64_t sp);
/* Who is to be stepped next; NULL: nobody, all can run. */
struct stepper_thread *stepper_insn_next(struct stepper *m);

#endif
