/*
 * raw_call - system calls that leave errno alone and are no cancellation points, and a lock made of them: for code that
 * runs at any point of the program's threads and signal handlers.
 */
#ifndef CALLTRACE_RUNTIME_RAW_CALL_H
#define CALLTRACE_RUNTIME_RAW_CALL_H

#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "watchctl/base/raw_call.h"

static inline long raw_call(long nr, long a, long b, long c, long d)
{
	return raw_call6(nr, a, b, c, d, 0, 0);
}

/* Signals, as the kernel has them: signal n is bit n - 1. */

#define RAW_ALL_SIGNALS (~0ull)
#define RAW_SIGXFSZ (1ull << (SIGXFSZ - 1))

/* Blocks those in @mask and no others; returns those that were blocked. */
static inline uint64_t raw_signals_block(uint64_t mask)
{
	uint64_t before = 0;

	raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, (long)&before, sizeof(mask));
	return before;
}

static inline uint64_t raw_signals_pending(void)
{
	uint64_t pending = 0;

	raw_call(SYS_rt_sigpending, (long)&pending, sizeof(pending), 0, 0);
	return pending;
}

/* Takes a SIGXFSZ back that a write of ours has raised, unless one was in @pending before. All signals are blocked. */
static inline void raw_sigxfsz_take_back(uint64_t pending)
{
	const int64_t no_time[2] = { 0, 0 };
	uint64_t mask = RAW_SIGXFSZ;

	if (!(pending & RAW_SIGXFSZ) && (raw_signals_pending() & RAW_SIGXFSZ))
		raw_call(SYS_rt_sigtimedwait, (long)&mask, 0, (long)no_time, sizeof(mask));
}

/*
 * Locks: 0 free, 1 held, 2 held and waited for. Take one with all signals blocked, and hold it for no call into the
 * program or its libraries.
 */
typedef atomic_uint raw_lock;

static inline void raw_lock_take(raw_lock *l)
{
	unsigned int was = 0;

	if (atomic_compare_exchange_strong(l, &was, 1))
		return;
	if (was != 2)
		was = atomic_exchange(l, 2);
	while (was) {
		raw_call(SYS_futex, (long)l, FUTEX_WAIT_PRIVATE, 2, 0);
		was = atomic_exchange(l, 2);
	}
}

static inline void raw_lock_release(raw_lock *l)
{
	if (atomic_exchange(l, 0) == 2)
		raw_call(SYS_futex, (long)l, FUTEX_WAKE_PRIVATE, 1, 0);
}

#endif
