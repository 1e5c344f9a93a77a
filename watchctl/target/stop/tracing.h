/*
 * tracing - what tracers that follow every thread of a process have in common: why tracing was refused, and
 * what a traced thread sees that an untraced one would not.
 */
#ifndef WATCHCTL_TARGET_STOP_TRACING_H
#define WATCHCTL_TARGET_STOP_TRACING_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

#include "watchctl/base/error.h"

/* Names of the processes that trace for us, as ps(1) shows them. */
#define TRACING_DREGS_TRACER "dregs-tracer" /* of the ptrace engine */
#define TRACING_STEP_TRACER "step-tracer"   /* of watchctl step */

/* PTRACE_SEIZE; again where who held the thread has just let go of it. The error number; 0: it is ours. */
int tracing_seize(pid_t pid, pid_t tid, long options);

/*
 * PTRACE_SEIZE of @tid of @pid failed with @error: who holds it, or what would permit it. @instead: what to
 * use in place of tracing, "use another engine"; NULL: there is nothing.
 */
struct wc_error *tracing_refused(pid_t pid, pid_t tid, int error, const char *instead);

/*
 * Calls @seize for each thread of @pid, again and again until none of them is new (*@ret_new stays false): a
 * thread that nobody knows was made by one that was not traced yet, and another look shows it.
 */
struct wc_error *tracing_seize_all(pid_t pid, struct wc_error *(*seize)(void *ctx, pid_t tid, bool *ret_new),
				   void *ctx);

/* The program takes no notice of the signal at all. */
bool tracing_signal_is_ignored(pid_t pid, pid_t tid, int sig);

/* The stopped thread has stopped only because it is traced: an untraced one would not have woken up. */
void tracing_undo_false_eintr(pid_t pid, pid_t tid);

/*
 * At every stop after which the thread may go on without our own end: tracee_begin_call_again(). @regs, as they are;
 * NULL: they are read.
 */
void tracing_begin_call_again(pid_t pid, pid_t tid, struct user_regs_struct *regs);

/* Says what that means for a process with a thread under seccomp, as a sentence; NULL: it has none. Constant. */
const char *tracing_begins_calls_again(pid_t pid);

#endif
