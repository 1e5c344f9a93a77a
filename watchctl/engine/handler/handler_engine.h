/*
 * handler_engine - what the files of the handler engine share: its state, and who does what.
 *
 *	engine_handler.c	opens, pumps, closes: the table of operations
 *	handler_safety.c	whether the handler may be put into the program, and may stay
 *	handler_arm.c		arms and disarms one watch
 *	handler_stop.c		after the last hit: waits until every hit has arrived
 *	handler_children.c	forked children, which have the handler too
 *	handler_hold.c		threads that wait at a hook
 *	handler_withdraw.c	takes the handler out
 *	intake.c		records -> events
 */
#ifndef WATCHCTL_ENGINE_HANDLER_HANDLER_ENGINE_H
#define WATCHCTL_ENGINE_HANDLER_HANDLER_ENGINE_H

#include "watchctl/base/spare_files.h"
#include "watchctl/base/spare_memory.h"
#include "watchctl/engine/arm/perf_bp.h"
#include "watchctl/engine/arm/ptrace_bp.h"
#include "watchctl/engine/intake/heartbeat.h"
#include "watchctl/engine/intake/intake.h"
#include "watchctl/engine/intake/past_counts.h"
#include "watchctl/engine/intake/causeless.h"
#include "watchctl/engine/intake/unheld.h"
#include "watchctl/engine/kernel/kernel_recorder.h"
#include "watchctl/engine/perf/family_watch.h"
#include "watchctl/engine/plan/engine.h"
#include "watchctl/target/inject/forked.h"
#include "watchctl/target/inject/inject.h"
#include "watchctl/target/proc/proc.h"

/* What the engine knows of watch i beside what its intake does. */
struct armed_watch {
	bool armed, disabled, finished;
	bool near_another; /* one instruction may have hit it and another one of ours */
	struct watchpoint w;
	struct perf_bp perf;
	struct ptrace_bp ptrace;
	uint64_t counted; /* by the CPU, what was ours included: once it is disabled */
	uint64_t self_tests;
	uint64_t disabled_ns;
	pid_t pid;
	const struct tracee *held;   /* a launched program's thread while it has not run */
	struct wire_shadow *shadows; /* of a per-thread watch, in shared memory; NULL: not reachable */
};

/* A thread that blocks SIGTRAP, and how many hits of all had arrived by then. */
struct blocked {
	pid_t tid; /* 0: none */
	uint64_t seen;
};

struct engine {
	pid_t pid;
	struct engine_options options;
	struct spare_files spare;	  /* to take the handler out */
	struct spare_memory spare_memory; /* ... */
	struct injection inj;
	struct wire_area area; /* the shared part of inj */
	struct intake intake;
	struct kernel_recorder *guard; /* NULL: not permitted */
	struct kernel_access *kernel;  /* with it */
	uint64_t cookie;
	uint32_t control_flags;
	struct armed_watch watch[WIRE_WATCHES];
	struct past_counts past; /* of watches whose place was taken by a later one */
	int pidfd;
	int claim;		    /* of the one watch that ptrace sets (ptrace_bp_claim()); -1: not ours */
	struct family_watch family; /* with follow_fork */
	struct forked copies;	    /* of our handler, in children */
	struct forked stale_copies; /* ... of what a watchctl that was killed had left; base 0: nothing */
	struct thread_ids children; /* processes: those of the last look */
	int registers_before;	    /* in use in a thread of the target before we armed any */
	uint32_t nwatches;	    /* places of watch[] in use */
	uint64_t checked_ns, searched_ns;
	uint64_t missing, asked_ns;	/* see handler_check_missing() */
	unsigned int grown;		/* so many looks in a row found more missing than the one before */
	struct blocked blocked;		/* at the last look */
	struct heartbeat heartbeat;	/* while a thread may wait at a hook */
	struct unheld unheld, roomless; /* who did not wait: in time; for want of room for a signal */
	bool hooks;			/* there has been one */
	uint64_t causeless;		/* as in wire_control, of what was reported */
	uint64_t done;			/* as in wire_control */
	uint64_t sandbox_ns;
	bool reported_tracer;
	bool left_behind;      /* a place was given away with hits under way that nobody waits for any more */
	bool stopped, settled; /* disarmed; and no SIGTRAP of ours can come any more */
	uint64_t stack_start;  /* of the program that it was placed in; 0: not to be had */
	bool unmapped;	       /* the program has unmapped the handler */
	bool childless;	       /* the target has ended, and so has every child that was followed */
	bool gone, execed;
	int end_signal;	    /* that ended the target; 0: none, or not known */
	bool caught_sigsys; /* by the program, when the handler came */
	bool replaced;	    /* the program has put a SIGTRAP handler of its own in place of ours */
	char why[256];
};

/* Of watch @i alone; nothing is lost as long as hits may be under way. */
void handler_counts_of(const struct engine *e, unsigned int i, struct engine_counts *ret);

/* Into the shared area, and the guard's, which is alike. */
void handler_write(const struct engine *e, uint64_t offset, const void *buf, size_t len);

/* All that is recorded now, by the handler and by the guard; limited in time. */
struct wc_error *handler_take(struct engine *e, bool *any);

/* Of watch @i: filtered out or lost where the hits happened. */
void handler_dropped(const struct engine *e, unsigned int i, uint64_t *filtered, uint64_t *lost);

/* Of watch @i: hits that the CPU has counted, without those that we made. */
uint64_t handler_counted(const struct engine *e, unsigned int i);

/* Where watch @i is in the shared area. */
uint64_t handler_watch_offset(unsigned int i);

void handler_say(const struct engine *e, const char *text);

/* Hits are missing: whether a thread blocks their signals, which is reported; or takes them, which ends the
 * watch. */
struct wc_error *handler_look_for_blockers(struct engine *e);

/* WC_ENOTSUP: the handler could end process @pid, or break its shadow stack; WC_ETARGET: it has ended. */
struct wc_error *handler_refuse_unsafe(pid_t pid);

/* WC_ENOTSUP: the launched program will replace the handler, and nothing keeps our signals from it then. */
struct wc_error *handler_refuse_taker(const struct engine *e);

/* Things that turn the watch into a danger for the target: then it is given up at once (e->why). */
void handler_check_safety(struct engine *e);

/* Where counted hits do not arrive: whether the program has replaced the handler (e->why), or a thread
 * blocks their signals. */
struct wc_error *handler_check_missing(struct engine *e, uint64_t now, bool idle);

struct wc_error *handler_arm(struct engine *e, const struct watchpoint *w, struct arm_report *ret);
void handler_disarm(struct engine *e, uint32_t id);
struct wc_error *handler_extend(struct engine *e, uint32_t id, uint32_t *ret);

/* No more hits of watch @a, and its count is final. */
void handler_disable(struct armed_watch *a);

/*
 * Flags of watch @i for the handler: those that it has by itself, and @more. The handler looks for further
 * watches that an instruction hit, since there is one signal for all; what is not armed in every thread
 * (WIRE_WATCH_PARTIAL) must be none of them.
 */
void handler_set_flags(const struct engine *e, unsigned int i, uint32_t more);

bool handler_has_ptrace_watch(const struct engine *e);

/* The ring to its end, whatever the sink says to it; only once no more hits can come. */
struct wc_error *handler_drain_all(struct engine *e);

/*
 * Hits that the CPU counted and that have reached neither the ring nor a counter of ours. Such a hit is a
 * SIGTRAP still to come: queued, blocked, or, for an access by the kernel, not even queued before its
 * thread returns from the system call. (Or it never comes: the kernel merges what meets a pending one.)
 */
uint64_t handler_outstanding(const struct engine *e);

/* Of what is in place @i; where nobody counts, 0. */
uint64_t handler_outstanding_at(const struct engine *e, unsigned int i);

/* Of one watch, which is disarmed. */
uint64_t handler_outstanding_of(const struct engine *e, uint32_t id);

/* Stops each thread for a moment: what was queued for it, or waits for the end of a system call, comes. */
void handler_flush(struct engine *e);

/* Every watch disarmed; every hit has then arrived, or is known never to arrive, unless !e->settled. */
struct wc_error *handler_stop(struct engine *e);

/* @pid has our handler in it, or has gone. @ctx: the engine. */
bool handler_is_child(void *ctx, pid_t pid);

/* Who has our handler, and this id in a pid namespace below the target's; 0: nobody. @ctx: the engine. */
pid_t handler_find_below(void *ctx, pid_t inner);

/* Looks which other processes have our handler from the target. */
void handler_find_children(struct engine *e);

/* Nobody but the target has it, for certain. Else e->children are those that were seen. */
bool handler_no_child_lives(struct engine *e);
struct injection handler_of_child(const struct engine *e, pid_t pid);

/* Once ours is in place: from now on children have it. */
void handler_note_placed(struct engine *e);

/* Takes it out of them; @kept: the target has it still. An error says in which it is left, and why. */
struct wc_error *handler_leave_children(struct engine *e, bool kept);

/* A sign of life for threads that wait, and for other controllers. */
void handler_beat(struct engine *e);

/* Reports how many threads did not wait at a hook until we had done what they waited for. */
struct wc_error *handler_report_unheld(struct engine *e);
struct wc_error *handler_report_roomless(struct engine *e, bool last);

/* Reports hits that the processor gave no cause for: the first, and at the end (@last) how many there were. */
struct wc_error *handler_report_causeless(struct engine *e, bool last);

/* How far those come who have waited in vain: before records are taken in. */
void handler_ask_behind(struct engine *e);

/* Afterwards: that we are done with what was taken in. */
void handler_report_done(struct engine *e);

/* Lets the thread go on that waits at a hook. */
void handler_let_go(struct engine *e);

/* The launched program has begun: see engine_ops. */
void handler_begun(struct engine *e);

bool handler_target_ended(const struct engine *e);

/* It executes, or is about to execute, another program. */
bool handler_target_execed(const struct engine *e);

/* The handler is taken out, or the error says where it is left, and why. */
struct wc_error *handler_withdraw(struct engine *e);

/* And no child is followed that lives on. */
bool handler_all_ended(struct engine *e);

enum memory_state {
	MEMORY_OURS,
	MEMORY_BARRED, /* the process has ceased to let us look (PR_SET_DUMPABLE) */
	MEMORY_GONE,   /* after exec, ours with it */
};

/* Of the memory that the handler was put into. */
enum memory_state handler_memory_state(const struct engine *e);

#endif
