/* sys - raw system calls, x86-64 (psABI A.2.1): no errno, no libc. Negative results are -errno. */
#ifndef HANDLER_SYS_H
#define HANDLER_SYS_H

#include <stdint.h>

#define NR_RT_SIGACTION 13
#define NR_RT_SIGPROCMASK 14
#define NR_GETPID 39
#define NR_PRCTL 157
#define NR_GETTID 186
#define NR_FUTEX 202
#define NR_CLOCK_GETTIME 228
#define NR_RT_TGSIGQUEUEINFO 297
#define NR_PROCESS_VM_READV 310
#define NR_PROCESS_VM_WRITEV 311

#define ESRCH 3

static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
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

#define sys0(nr) sys6(nr, 0, 0, 0, 0, 0, 0)
#define sys4(nr, a, b, c, d) sys6(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

#define CLOCK_MONOTONIC 1

struct timespec64 {
	int64_t sec, nsec;
};

static inline uint64_t monotonic_ns(void)
{
	struct timespec64 now = { 0, 0 };

	sys4(NR_CLOCK_GETTIME, CLOCK_MONOTONIC, &now, 0, 0);
	return (uint64_t)now.sec * 1000000000ull + (uint64_t)now.nsec;
}

#endif
