/*
 * step_tracer - the process that traces the program for the ptrace stepper, and nothing else. What its files
 * share:
 *
 *	step_tracer.c		its life: the loop, commands from the owner
 *	step_tracer_threads.c	which threads are traced; stops of every kind, and how a thread continues
 *	step_tracer_births.c	new threads and processes: seized, cloned, forked
 *	step_tracer_breaks.c	the breakpoints in the program's code
 *	step_tracer_move.c	executes the instruction under a breakpoint
 *	step_tracer_hit.c	what a hit means: calls, returns, ends of the range
 *	step_tracer_deep.c	calls below the limit of --depth
 *	step_tracer_trap.c	keeps the program's SIGTRAP handler and masks, which hits make the kernel forget
 *	step_tracer_remote.c	system calls by a thread of the program
 *	step_tracer_range.c	occurrences: how they begin and end
 *	step_tracer_state.c	what is read of a stopped thread: memory, vector registers, stack
 *	step_tracer_report.c	records for the owner
 *	step_tracer_written.c	what calls change in memory
 *	step_tracer_input.c	what system calls deliver to the program
 *
 * It is a process of its own because a tracer's death is dangerous: the kernel lets go of the threads, the
 * breakpoints stay in the code, and the next one kills the program. The tracer has nothing that could make it
 * die: no terminal, no output, no user. When the owner dies, it takes out every breakpoint and lets everybody
 * go. See step_guard.c for what happens if it dies itself.
 *
 * A breakpoint is int3: the thread stops with a SIGTRAP, rip one byte further. rip is put back at once, and
 * the instruction that belongs there is executed by step_tracer_move.c when the thread goes on. So a stopped
 * thread always stands where it would without us, and taking the breakpoints out is all it takes to let it
 * go.
 */
#ifndef WATCHCTL_STEP_PTRACE_STEP_TRACER_H
#define WATCHCTL_STEP_PTRACE_STEP_TRACER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/step/insn/fetch_run.h"
#include "watchctl/step/insn/insn_move.h"
#include "watchctl/step/model/step_box.h"
#include "watchctl/step/model/step_pointees.h"
#include "watchctl/step/model/step_shadow.h"
#include "watchctl/target/inject/stopped_call.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/stop_wait.h"

#define STEP_BUCKETS 256u
#define NO_POINT UINT32_MAX
#define XSTATE_MAX 16384u

/* Why a stopped thread does not go on. */
enum step_hold {
	HOLD_START = 1,	  /* launched, and nothing of it has run */
	HOLD_BIRTH = 2,	  /* who made it will be known in a moment */
	HOLD_PLAN = 4,	  /* entered a function that is not planned yet */
	HOLD_MODULES = 8, /* libraries have changed */
};

/* How the instruction under a breakpoint is being executed. */
enum step_moving {
	MOVING_NOT,
	MOVING_COPY, /* single-stepped elsewhere */
	MOVING_LIFT, /* was single-stepped in place, and did not come to its end in time */
};

struct step_thread {
	struct step_thread *next;
	pid_t pid, tid;
	bool guest;   /* of a process that shares the program's memory for a while (vfork): not recorded */
	bool stopped; /* and we know it: ptrace requests are answered */
	bool group;   /* stopped by job control as well: it must not run */
	bool trapped; /* at a SIGTRAP that is ours */
	bool interrupted; /* it will stop because we asked for it, if nothing else stops it before */
	bool disturbed;	  /* ... or may, after that: the kernel's end of a system call is then our doing */
	bool ending;	  /* its memory may go any time */
	bool dead;	  /* a leader that has ended before its threads: never stops again */
	bool met;	  /* has stopped for the first time */
	bool born;	  /* its creator is known, or never will be */
	bool recorded;	  /* in the present occurrence */
	bool reported;	  /* to the owner */
	bool fresh;	  /* its next entry is its first one: CALL_FIRST */
	bool handling;	  /* it got a signal, whose handler may be entered next */
	bool cancelled;	  /* it got the signal by which pthread_cancel() works */
	bool group_exits; /* it ends, and so does its process */
	bool stepping;	  /* by single instructions */
	bool again;	  /* the hit that it stands at was reported before */
	bool aside;	  /* a stop of it was put aside */
	bool in_syscall;  /* stopped at the beginning or end of a system call */
	bool past;	  /* leaving: it has no breakpoint's SIGTRAP before it any more */
	int signal;	  /* to be delivered when it goes on */
	unsigned int holds;
	pid_t creator;
	uint64_t creating_call;
	bool has_info; /* info is that of the stop that is looked at, and registers are read if it is a hit */
	siginfo_t info;
	uint32_t hit; /* number + 1 of the breakpoint that it has run into, and that was not looked at yet */
	bool has_regs, dirty; /* regs are known; and have to be written back */
	struct user_regs_struct user;
	uint32_t at;	  /* number + 1 of the breakpoint that it stands on, whose instruction comes next */
	uint32_t waiting; /* HOLD_PLAN: the breakpoint's number */
	enum step_moving moving;
	uint32_t under; /* number of the breakpoint whose instruction is on its way */
	uint64_t copy;	/* MOVING_COPY: where it is executed */
	uint64_t reported_at,
		reported_sp; /* a hit that was reported, and whose instruction did not come to its end; 0 */
	uint64_t step_home, step_home_sp; /* stepping goes on when it comes back there; 0 */
	uint64_t sigmask;		  /* that blocks SIGTRAP, as last seen; 0: it does not */
	uint64_t outer_mask; /* the same, of what the signal handler interrupted that it runs since */
	uint64_t handler_sp; /* where that handler's return address is, while sigmask is the handler's; 0 */
	unsigned int given_back; /* as the tracer's, when it went on */
	bool entering;		 /* a signal handler, at whose first instruction it stops */
	bool merged;   /* a hit, or step, of ours, with a SIGTRAP of the program's own that it blocked */
	bool requeued; /* ... which waits again; the stop after that is to come */
	bool borrowed; /* ... for which it blocks the signal, and did not before */
	uint64_t borrowed_mask;
};

/* What a breakpoint is for. */
#define BREAK_FUNCTION 1u /* point[function], recorded or stepped over */
#define BREAK_FROM 2u
#define BREAK_TO 4u
#define BREAK_RETURN 8u	 /* the return address of a call */
#define BREAK_LOADER 16u /* libraries are announced here */
#define BREAK_HOME 32u	 /* where stepping goes on */
#define BREAK_FIXED (BREAK_FUNCTION | BREAK_FROM | BREAK_TO | BREAK_LOADER)

struct step_copies; /* step_tracer_copies.c */

struct step_break {
	uint64_t address;	 /* as box_break of the same number */
	uint32_t use;		 /* BREAK_; 0: of no use any more */
	uint32_t function, from; /* numbers of points */
	uint32_t idle;		 /* hits in a row of a return address that meant nothing */
	uint32_t deep;		 /* hits below the limit of depth within the call ... */
	uint64_t deep_in;	 /* ... of this number */
	bool parked;		 /* taken out until the thread is above that limit */
	bool refused;		 /* cannot be set */
	bool writable;		 /* lies in memory that the program may write: only that byte is touched */
	bool changing;		 /* while it is written */
	bool prepared, no_copy;
	struct insn_move move;
	uint64_t copy; /* of its instruction; 0: none yet */
	uint8_t copy_len;
};

/* A stop that is looked at later. */
struct late_status {
	struct late_status *next;
	pid_t tid;
	int status;
};

struct late_record {
	struct late_record *next;
	uint64_t bytes[];
};

struct step_tracer {
	struct step_box *box;
	struct box_break *breaks; /* box->nbreaks of them */
	pid_t pid;		  /* of the program */
	pid_t vm_tid;		  /* of the program, and alive: by which its memory is read */
	int owner_fd, mem_fd;

	/* threads */
	struct step_thread *bucket[STEP_BUCKETS];
	struct step_thread *last; /* the one that stopped last */
	size_t nthreads;
	struct thread_ids
		unborn; /* children that are ours to clean, and have not stopped for the first time */
	struct late_status *late_status, **late_status_end;
	bool exiting; /* the program is about to end */
	bool ended;   /* STEP_EXIT or _EXEC was reported */
	int exit_status;
	bool ignores_trap; /* the program, before the first hit */
	bool may_leave;	   /* that it ignores SIGTRAP is put back, or cannot be */

	/* trap */
	bool catches_trap; /* the program has a SIGTRAP handler, as far as we know */
	struct trap_known trap;
	bool reported_handler;

	struct stopped_gadgets gadgets;

	/* breaks */
	struct map64 by_address; /* number + 1 */
	struct step_break *brk;
	size_t brk_cap;
	uint32_t *order; /* numbers, by address */
	size_t order_cap;
	uint32_t ordered; /* order[] holds so many */
	uint32_t refused;
	bool has_shadow_stack;
	struct step_copies *copies;

	/* meaning */
	struct step_point *point;
	size_t npoints, points_cap;
	struct step_plan **plan; /* by point; NULL: none yet */
	size_t plans_cap;
	bool *asked; /* by point: for its plan */
	size_t asked_cap;
	struct stepper_code *code, *new_code;
	size_t ncode, code_cap, nnew_code, new_code_cap;
	struct range range;
	struct track *track;
	bool started;
	bool recording;	     /* inside an occurrence that is recorded */
	bool done;	     /* STEP_DONE was reported */
	uint64_t unreported; /* a call that is entered, and not reported yet; 0 */
	uint64_t entries;
	uint64_t last_ns; /* the last record, or the beginning of the occurrence */
	/* The call of A by which the occurrence began: ends when that returns. */
	pid_t from_tid; /* 0: not so */
	uint64_t from_sp, from_return;
	uint64_t restorer; /* where signal handlers return to; 0: not known */
	struct fetched fetched;
	uint8_t stack[STEPPER_STACK_MAX];
	uint8_t xstate[XSTATE_MAX];
	size_t xstate_len; /* 0: not read for this stop */

	/* written */
	struct step_shadow shadow;
	bool shadow_off; /* more than one thread: who has written cannot be told */
	bool others;	 /* there are threads besides @looking */
	const struct step_thread *looking;
	struct step_pointees pointees;

	/* deep */
	uint32_t *parked; /* numbers of breakpoints */
	size_t nparked, parked_cap;
	uint64_t jumped_in; /* the call at the limit below which something has jumped away; 0: none */
	bool unwinds;	    /* a point is of a function that unwinds */

	/* input */
	struct map64 streams; /* hash of a stream's name -> bytes that came of it so far */
	uint8_t *input;	      /* INPUT_HASHED_MAX bytes, for one of them; NULL: none yet */

	/* telling */
	struct late_record *late, **late_end;

	/* life */
	uint32_t taken;
	enum step_command command;
	bool working;
	bool wants_leave;    /* threads are still to be let go of */
	uint64_t started_ns; /* leaving */
	uint64_t asked_ns;   /* all threads to stop for that, the last time */
	struct wc_error *error;
	bool leaving;
	struct stop_wait wait;
};

/* In a process of its own that has withdrawn (helper_process.h). Never returns. */
void step_tracer_run(struct step_box *box) __attribute__((noreturn));

/* The owner has ended. */
bool step_tracer_is_orphan(const struct step_tracer *k);

/* Takes all breakpoints out, and lets everybody go. */
void step_tracer_leave(struct step_tracer *k);

/* A nap, for want of anything better to do. */
void step_tracer_nap(void);

/* tell */
/* Reports the owner. Waits for room in the ring; no record is lost while the owner lives. */
void step_report(struct step_tracer *k, struct step_record *r);
void step_report_note(struct step_tracer *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A record of @t, whose registers are known if has_regs; the thread is reported first if it is new. */
void step_report_of(struct step_tracer *k, struct step_thread *t, struct step_record *r);
/* Puts records that waited into the ring, as far as there is room. */
void step_report_late(struct step_tracer *k);
void step_report_thread(struct step_tracer *k, struct step_thread *t);
/* @err is taken. True: it was one, and something is lost. */
bool step_report_failed(struct step_tracer *k, struct wc_error *err);
void step_report_wake(const struct step_tracer *k);

/* threads */
struct step_thread *step_threads_find(struct step_tracer *k, pid_t tid);
void step_threads_each(struct step_tracer *k, void (*fn)(struct step_tracer *k, struct step_thread *t));
struct step_thread *step_threads_add(struct step_tracer *k, pid_t pid, pid_t tid);
void step_threads_drop(struct step_tracer *k, struct step_thread *t);
/* A wait status of @tid. */
void step_threads_on_status(struct step_tracer *k, pid_t tid, int status);
/* The next stop that comes. As waitpid(). */
pid_t step_threads_take(struct step_tracer *k, int *status, int flags);
/* The same, but first those that were put aside. */
pid_t step_threads_wait(struct step_tracer *k, int *status, int flags);
/* There is no thread any more. */
void step_threads_gone(struct step_tracer *k);
/* Keeps a stop for later. */
void step_threads_put_aside(struct step_tracer *k, pid_t tid, int status);
/* Lets it go on unless something holds it. */
void step_threads_settle(struct step_tracer *k, struct step_thread *t);
/* It will stop, soon if it can run. */
void step_threads_interrupt(struct step_tracer *k, struct step_thread *t);
bool step_threads_load(struct step_thread *t); /* registers; false: it is being killed */
bool step_threads_store(struct step_thread *t);
/* A signal of this kind waits in @t. */
bool step_threads_has_trap(const struct step_thread *t);

/* trap: what a hit makes the kernel forget while the thread blocks SIGTRAP */
/* Before the first breakpoint. */
void step_trap_init(struct step_tracer *k, const struct proc_status *s);
/* @t stands at a hit: at times, whether the program has set another action since. */
void step_trap_look(struct step_tracer *k, struct step_thread *t);
/* @t stands at a hit, or has been stepped: its mask, and the program's handler, become what they were. */
void step_trap_restore(struct step_tracer *k, struct step_thread *t);
/*
 * @t is about to get a SIGTRAP that is not ours. True: a hit has just removed the handler; the signal waits, as with
 * step_trap_requeue(), until that is back.
 */
bool step_trap_waits_for_handler(struct step_tracer *k, struct step_thread *t);
/* Threads must leave together, for what hits have made the kernel forget is to be put back before that. */
bool step_trap_gathers(const struct step_tracer *k);
/* @t stands still, and no thread will meet a breakpoint: puts back a handler that a hit has removed. */
void step_trap_leave(struct step_tracer *k, struct step_thread *t);
/* Once, if the program had a handler, has none any more, and we do not know it. */
void step_trap_report_lost(struct step_tracer *k);
/* @t is about to get @sig, which is not ours: it may stop at the first instruction of its handler (t->entering). */
void step_trap_before_signal(struct step_tracer *k, struct step_thread *t, int sig);
/* There it stands. */
void step_trap_at_handler(struct step_tracer *k, struct step_thread *t);
/*
 * @t, registers known, is given a SIGTRAP that somebody sent it and that it blocked: a breakpoint, or step, of ours
 * has unblocked it, and left no trace of its own, because one waited already (legacy_queue() in kernel/signal.c).
 */
bool step_trap_is_merged(struct step_tracer *k, struct step_thread *t);
/* Makes it wait again, blocked, when @t goes on; which stops before its next instruction, requeued. */
void step_trap_requeue(struct step_thread *t);
/* There it stands. */
void step_trap_requeued(struct step_tracer *k, struct step_thread *t);

/* remote */
/* @t is stopped. Its signal of this stop, if any, is lost. To be closed also after a failure. */
struct wc_error *step_remote_open(struct step_tracer *k, struct step_thread *t, struct stopped_call *ret);
void step_remote_close(struct step_tracer *k, struct step_thread *t, struct stopped_call *c);

/* births */
struct wc_error *step_births_seize(struct step_tracer *k);
/* Traced from its birth, because its maker is. NULL: it was let go of. */
struct step_thread *step_births_meet(struct step_tracer *k, pid_t tid);
/* @t stands at a PTRACE_EVENT_CLONE, _FORK or _VFORK. */
void step_births_on_clone(struct step_tracer *k, struct step_thread *t);
/* Something has come of @child: a stop, or its end. */
void step_births_met(struct step_tracer *k, pid_t child);
/* A child has been made of which nothing has come yet: it has a copy of our breakpoints. */
bool step_births_expected(struct step_tracer *k);

/* breaks */
struct wc_error *step_breaks_add(struct step_tracer *k, uint64_t address, uint32_t use, uint32_t *ret);
/* The number of the breakpoint there; false: there never was one. */
bool step_breaks_find(const struct step_tracer *k, uint64_t address, uint32_t *ret);
/* Makes the program's code what it shall be at this moment. */
void step_breaks_sync(struct step_tracer *k);
/* Just that one; for return addresses. */
void step_breaks_set(struct step_tracer *k, uint32_t number);
void step_breaks_clear(struct step_tracer *k, uint32_t number);
/* Those in [start, end) have gone with their mapping. */
void step_breaks_forget(struct step_tracer *k, uint64_t start, uint64_t end);
void step_breaks_forget_all(struct step_tracer *k);
/* Marks those in memory that the program may write. */
void step_breaks_look_at_maps(struct step_tracer *k);
/* Takes them out of the memory of a child that was forked. */
void step_breaks_clean_child(struct step_tracer *k, pid_t child);

/* move */
/* @t stands on breakpoint t->at - 1, stopped. True: it goes on by itself, or waits; false: let it. */
bool step_move(struct step_tracer *k, struct step_thread *t);
/* @t, stopped, gets the SIGTRAP of the program's own that it is about to get, and its handler is there. */
void step_move_deliver_trap(struct step_tracer *k, struct step_thread *t);
/* All threads have been asked to stop: waits until they have, and puts their stops aside. */
/*
 * An instruction that takes longer, in ns, while its breakpoint is lifted waits for somebody, perhaps for a held thread:
 * it is left to itself. Tests set it to what a machine without a free CPU makes of it.
 */
extern uint64_t step_move_lift_ns;
void step_move_wait_for_all(struct step_tracer *k);
/*
 * Before the first breakpoint: a thread that had begun to fork when we came has a child that we do not get to
 * see, and that must not have a copy of one. Waits until those have stopped that may be in there.
 */
void step_move_let_forks_end(struct step_tracer *k);
/* The stop by which the step ended. */
void step_move_done(struct step_tracer *k, struct step_thread *t);
/* Another stop came first: rip is put right. */
void step_move_interrupted(struct step_tracer *k, struct step_thread *t);

/* copies */
/* A copy of the instruction under @b, in memory of ours in the program. False: there can be none. */
bool step_copies_get(struct step_tracer *k, struct step_thread *t, struct step_break *b);
/* Gives that memory back, by the stopped @t. */
void step_copies_unmap(struct step_tracer *k, struct step_thread *t);
bool step_copies_init(struct step_tracer *k); /* false: no memory */

/* hit */
/* @t stands on a breakpoint that is set. */
void step_hit(struct step_tracer *k, struct step_thread *t, uint32_t number);
/* Goes on with an entry whose plan is there now. */
void step_hit_planned(struct step_tracer *k, struct step_thread *t);
/* Reports the ends of calls. */
void step_hit_ended(struct step_tracer *k, struct step_thread *t, const struct track_end *ended, size_t n);
bool step_hit_is_reported(const struct step_tracer *k, const struct track_call *call);
bool step_hit_is_code(const struct step_tracer *k, uint64_t address);
/* Decides whether @t goes on by single instructions, and reports the one that comes next. */
void step_hit_instruction(struct step_tracer *k, struct step_thread *t);

/* deep */
/* @t has run into a function's breakpoint. True: below the limit of depth, so that the call is not reported. */
bool step_deep_hit(struct step_tracer *k, const struct step_thread *t, uint32_t number);
/* Puts all breakpoints back that step_deep_hit() took out. */
void step_deep_restore(struct step_tracer *k);
/* Frames are unwound, and cleaned up, where such a function is referred to. */
bool step_deep_unwinds(enum track_leaves leaves);

/* range */
void step_range_start(struct step_tracer *k);
void step_range_at_from(struct step_tracer *k, struct step_thread *t, uint32_t point);
void step_range_at_to(struct step_tracer *k, struct step_thread *t);
void step_range_from_ended(struct step_tracer *k, struct step_thread *t);
/* A limit. */
void step_range_cut(struct step_tracer *k, struct step_thread *t, enum range_what what);
void step_range_thread_ended(struct step_tracer *k, struct step_thread *t);
/* The process ends, or executes another program: all that is open ends by @how. */
void step_range_over(struct step_tracer *k, pid_t tid, enum range_what what, enum return_how how);
void step_range_check_stuck(struct step_tracer *k);
/* Whether @t is a part of the present occurrence. */
bool step_range_includes(const struct step_tracer *k, const struct step_thread *t,
			 const struct step_thread *creator); /* NULL: it is no new one */

/* input */
/* @t is to stop at its system calls. */
bool step_input_wants(const struct step_tracer *k, const struct step_thread *t);
/* It stands at the beginning or end of one. */
void step_input_at_syscall(struct step_tracer *k, struct step_thread *t);
/* It was stepped over one. */
void step_input_stepped(struct step_tracer *k, struct step_thread *t);

/* written */
/* @t stands where a call begins or ends: what has changed since the last time is its innermost call's doing. */
void step_written_look(struct step_tracer *k, struct step_thread *t);
/* Keeps what the parameters of @call, just entered with what is in k->fetched, point to. */
void step_written_keep(struct step_tracer *k, uint32_t point, uint64_t call);
/* @call has returned, or ended otherwise: what has become of that. */
void step_written_end(struct step_tracer *k, struct step_thread *t, const struct track_call *call,
		      bool returned);
/* Copies what is there now, which is nobody's doing. */
void step_written_copy(struct step_tracer *k);
/* An occurrence begins. */
void step_written_begin(struct step_tracer *k);

/* state */
struct memory_view step_state_memory(const struct step_tracer *k);
bool step_state_read(const struct step_tracer *k, uint64_t addr, void *buf, size_t len);
/* As much as can be read from @addr up; how much. */
size_t step_state_copy(const struct step_tracer *k, uint64_t addr, void *buf, size_t len);
void step_state_regs(const struct step_thread *t, struct regs *ret);
void step_state_set_regs(struct step_thread *t, const struct regs *regs);
void step_state_fetch(struct step_tracer *k, struct step_thread *t, const struct fetch_list *l,
		      uint64_t entry_sp, struct fetched *ret);
/* The mapping that holds @addr; 0: none. */
void step_state_stack(const struct step_tracer *k, uint64_t addr, uint64_t *start, uint64_t *end);

#endif
