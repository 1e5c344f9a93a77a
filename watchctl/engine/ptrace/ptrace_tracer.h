/*
 * ptrace_tracer - the process that traces the target for the ptrace engine, and nothing else. What its files
 * share:
 *
 *	ptrace_tracer.c		its life: the loop, commands from the owner
 *	ptrace_threads.c	which threads are traced; stops of every kind, and how a thread continues
 *	ptrace_arm.c		the debug registers of one stopped thread
 *	ptrace_hit.c		a hit: registers, values, filter, record
 *	ptrace_trap.c		the program's own SIGTRAP: what a hit makes the kernel forget of it
 *	ptrace_stack.c		the target's memory, in gulps, for one stop
 *
 * It is a process of its own because a tracer's death is dangerous: the kernel lets go of the threads, their
 * debug registers stay armed, and the next hit is a SIGTRAP that kills the target. The tracer has nothing
 * that could make it die: no terminal, no output, no user. See ptrace_guard.c for what happens if it does.
 */
#ifndef WATCHCTL_ENGINE_PTRACE_PTRACE_TRACER_H
#define WATCHCTL_ENGINE_PTRACE_PTRACE_TRACER_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "watchctl/base/error.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/engine/ptrace/ptrace_box.h"
#include "watchctl/target/inject/stopped_call.h"
#include "watchctl/target/stop/stop_wait.h"

#define TRACER_BUCKETS 256u
#define STACK_CHUNKS 5u
#define STACK_CHUNK 4096u

/* Why a stopped thread does not go on. */
enum traced_hold {
	HOLD_START = 1, /* launched, and nothing of it has run */
	HOLD_HOOK = 2,
	HOLD_RING = 4,	/* its record waits for room in the ring */
	HOLD_QUERY = 8, /* the owner is asked for the address of its copy */
	HOLD_EXEC = 16, /* before the first instruction of another program */
	HOLD_LOOK = 32, /* hit in code that is not known: once it has gone, nobody can look what that was */
			/* Of these, all but the first are limited in time: see tracer_hold(). */
};

/* The last values seen. A forked child has memory of its own; one made by vfork shares its parent's. */
struct traced_memory {
	unsigned int users;
	uint32_t known; /* bit of the watch */
	uint64_t shadow[WIRE_WATCHES];
};

struct traced_process {
	struct traced_process *next;
	pid_t pid, inner; /* as we number it, and as the target does */
	uint32_t program; /* see box_watch */
	size_t nthreads;
	bool may_leave; /* that it ignores SIGTRAP is put back, or cannot be */
	struct traced_memory *memory;
	struct box_process *reported; /* to the guard */
};

struct traced {
	struct traced *next;
	struct traced_process *process;
	pid_t tid, inner;
	bool stopped;	  /* and we know it: ptrace requests are answered */
	bool group;	  /* stopped by job control as well: it must not run */
	bool interrupted; /* it will stop because we asked for it, if nothing else stops it before */
	bool disturbed;	  /* ... or may, after that: the kernel's end of a system call is then our doing */
	bool dead;	  /* a leader that has ended before its threads: never stops again */
	bool met;	  /* its registers have been looked at */
	int signal;	  /* to be delivered when it goes on */
	bool put_aside; /* it has stopped, or ended, with the status aside, which is still to be looked at */
	int aside;
	unsigned int holds;
	uint64_t held_ns;	/* since when, for the owner's sake; 0: it has run since */
	uint32_t generation;	/* of the wishes that its registers fulfil */
	uint32_t without;	/* watches that it has no copy of, or that could not be armed in it */
	uint8_t carries[DREGS]; /* watch + 1; 0: not ours */
	uint8_t foreign;	/* bit: armed before we came */
	uint8_t stale;		/* bit: carries what was disarmed, and whose place another watch has now */
	uint64_t at[DREGS];	/* addresses in its registers */
	uint64_t dr7;
	uint32_t has_shadow; /* bit of the register: its own last value, of watches with an address in each
				thread */
	uint64_t shadow[DREGS];
	uint64_t look_end; /* with HOLD_LOOK: until the ring was read up to there */
	uint64_t hit_pc;   /* where it was last, and how often in a row */
	uint32_t in_a_row;
	uint64_t sigmask;	/* that blocks SIGTRAP, as last seen; 0: it does not */
	uint64_t sigmask_ns;	/* when that was looked at last, while it ran */
	uint32_t given_back;	/* of the tracer's, when it went on last */
	bool requeued;		/* a SIGTRAP of its own waits, blocked, until its handler is there again: */
	uint64_t borrowed_mask; /* and its mask was that */
	uint32_t asking;	/* watch + 1 of a query */
	int query;		/* its place; -1: none free yet */
	int name_fd;		/* of /proc/.../comm; -1: not opened yet */
	struct box_thread *reported; /* to guard and owner; NULL: there was no room */
};

/* A record that had no room. */
struct late_record {
	struct late_record *next;
	pid_t tid;
	uint32_t size;
	uint64_t bytes[];
};

/* Memory of one stopped thread. */
struct gulps {
	pid_t tid; /* of which it is the stack */
	unsigned int n, oldest;
	uint64_t addr[STACK_CHUNKS];
	size_t len[STACK_CHUNKS];
	uint8_t bytes[STACK_CHUNKS][STACK_CHUNK];
};

struct tracer {
	struct wire_control *ctl;
	struct ptrace_box *box;
	pid_t pid;	    /* of the target */
	unsigned int depth; /* of its pid namespace, below ours: ids in records are as it numbers them */
	int owner_fd;
	struct traced *bucket[TRACER_BUCKETS];
	struct traced *last; /* the one that stopped last */
	size_t nthreads;
	bool begun;		/* there was a thread */
	uint32_t reported_free; /* where to look for a free place in box->thread */
	struct traced_process *processes;
	uint32_t want;	     /* bit: watches that shall be armed */
	uint32_t generation; /* counts the changes of that */
	uint32_t taken;	     /* the command in work, or carried out: */
	enum box_command command;
	uint32_t argument;
	bool working; /* it is in work */
	bool undone;  /* it failed, and is being taken back */
	bool looked_for_dead;
	uint64_t started_ns, looked_ns;
	uint32_t armed_before;
	struct wc_error *error;
	bool leaving;
	uint64_t leaving_ns;
	unsigned int queries;
	uint32_t looked;     /* box->looks when the owner was waited for in vain last, + 1; 0: it never was */
	bool holding;	     /* a thread may be held for the owner's sake */
	uint64_t expired_ns; /* when those were looked at */
	bool ticks;	     /* a timer ends waits for stops */
	struct late_record *late, **late_end;
	bool looks; /* a thread may have HOLD_LOOK */
	struct gulps gulps;
	bool ignores_trap, catches_trap; /* the target, before the first hit */
	struct trap_known trap;
	unsigned int asides; /* threads with one */
	struct stopped_gadgets gadgets;
	bool reported_handler;
	struct stop_wait wait;
};

/* In a process of its own that has withdrawn (helper_process.h). Never returns. */
void tracer_run(struct wire_control *ctl) __attribute__((noreturn));

/* Reports the owner that there is something to look at. */
void tracer_wake(const struct tracer *k);

/* Something that the owner should report to its user. Dropped while an earlier one has not been read. */
void tracer_note(struct tracer *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * @t waits for the owner, for a limited time, in all: false, it must not, because the owner lags behind.
 * When one has waited in vain nobody waits until the owner has come to where the ring ends now.
 */
bool tracer_hold(struct tracer *k, struct traced *t, enum traced_hold why);

/* The owner has been waited for in vain, and is not there yet. */
bool tracer_is_ahead(const struct tracer *k);

/* threads */
struct traced *threads_find(struct tracer *k, pid_t tid);

/* Seizes every thread of the target. */
struct wc_error *threads_seize(struct tracer *k);

/* A wait status of @tid. */
void threads_on_status(struct tracer *k, pid_t tid, int status);

/* The kernel says that we trace nobody any more: the target has ended, and with it whoever was followed. */
void threads_all_ended(struct tracer *k);

/* Calls @fn for each thread; it may remove that one. */
void threads_each(struct tracer *k, void (*fn)(struct tracer *k, struct traced *t));

/* Brings a stopped thread's registers up to date, and lets it go on unless something holds it. */
void threads_settle(struct tracer *k, struct traced *t);

/* The registers of every thread, or of those of @p, are what they shall be by now. */
bool threads_are_updated(const struct tracer *k, const struct traced_process *p);

/* It will stop, soon if it can run. */
void threads_interrupt(struct tracer *k, struct traced *t);

/*
 * The other threads of its process stand still, within some milliseconds, unless they are in the kernel for longer.
 * What they have stopped with is put aside; so is what @t, which runs, stops with next, within as long.
 */
void threads_stop_others(struct tracer *k, const struct traced *t);
void threads_wait_for(struct tracer *k, struct traced *t);

/* What was put aside, of one thread. False: nothing was. */
bool threads_next_aside(struct tracer *k, pid_t *ret_tid, int *ret_status);

/* It runs, and gets its signal. */
void threads_go_on(const struct tracer *k, struct traced *t);

/* arm */
/* Whether watch @i shall be in @t's registers; and whether all those are there that shall be, and no others.
 */
bool arm_wanted(const struct tracer *k, const struct traced *t, unsigned int i);
bool arm_is_done(const struct tracer *k, const struct traced *t);
bool arm_carries(const struct traced *t, unsigned int i);

/* Makes the registers of the stopped @t what they shall be, or asks the owner first (then HOLD_QUERY is set).
 */
void arm_thread(struct tracer *k, struct traced *t);

/* The thread runs another program, or begins: its registers are empty. */
void arm_forget(struct traced *t);

/* Its answer is not waited for any more. */
void arm_drop_query(struct tracer *k, struct traced *t);

/* ... and the owner is to ask again, later. */
void arm_give_up_query(struct tracer *k, struct traced *t);

/* Looks for answers of the owner. */
void arm_take_answers(struct tracer *k);

/* hit */
/* The SIGTRAP that @t has stopped for: records it if it is a hit. True: the program must not get it. */
bool hit_take(struct tracer *k, struct traced *t);

/* A hit of ours whose SIGTRAP is queued in @t, which stands before it. */
bool hit_is_pending(const struct traced *t);

/* Puts records that waited into the ring, as far as there is room. */
void hit_flush_late(struct tracer *k);

/* Lets those go on whose code the owner has looked at by now, or had time enough to. */
void hit_let_looked(struct tracer *k);

/* trap */
/* What the target does with SIGTRAP, before the first hit. */
void trap_begin(struct tracer *k);

/* @t is stopped for the first time: whether it blocks the signal. */
void trap_meet(struct tracer *k, struct traced *t);

/* The hit of @t was taken: its mask, and the target's handler, are what they were. */
void trap_keep(struct tracer *k, struct traced *t);

/*
 * @t, which blocks SIGTRAP, stands at one of its own (@info) that it is not to get yet: a hit has unblocked it, and was
 * merged into it. trap_requeue(): it waits again, blocked.
 */
bool trap_is_merged(const struct tracer *k, struct traced *t, const siginfo_t *info);
void trap_requeue(struct traced *t);

/*
 * @t is to get @sig, a SIGTRAP of the program's own, and other threads' hits may remove its handler before the kernel
 * has looked. True: it is on its way, or waits as above; then it stops for trap_requeued().
 */
bool trap_deliver(struct tracer *k, struct traced *t, int sig);
void trap_requeued(struct tracer *k, struct traced *t);

/* ... or stops by job control before: then it is about to get it once more. */
void trap_requeue_ends(struct traced *t);

/* Reports the user, once, if the target had a SIGTRAP handler and has none any more. @tid: a thread of it. */
void trap_look_for_handler(struct tracer *k, pid_t tid);

/* A SIGTRAP of the program's own, which it ignored until a hit made the kernel forget that. */
bool trap_was_ignored(const struct tracer *k, const struct traced *t);

/* gulps */
void gulps_begin(struct gulps *g, pid_t tid);

/* Reads the stack from @sp up, and in the same system call the @size (0..8) bytes at @addr; false: not those.
 */
bool gulps_first(struct gulps *g, uint64_t sp, uint64_t addr, uint32_t size, uint64_t *ret);

/* 8 bytes. An unwind_read_fn. */
bool gulps_read(void *ctx, uint64_t addr, uint64_t *ret);

#endif
