/*
 * ptrace_box - the memory that the processes of the ptrace engine share. The target has no part in it.
 *
 *	watchctl	owns the watch: sends requests to the tracer, reads the ring, resolves addresses
 *	tracer		traces the target: arms its threads, records their hits (ptrace_tracer.c)
 *	guard		restores the target if one of them dies (ptrace_guard.c)
 *
 * It is laid out as handler/wire.h says, so that the same intake reads it; the box itself lies where an
 * injected handler would have its boot area. A memory file, so that `watchctl list` finds it by its name
 * among the files of the tracer.
 */
#ifndef WATCHCTL_ENGINE_PTRACE_PTRACE_BOX_H
#define WATCHCTL_ENGINE_PTRACE_PTRACE_BOX_H

#include <stdbool.h>
#include <stdint.h>

#include "handler/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/target/inject/trap_known.h"
#include "watchctl/target/stop/helper_guard.h"
#include "watchctl/target/stop/tracing.h"

#define PTRACE_BOX_OFFSET WIRE_CONTROL_SIZE
#define PTRACE_BOX_FILE "watchctl-tracer"
#define TRACER_NAME TRACING_DREGS_TRACER /* of the processes, as ps(1) shows them */
#define GUARD_NAME "dregs-guard"
#define PTRACE_BOX_MAGIC 0x72657065656b6377ull /* "wckeeper", from when it was called so */
#define PTRACE_BOX_VERSION 4u
#define BOX_PROCESSES 64u /* the target and its followed children */
#define BOX_THREADS 2048u
#define BOX_QUERIES 16u
#define BOX_FOREIGN 32u
#define BOX_TEXT 480u

enum box_command {
	BOX_SEIZE,  /* the target, all its threads */
	BOX_ARM,    /* watch[argument] */
	BOX_DISARM, /* watches whose bit is set in argument */
	BOX_EXTEND, /* watch[argument] in threads that had no copy of it */
	BOX_GO,	    /* thread argument, which waits at a hook; 0: whoever waits for another reason */
	BOX_STOP,   /* disarm everything, let everybody go */
	BOX_LEAVE,  /* and detach */
};

enum box_state {
	BOX_TRACING,
	BOX_EXITED, /* the target; every record of it is in the ring */
	BOX_EXECED, /* it stands before the first instruction of another program, or runs it, untraced */
};

/* How a watch is armed; how its hits are recorded is in wire_control.watch of the same index. */
struct box_watch {
	uint64_t addr; /* 0: of its own in each thread */
	uint32_t size;
	uint32_t access;  /* enum access_kind */
	int32_t slot;	  /* -1: any */
	uint32_t program; /* of how many the target has executed while we trace it */
	uint64_t counted; /* hits, by what DR6 said */
};

enum query_state { QUERY_FREE, QUERY_ASKED, QUERY_ANSWERED };

#define QUERY_STATE(word) ((word)&3u)
#define QUERY_NEXT 4u /* added at each question: so that an answer that comes too late is known as such */

/* Where does the thread with that thread pointer have its copy? */
struct box_query {
	uint32_t state; /* enum query_state, and above it the number of the question */
	uint32_t watch;
	int32_t tid;
	uint32_t found;
	uint64_t thread_pointer, addr;
};

/* A register that was armed before we came: not ours to clear. */
struct box_foreign {
	int32_t tid;
	uint32_t slot;
};

struct box_thread {
	int32_t tid;		 /* 0: none */
	uint32_t lacks;		 /* bit: watches that it has no copy of yet */
	uint64_t thread_pointer; /* 0: not known */
};

struct box_process {
	int32_t pid;	  /* 0: none */
	uint32_t stopped; /* by job control */
};

struct ptrace_box {
	uint64_t magic;
	uint32_t version;
	int32_t target_pid;
	uint64_t target_start; /* as proc_start_time() says */
	struct helper_box helper;
	uint32_t follow_fork, follow_exec, held;
	uint32_t starts_anew; /* launched by us: what it executes may wait for us as long as what was launched
			       */
	struct trap_known trap; /* before the first hit */
	uint32_t silent;	/* debug registers do not work on this machine */
	uint32_t frozen; /* the guard has stopped the target's threads, because the tracer was killed */
	uint32_t state;	 /* enum box_state */
	uint32_t
		unreported; /* nothing reports to the owner what is mapped: it must look while a thread still has it */
	uint32_t execs;	     /* how many programs the target has executed */
	uint32_t departures; /* how many children have executed one */
	uint32_t looks;	     /* of the owner at the ring */
	uint32_t late;	     /* records that wait for room in the ring */
	int32_t restarting;  /* a thread that comes no further because its stops start its code again; 0: none
			      */

	uint32_t asked
		__attribute__((aligned(64))); /* counts commands; command and argument are set before */
	uint32_t command;
	uint32_t argument;
	uint32_t taken;	   /* the last command that the tracer knows of: it need not be poked any more */
	uint32_t answered; /* a futex: the last command that was carried out */
	uint32_t error;	   /* enum wc_kind; 0: none */
	uint32_t threads, threads_armed;
	char text[BOX_TEXT]; /* of the error */

	uint32_t noted, notes_read; /* note[] is the tracer's while they are equal, then the owner's */
	char note[BOX_TEXT];

	struct box_query query[BOX_QUERIES];
	struct box_watch watch[WIRE_WATCHES];
	struct box_process process[BOX_PROCESSES];
	uint32_t nthreads; /* thread[] up to here has been in use; more than BOX_THREADS: it does not hold all
			    */
	struct box_thread thread[BOX_THREADS];
	uint32_t nforeign;
	struct box_foreign foreign[BOX_FOREIGN];
};

_Static_assert(sizeof(struct ptrace_box) <= WIRE_BOOT_SIZE, "fits its place");

static inline struct ptrace_box *ptrace_box_of(struct wire_control *ctl)
{
	return (struct ptrace_box *)((char *)ctl + PTRACE_BOX_OFFSET);
}

static inline struct wire_control *ptrace_box_control(struct ptrace_box *box)
{
	return (struct wire_control *)((char *)box - PTRACE_BOX_OFFSET);
}

/* The signal that makes the tracer look into the box. */
#define PTRACE_BOX_SIGNAL SIGUSR1

#endif
