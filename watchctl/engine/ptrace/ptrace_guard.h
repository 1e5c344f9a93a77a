/*
 * ptrace_guard - a third process, which guards the other two (see ptrace_box.h): it informs the tracer
 * when the owner has died, and restores the target when the tracer dies.
 *
 * When a tracer dies, the kernel releases its threads; their debug registers stay armed, and a hit is then
 * an ordinary SIGTRAP, which kills. Therefore the guard traces the tracer, with PTRACE_O_TRACEEXIT: after a
 * SIGKILL or a crash, the tracer stops at the beginning of its exit, before the kernel detaches anything. The
 * guard stops each thread of the target with SIGSTOP, releases the tracer, clears the registers of the stopped
 * target, and continues it. A SIGSTOP for the tracer itself never reaches it.
 *
 * What remains: a thread that hits between the tracer's SIGKILL and our SIGSTOP, some 0.1 ms, or whose hit
 * the tracer had not taken in yet. It waits in the kernel to report its SIGTRAP, and nobody can take that
 * from it: it dies with the tracer's tracing. A program that hits rarely is hardly ever there; one that hits
 * all the time mostly is. A program with a SIGTRAP handler of its own lives on.
 *
 * Killed together:
 *	owner + guard		the tracer sees it within 20 ms (PR_SET_PDEATHSIG), and leaves in order
 *	owner + tracer		the guard does as above
 *	tracer + guard		the owner clears the registers; no SIGSTOP comes first, and a hit meanwhile (some 100 us
 *				and more) kills the program
 *	all three at once	the registers stay armed until their threads end, and the next hit kills: `watchctl list`
 *				shows them
 */
#ifndef WATCHCTL_ENGINE_PTRACE_PTRACE_GUARD_H
#define WATCHCTL_ENGINE_PTRACE_PTRACE_GUARD_H

#include "watchctl/engine/ptrace/ptrace_box.h"

/* Starts the tracer and looks after it; never returns. @owner_fd: a pidfd. @memory_fd: of @ctl. */
void guard_run(struct wire_control *ctl, int owner_fd, int memory_fd) __attribute__((noreturn));

/* Clears every register that the tracer, which is gone, may have left armed. */
void guard_rescue(const struct ptrace_box *box);

#endif
