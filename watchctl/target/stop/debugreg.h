/*
 * debugreg - the debug registers of a stopped thread that we trace, accessed through the kernel, which keeps
 * them for each thread. watchctl/engine/plan/dregs.h explains the bits.
 *
 * The kernel reserves hardware for a register at its first use and gives it back only when the thread ends
 * or executes another program, not when it is cleared: perf_event_open(2) then finds one fewer.
 */
#ifndef WATCHCTL_TARGET_STOP_DEBUGREG_H
#define WATCHCTL_TARGET_STOP_DEBUGREG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DEBUGREG_STATUS 6u
#define DEBUGREG_CONTROL 7u

/*
 * @n: 0..3 addresses, 6 status, 7 control, of which only what is armed. False with errno: ESRCH where the
 * thread does not stand still.
 */
bool debugreg_read(pid_t tid, unsigned int n, uint64_t *ret);

/* False with errno: also ENOSPC (the CPU has none left for this thread), EINVAL (no user address). */
bool debugreg_write(pid_t tid, unsigned int n, uint64_t value);

#endif
