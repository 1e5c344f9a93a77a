/*
 * raw_call - a system call that leaves errno alone and is no cancellation point: for code of ours that runs in a
 * program's own threads and signal handlers.
 */
#ifndef WATCHCTL_BASE_RAW_CALL_H
#define WATCHCTL_BASE_RAW_CALL_H

#include <sys/syscall.h>

/* Returns what the kernel does: a negative errno when it refuses. */
static inline long raw_call6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#endif
