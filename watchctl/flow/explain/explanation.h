/*
 * explanation - why a process does not go on: its threads and whoever they wait for, across processes, as a graph; its cycles
 * and its ends; which of them is to blame.
 *
 * A thread that waits for any of several is stuck only if all of those are. Who is stuck for good is found as the greatest set of
 * threads each of which waits only for members of it: a proof, as far as what the waits say is complete. Cycles beside that set
 * are told as likely, not as certain.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_EXPLANATION_H
#define WATCHCTL_FLOW_EXPLAIN_EXPLANATION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/explain/look.h"
#include "watchctl/flow/explain/wait.h"

#define EXPLANATION_THREADS 4096u /* more are not looked at; @bounded says so */

/* From one thread to another that could end its wait. */
struct explained_edge {
	size_t to;	     /* index of the other one */
	size_t whom;	     /* wait.whom[] of it */
	bool any_of_process; /* the process is known, this is one of its threads */
};

struct explained {
	struct look_process *process;
	struct look_thread *thread;
	struct wait wait;
	bool idle;  /* it waits for work, as event loops and pools do: nothing is owed to anybody */
	bool stuck; /* it and all for whom it waits will never go on */
	struct explained_edge *edge; /* owned */
	size_t nedges, edge_cap;
};

/* The state of a culprit, worst first. */
enum verdict {
	VERDICT_DEADLOCK,	 /* a cycle, all of whose members are stuck */
	VERDICT_NOBODY,		 /* nobody can end its wait */
	VERDICT_STOPPED,	 /* by a signal or a debugger */
	VERDICT_LIKELY_DEADLOCK, /* a cycle that a time limit, or somebody else, might still end */
	VERDICT_KERNEL,		 /* in the kernel, uninterruptible */
	VERDICT_BUSY,		 /* it runs */
	VERDICT_SLEEPS,
	VERDICT_OUTSIDE, /* another machine, a user, a device */
	VERDICT_WAITS,	 /* for somebody who is idle, or whom nothing names */
	VERDICT_IDLE,
	VERDICT_GONE, /* it has ended: of a recording only */
};

struct culprit {
	size_t who; /* index of the thread */
	enum verdict verdict;
	unsigned int score;   /* the higher the likelier: orders only */
	unsigned int waiters; /* threads of the process that wait for it, directly or not */
	bool guessed;	      /* an edge on the way to it is a guess */
	size_t *path;	      /* owned: from a thread of the process to @who, both included */
	size_t npath;
	size_t *cycle; /* owned: of a deadlock, its members from @who on */
	size_t ncycle;
};

struct explanation {
	pid_t pid;
	struct explained *thread; /* owned; those of the process come first */
	size_t nthreads, thread_cap;
	size_t nown; /* so many are of the process itself */
	bool bounded;
	struct culprit *culprit; /* owned; best first */
	size_t nculprits, culprit_cap;
};

/* @l outlives it. */
struct wc_error *explanation_new(struct look *l, pid_t pid, struct explanation **ret);
void explanation_free(struct explanation *e); /* accepts NULL */
void explanation_freep(struct explanation **e);

/* The edge from thread @from to @to; NULL: there is none. */
const struct explained_edge *explanation_edge(const struct explanation *e, size_t from, size_t to);

#endif
