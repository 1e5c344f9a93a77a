/*
 * step_box - the memory that the processes of the ptrace stepper share. The program has no part in it.
 *
 *	owner	asks for a recording, reads the ring (stepper_ptrace.c)
 *	tracer	traces the program: sets breakpoints, shows what it meets there (step_tracer.c)
 *	guard	watches over both (step_guard.c)
 *
 * One memory file:
 *
 *	struct step_box			commands, one at a time, with what belongs to them
 *	struct box_break[]		every byte of the program that may be a breakpoint: for the guard
 *	ring				of struct wire_step, written by the tracer, read by the owner
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_BOX_H
#define WATCHCTL_STEP_MODEL_STEP_BOX_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/step/model/stepper.h"
#include "watchctl/target/inject/trap_known.h"
#include "watchctl/target/stop/helper_guard.h"
#include "watchctl/target/stop/tracing.h"

#define STEP_BOX_FILE "watchctl-step"
#define STEP_TRACER_NAME TRACING_STEP_TRACER
#define STEP_GUARD_NAME "step-guard"
#define STEP_BOX_TEXT 480u
#define STEP_BOX_BATCH 2048u
#define STEP_BREAKS_MAX (1u << 20) /* the memory file has holes where none are */
#define STEP_RING_SIZE (16u << 20) /* a power of two */

/* The signal that makes the tracer look into the box. */
#define STEP_BOX_SIGNAL SIGUSR1

enum step_command {
	STEP_ASK_SEIZE,	 /* the program, all its threads */
	STEP_ASK_POINTS, /* point[0..count) */
	STEP_ASK_CODE,	 /* code[0..count); `more` says that the list goes on */
	STEP_ASK_DATA,	 /* the same, of objects whose changes are reported */
	STEP_ASK_REMOVE, /* points in [start, end) */
	STEP_ASK_START,
	STEP_ASK_PLAN,	/* of point number @start */
	STEP_ASK_GO,	/* the thread that waits because libraries have changed */
	STEP_ASK_STOP,	/* the recording */
	STEP_ASK_LEAVE, /* the program */
};

/* A byte of the program that is, or was, or will be a breakpoint. Never removed, so that a late hit is known.
 */
struct box_break {
	uint64_t address;
	uint8_t original; /* what belongs there, if known */
	uint8_t planted;
	uint8_t known;
	uint8_t pad[5];
};

struct step_box {
	int32_t target_pid;
	struct helper_box helper;
	uint32_t held;		/* launched, and nothing of it has run */
	struct trap_known trap; /* before the first breakpoint */

	/* What the owner wants. */
	struct range_options range;
	uint32_t threads; /* enum stepper_threads */
	uint32_t depth, stack_bytes, instructions;
	uint32_t inputs; /* enum recording_inputs */
	uint32_t input_bytes;
	uint64_t events, stuck_ns;
	uint64_t loader_hook,
		loader_state; /* where the loader announces libraries, and its r_state; 0: none */
	uint64_t code_near;   /* an address of the program's code */
	int64_t errno_offset; /* from a thread's pointer to its errno; 0: not known (yet) */

	uint32_t asked __attribute__((aligned(64))); /* counts commands; what belongs to one is set before */
	uint32_t command, count, more;
	uint64_t start, end;
	uint32_t taken;	   /* the last command that the tracer knows of: it need not be poked any more */
	uint32_t answered; /* a futex: the last command that was carried out */
	uint32_t error;	   /* enum wc_kind; 0: none */
	char text[STEP_BOX_TEXT];
	union {
		struct step_point point[STEP_BOX_BATCH];
		struct stepper_code code[STEP_BOX_BATCH];
		struct step_plan plan;
	} with;

	struct stepper_counts counts;
	uint32_t nbreaks;

	uint64_t head __attribute__((aligned(64))); /* of the ring: bytes ever written, and ever read */
	uint64_t tail __attribute__((aligned(64)));
	uint32_t wake; /* a futex: 0 while the owner sleeps */
};

#define STEP_BREAKS_OFFSET ((sizeof(struct step_box) + 4095u) & ~(size_t)4095u)
#define STEP_RING_OFFSET (STEP_BREAKS_OFFSET + (size_t)STEP_BREAKS_MAX * sizeof(struct box_break))
#define STEP_BOX_SIZE (STEP_RING_OFFSET + STEP_RING_SIZE)

static inline struct box_break *step_box_breaks(struct step_box *box)
{
	return (struct box_break *)((char *)box + STEP_BREAKS_OFFSET);
}

static inline char *step_box_ring(struct step_box *box)
{
	return (char *)box + STEP_RING_OFFSET;
}

#define WIRE_STEP_CALL 1u
#define WIRE_STEP_FETCHED 2u
#define WIRE_STEP_PADDING 4u /* nothing but size is set */

/*
 * A record in the ring; all lie one after the other, none goes over its end. Behind it, in this order, each
 * aligned to 8 bytes: the call; what was fetched, as state[n], len[n], at[n] and bytes; the raw stack; the
 * sentence.
 */
struct wire_step {
	uint32_t size; /* all of it, a multiple of 8 */
	uint32_t flags;
	uint32_t nfetched, nbytes, nstack, nwhy; /* nwhy: with its NUL byte; 0: none */
	struct step_record record;		 /* its pointers mean nothing */
};

#endif
