/*
 * stop - turns the raw wait status of a thread that was seized (PTRACE_SEIZE) into one named stop. What is
 * to be done about it is someone else's job.
 */
#ifndef WATCHCTL_TARGET_STOP_STOP_H
#define WATCHCTL_TARGET_STOP_STOP_H

#include <sys/types.h>

enum stop_kind {
	STOP_ENDED,  /* the thread is gone; there is nothing to be continued */
	STOP_SIGNAL, /* a signal is about to be delivered: goes on with that signal, or without */
	STOP_GROUP,  /* job control has stopped the process: goes on listening, not running */
	STOP_TRAP,   /* asked for (PTRACE_INTERRUPT), a new thread's first, or job control's stop is over */
	STOP_CLONED, /* PTRACE_EVENT_CLONE, _FORK, _VFORK: PTRACE_GETEVENTMSG shows who was made */
	STOP_EXECED,
	STOP_EXITING, /* PTRACE_EVENT_EXIT */
	STOP_OTHER,   /* nothing to be done */
};

struct stop {
	enum stop_kind kind;
	int signal; /* STOP_SIGNAL: which; STOP_GROUP: the one that stopped it; else 0 */
};

struct stop stop_decode(int status);

#endif
