/* calls - the system calls of a drop-in library. They return what the kernel does: a negative errno if they fail. */
#ifndef PROBE_LIBRARY_CALLS_H
#define PROBE_LIBRARY_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* arch/x86/entry/syscalls/syscall_64.tbl */
enum {
	NR_READ = 0,
	NR_WRITE = 1,
	NR_OPEN = 2,
	NR_CLOSE = 3,
	NR_POLL = 7,
	NR_MMAP = 9,
	NR_MUNMAP = 11,
	NR_SIGPROCMASK = 14,
	NR_DUP2 = 33,
	NR_GETPID = 39,
	NR_SENDTO = 44,
	NR_SOCKETPAIR = 53,
	NR_CLONE = 56,
	NR_EXECVE = 59,
	NR_WAIT4 = 61,
	NR_FCNTL = 72,
	NR_SETSID = 112,
	NR_PRCTL = 157,
	NR_CLOCK_GETTIME = 228,
	NR_EXIT_GROUP = 231,
	NR_PROCESS_VM_READV = 310,
	NR_CLOSE_RANGE = 436,
};

static inline long call6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline long call3(long nr, long a, long b, long c)
{
	return call6(nr, a, b, c, 0, 0, 0);
}

#endif
