/*
 * track - the open calls of each thread: which call an entry belongs to, which ones a return ends, and how
 * those ended whose return never came. Arithmetic on stack pointers and return addresses; no process, no
 * memory of one. Every stepper uses it, so that all give the same calls.
 *
 * A call is open from its entry until its return address is reached with the stack just above it. What shows
 * that it ended otherwise: another event of its thread with a higher stack pointer on the same stack. Two
 * entries with the same stack pointer and return address are a tail call.
 *
 * A thread may have several stacks (signal handlers on an alternate one, coroutines). An event on one never
 * ends calls on another. The thread's own stack is known by its bounds, if track_set_stack() gave them;
 * others are distinguished by what is open on them, within TRACK_STACK_SPAN. Parents go across: the first call
 * on a coroutine's stack has as parent the call that switched to it, which may end first.
 *
 * Of a call that vanished, the innermost open call that leaves otherwise than by returning, such as longjmp
 * or __cxa_throw, shows how. If there was none, how it ended is not known, and that is what is reported. Nor is
 * it known of one that may have returned as well as been jumped out of: a longjmp was open inside, and nobody
 * saw where it landed.
 */
#ifndef WATCHCTL_STEP_MODEL_TRACK_H
#define WATCHCTL_STEP_MODEL_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/trace/event.h"

#define TRACK_STACK_SPAN (8u << 20)

/* What a function does to those that called it, besides returning. */
enum track_leaves {
	TRACK_NORMAL,
	TRACK_THROWS,	    /* __cxa_throw, _Unwind_RaiseException ... */
	TRACK_FORCES,	    /* _Unwind_ForcedUnwind: the same; pthread_exit and cancellation call it */
	TRACK_JUMPS,	    /* longjmp, siglongjmp ... */
	TRACK_ENDS_THREAD,  /* pthread_exit, thrd_exit */
	TRACK_ENDS_PROCESS, /* exit, _exit, abort ... */
	TRACK_EXECS,
	TRACK_RESUMES,	 /* _Unwind_Resume: goes on with what unwinds already */
	TRACK_CATCHES,	 /* __cxa_begin_catch: an exception has landed */
	TRACK_SETS_JUMP, /* setjmp ...: may return again, while its caller is open */
	TRACK_SWITCHES,	 /* swapcontext, setcontext: goes on on another stack */
};

/* By its name without version, "longjmp"; demangled or not. */
enum track_leaves track_leaves_of(const char *name);

struct track_call {
	uint64_t call; /* as in call_event */
	uint64_t parent;
	uint32_t point;	       /* the caller's number of the function */
	uint32_t parent_point; /* ... of its parent's, if there is one */
	uint8_t flags;	       /* CALL_ */
	bool over;	       /* stepped over */
	uint8_t leaves;	       /* enum track_leaves */
	uint32_t depth;
	uint64_t sp, return_address;
};

/* Calls that have ended, innermost first; valid until the next call of the tracker. */
struct track_end {
	struct track_call call;
	enum return_how how;
};

struct track;

struct track *track_new(void); /* NULL: no memory */
void track_free(struct track *t);

/* The stack of a thread, where known: [start, end). */
bool track_set_stack(struct track *t, pid_t tid, uint64_t start, uint64_t end);

/*
 * Forgets the thread; its open calls are reported as ended by @how. RETURN_CANCELLED is reported as
 * RETURN_THREAD_EXIT if a call that ends the thread is open.
 */
struct wc_error *track_thread_end(struct track *t, pid_t tid, enum return_how how,
				  const struct track_end **ended, size_t *n);

struct track_entry {
	pid_t tid;
	uint32_t point;
	uint64_t sp, return_address;
	bool over;
	uint8_t leaves;
	uint8_t flags; /* CALL_SIGNAL, CALL_FIRST as the stepper knows; the others are found out */
};

/*
 * @e->tid enters a function. *@ret: the new call, valid until the next call of the tracker; *@ended: those
 * that this shows to be over. A tail call leaves its parent open: both end at once.
 */
struct wc_error *track_enter(struct track *t, const struct track_entry *e, struct track_call *ret,
			     const struct track_end **ended, size_t *n);

/*
 * @tid's innermost call, entered with @sp and the return address @address, jumps to a function whose end is not seen: once it is gone, it
 * has returned; if it is open at the end, how it has ended is not known. Nothing happens if that call is not the innermost one.
 */
void track_jumps(struct track *t, pid_t tid, uint64_t address, uint64_t sp);

/*
 * @tid stands at @address, which is the return address of some call, with @sp. Reports the calls that ended
 * here: the one that returned, and what it had tail-called (RETURN_RETURNED, innermost first), and any that
 * lay inside and are gone. No RETURN_RETURNED among them: the address was reached on another way.
 */
struct wc_error *track_reached(struct track *t, pid_t tid, uint64_t address, uint64_t sp,
			       const struct track_end **ended, size_t *n);

/*
 * @tid executes a return, with the return address @address at @sp: as track_reached() once it is there, but for one thing. The
 * function has returned, whatever was open inside, so that this is known of a function that longjmp has come back to.
 */
struct wc_error *track_returns(struct track *t, pid_t tid, uint64_t address, uint64_t sp,
			       const struct track_end **ended, size_t *n);

/* A call of pthread_exit() or the like is open in @tid, or its frames are being unwound because it was cancelled. */
bool track_is_ending(const struct track *t, pid_t tid);

/* The innermost open call of @tid; NULL: none. */
const struct track_call *track_innermost(const struct track *t, pid_t tid);

/*
 * Whether a thread that reaches @address is to be reported about: it is the return address of an open call, of
 * any thread, or of a setjmp whose caller is open (where longjmp lands; a stepper that does not stop there
 * loses only how some calls ended). Ask for those of ended calls, when they have ended, whether the
 * breakpoint is still needed.
 */
bool track_awaits(const struct track *t, uint64_t address);

/* Every open call of every thread is reported as ended by @how, ended[i] of the thread tids[i]; the threads stay
 * known. */
struct wc_error *track_end_all(struct track *t, enum return_how how, const struct track_end **ended,
			       const pid_t **tids, size_t *n);

#endif
