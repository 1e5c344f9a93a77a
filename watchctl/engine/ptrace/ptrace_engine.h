/*
 * ptrace_engine - what the owner's files of the ptrace engine share (see ptrace_box.h for the other
 * processes):
 *
 *	engine_ptrace.c		the table of operations: opens, arms, pumps, closes
 *	ptrace_helpers.c	starts the helper processes, asks them, notices when one is killed
 */
#ifndef WATCHCTL_ENGINE_PTRACE_PTRACE_ENGINE_H
#define WATCHCTL_ENGINE_PTRACE_PTRACE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/engine/intake/heartbeat.h"
#include "watchctl/engine/intake/intake.h"
#include "watchctl/engine/intake/past_counts.h"
#include "watchctl/engine/intake/causeless.h"
#include "watchctl/engine/intake/unheld.h"
#include "watchctl/engine/plan/area.h"
#include "watchctl/engine/plan/engine.h"
#include "watchctl/engine/ptrace/ptrace_box.h"

struct ptraced_watch {
	bool armed, disarmed, finished;
	struct watchpoint w;
	uint64_t disarmed_ns;
};

struct engine {
	pid_t pid;
	struct engine_options options;
	struct event_sink sink;
	struct wire_memory memory;
	struct wire_area area;
	struct wire_control *ctl;
	struct ptrace_box *box;
	struct intake intake;
	struct ptraced_watch watch[WIRE_WATCHES];
	struct heartbeat heartbeat; /* until a launched program has begun */
	struct unheld unheld;
	uint64_t causeless;	 /* as in wire_control, of what was reported */
	struct past_counts past; /* of watches whose place was taken by a later one */
	pid_t guard;		 /* our child; 0: waited for */
	int tracer_fd;
	bool held;	    /* launched, and not let go of yet */
	bool execed;	    /* PUMP_EXECED was reported, and the target waits */
	bool other_program; /* ... and of what it executes nothing is known yet */
	bool reported_ignored;
	bool lost;    /* the tracer was killed */
	bool stopped; /* no hits can come any more, and those that were there have been taken */
	uint64_t checked_ns;
	char why[256];
};

/* Starts tracer and guard. @memory_fd: of e->ctl. */
struct wc_error *ptrace_helpers_start(struct engine *e, int memory_fd);

/* The stopped thread of a launched program changes its tracer without running. NULL: there is none. */
void ptrace_helpers_hand_over(struct engine *e, struct tracee *held);

/* Asks the tracer, and waits until it is done. The error is its answer, or that it was killed. */
struct wc_error *ptrace_helpers_ask(struct engine *e, enum box_command command, uint32_t argument);

/* Reports the tracer what it wants to know before it can arm a thread. */
void ptrace_helpers_answer(struct engine *e);

/* Looks whether they live; sets e->why if one was killed. True: it was the tracer, and nobody can be asked.
 */
bool ptrace_helpers_lost(struct engine *e);

/* The guard has ended. */
bool ptrace_helpers_ended(struct engine *e);

#endif
