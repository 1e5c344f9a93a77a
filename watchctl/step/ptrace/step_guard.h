/*
 * step_guard - a third process, which guards the tracer (see helper_guard.h): it informs the tracer when the
 * owner has died, and removes the breakpoints when the tracer is killed.
 *
 * It does so before the kernel lets go of the tracer's threads: whoever has not run into a breakpoint by then
 * never will. A thread at whose stop the tracer was looking goes on from where it stands, which is before the
 * instruction of the breakpoint. What remains: a thread that had run into one, and whose stop the tracer had
 * not been reported yet, or just now. It waits in the kernel to report its SIGTRAP, and nobody can take that
 * from it: it dies of it, unless the program has a SIGTRAP handler. So does one that is single-stepped in
 * that moment. A program that calls rarely is hardly ever there; one that runs from breakpoint to breakpoint
 * often.
 *
 * Killed together:
 *	owner + guard	the tracer sees it within 20 ms (PR_SET_PDEATHSIG), and leaves in order
 *	owner + tracer	the guard does as above
 *	tracer + guard	the owner takes the breakpoints out, some 100 us later; what is hit meanwhile kills
 *	all three	the breakpoints stay, and the next one kills
 */
#ifndef WATCHCTL_STEP_PTRACE_STEP_GUARD_H
#define WATCHCTL_STEP_PTRACE_STEP_GUARD_H

#include "watchctl/step/model/step_box.h"

/* Starts the tracer and looks after it; never returns. @owner_fd: a pidfd. @memory_fd: of @box. */
void step_guard_run(struct step_box *box, int owner_fd, int memory_fd) __attribute__((noreturn));

/* Takes out every breakpoint that the tracer, which is gone or going, may have left. */
void step_guard_rescue(struct step_box *box);

#endif
