/*
 * held - ptrace(2) requests to a stopped thread. They fail with ESRCH if it has ended or runs; a wrong ESRCH
 * for a stopped thread would leave it stopped for ever.
 */
#ifndef WATCHCTL_TARGET_STOP_HELD_H
#define WATCHCTL_TARGET_STOP_HELD_H

#include <stdint.h>
#include <sys/types.h>

/* As ptrace(2), which it asks again after ESRCH where /proc says that the thread is in a ptrace stop. */
long held_request(int request, pid_t tid, uintptr_t addr, uintptr_t data);

#define held_ptrace(request, tid, addr, data) \
	held_request((int)(request), tid, (uintptr_t)(addr), (uintptr_t)(data))

#endif
