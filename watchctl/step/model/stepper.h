/*
 * stepper - runs a program from stop to stop, and reports what it saw: entries and returns of the functions it was given,
 * with the values that their plans fetch. The seam between the recorder and what runs the program.
 *
 *	stepper_ptrace.c	the default: breakpoints at entries and returns, set by a separate process
 *	stepper_lldb.c		LLDB's own stepping
 *
 * A stepper numbers calls (track.h), decides where a range begins and ends (range.h), and puts its breakpoints
 * only while one lasts. It knows no types and writes no log.
 */
#ifndef WATCHCTL_STEP_MODEL_STEPPER_H
#define WATCHCTL_STEP_MODEL_STEPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/regs.h"
#include "watchctl/step/insn/plan.h"
#include "watchctl/step/model/range.h"
#include "watchctl/step/model/track.h"
#include "watchctl/trace/event.h"

/* A place where the program is to be stopped. Numbered by the order in which they are given, from 0. */
enum point_use {
	POINT_FUNCTION, /* a recorded function's first instruction */
	POINT_OVER, /* a stub, or first instruction, of one that is stepped over: when called from code that
		       is recorded */
	POINT_FROM, /* the range begins; may coincide with one of the above, then both count */
	POINT_TO,
};

struct step_point {
	uint64_t address;
	uint64_t size;	  /* of the function; 0: not known */
	uint8_t use;	  /* enum point_use */
	uint8_t leaves;	  /* enum track_leaves */
	bool frees;	  /* the memory that its first parameter points to is not the program's any more */
	bool is_function; /* POINT_FROM: @address is where a function begins, so its return ends the range */
};

struct stepper_code {
	uint64_t start, end; /* [start, end): code that is recorded; what is called from elsewhere is not, if
				stepped over */
};

enum stepper_threads {
	STEPPER_THREADS_ALL,   /* that are or come to be in the process while the range lasts */
	STEPPER_THREADS_RANGE, /* the one that began the range, and those that it makes while it lasts */
	STEPPER_THREADS_ONE,   /* only the one that began the range */
};

struct stepper_options {
	pid_t pid; /* attached to, or launched and held before its first instruction (held is set) */
	struct tracee *held; /* the stopped thread of a launched program; NULL: attach */
	struct range_options range;
	enum stepper_threads threads;
	uint32_t depth;	      /* calls deeper than that in a thread are not recorded; 0: no limit */
	uint64_t events;      /* entries after which an occurrence is cut short; 0: no limit */
	uint64_t stuck_ns;    /* an occurrence in which nothing happens for so long is; 0: never */
	bool instructions;    /* report each instruction, too */
	uint32_t stack_bytes; /* of a raw stack, at most STEPPER_STACK_MAX */
	enum recording_inputs inputs;
	uint32_t input_bytes; /* of each that are reported, at most INPUT_BYTES_MAX */
	void *host;	      /* of stepper_lldb: a struct lldb_process on loan; else NULL */
	void (*say)(void *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	void *say_ctx;
};

#define STEPPER_STACK_MAX (64u << 10)

enum step_kind {
	STEP_ENTRY,  /* point, call, regs; entered is what the plan fetched; stack where the caller is not its
			parent */
	STEP_RETURN, /* point, call, how; fetched what the plan's leave list gave (RETURN_RETURNED only), regs
		      */
	STEP_INSN,   /* regs.rip, call (0: none) */
	STEP_SIGNAL, /* signal, code; regs */
	STEP_WRITTEN, /* inside: a call, or what it called, has changed memory: written; stack: the bytes */
	STEP_INPUT,   /* input, inside; stack: its first bytes; why: its name, or NULL */
	STEP_THREAD,  /* first seen: creator, creating_call, stack_start, stack_end */
	STEP_THREAD_END,
	STEP_RANGE,	/* occurrence, range_what */
	STEP_BLOCKED,	/* regs, syscall, stack: after STEP_RANGE of RANGE_STUCK, one for each thread */
	STEP_FORK,	/* child: not followed, it runs on without any breakpoint */
	STEP_MODULES,	/* libraries were loaded or unloaded: the thread waits until modules_done() */
	STEP_NEED_PLAN, /* the first entry of point: its thread waits until set_plan() */
	STEP_LOST,	/* lost: so many events were not recorded, and why */
	STEP_NOTE,	/* why: a sentence for the user and the log */
	STEP_EXEC,	/* the process executes another program: the recording is over */
	STEP_EXIT,	/* the process has ended, with wait status @status: so has the recording */
	STEP_DONE,   /* all occurrences that were wanted are over: breakpoints are out, the program runs on.
			@why: it ended otherwise, which is an error */
	STEP_PAUSED, /* whoever shares the process wants it to stand still: start() goes on (LLDB's user) */
};

/* Of struct input_event. */
struct step_input {
	enum input_kind kind;
	int32_t fd;
	int64_t result;
	uint64_t offset, size, hash;
	uint32_t hashed;
};

/*
 * Of STEP_WRITTEN: what a parameter of the call points to, all of it, and behind it RETURN_CHANGED_BYTES(len) bytes of
 * marks; or words of one of the objects of set_data(), and behind them as many bytes, in which each bit is 1 that the
 * call itself has changed since the record before.
 */
struct step_written {
	bool is_data;
	uint8_t fetch, state; /* not is_data: of the plan's entry list, and what became of it */
	uint32_t len;
	uint64_t address; /* is_data */
};

struct step_record {
	enum step_kind kind;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	pid_t pid, tid;
	uint32_t point;
	struct track_call *call; /* STEP_ENTRY, _RETURN */
	uint64_t inside;	 /* STEP_INSN, _SIGNAL, _STOOD, _WRITTEN: the innermost open call; 0 */
	enum return_how how;
	struct regs regs;
	const struct fetched *fetched;
	/* Raw stack: bytes from regs.rsp up. NULL: the return address alone is the stack down to the parent.
	 */
	const uint8_t *stack;
	uint32_t stack_len;
	int32_t signal, code, syscall, status;
	struct step_input input;
	struct step_written written;
	pid_t creator, child;
	uint64_t creating_call, stack_start, stack_end;
	uint32_t occurrence;
	enum range_what range_what;
	uint64_t lost;
	const char *why;
};

/* How often each end of the range was reached, and what the stepper did. */
struct stepper_counts {
	uint64_t from_seen, to_seen, occurrences;
	uint64_t entries, returns, stops, lost;
	uint64_t wasted; /* stops that told nothing: calls of stepped-over functions from code that is not
			    recorded */
};

struct stepper;

struct stepper_ops {
	const char *name;
	bool sees_inputs; /* reports STEP_INPUT */
	/* On an error the program is as it was found. */
	struct wc_error *(*open)(const struct stepper_options *o, struct stepper **ret);
	/* Before start(), and between STEP_MODULES and modules_done(). @code is a whole, new list. */
	struct wc_error *(*add_points)(struct stepper *m, const struct step_point *p, size_t n);
	struct wc_error *(*set_code)(struct stepper *m, const struct stepper_code *c, size_t n);
	/* A whole, new list of objects in memory whose changes are reported. NULL: it cannot do that. */
	struct wc_error *(*set_data)(struct stepper *m, const struct stepper_code *object, size_t n);
	/* Points whose address lies in [start, end) are gone: their library is unloaded. */
	struct wc_error *(*remove_points)(struct stepper *m, uint64_t start, uint64_t end);
	/* Lets the program run; a range without a beginning begins. Also goes on after STEP_PAUSED. */
	struct wc_error *(*start)(struct stepper *m);
	/* The next record, valid until the next call; NULL: none within @timeout_ms. */
	struct wc_error *(*next)(struct stepper *m, int timeout_ms, const struct step_record **ret);
	struct wc_error *(*set_plan)(struct stepper *m, uint32_t point, const struct step_plan *plan);
	struct wc_error *(*modules_done)(struct stepper *m);
	/* Ends the recording: next() gives what is left, returns of what is open (RETURN_NEVER), and
	 * STEP_DONE. */
	struct wc_error *(*stop)(struct stepper *m);
	void (*counts)(const struct stepper *m, struct stepper_counts *ret);
	/* Leaves the program running and as it was found. Accepts NULL. */
	struct wc_error *(*close)(struct stepper *m);
};

extern const struct stepper_ops stepper_ptrace;

#endif
