/*
 * dispatch - system calls that a program dispatches itself, as Wine does: what resist_dispatch.c and
 * tests/chaos/odd_access.c share. A call that is dispatched becomes SIGSYS, is counted, and answers ANSWER.
 *
 *	by a selector	all calls while it says BLOCK
 *	by a range	all that do not come from libc, all the time
 */
#ifndef DISPATCH_H
#define DISPATCH_H

#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <ucontext.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#define SYSCALL_DISPATCH_FILTER_ALLOW 0
#define SYSCALL_DISPATCH_FILTER_BLOCK 1
#endif
#define ANSWER 4711

static volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;
static volatile long dispatched;
static bool by_range;

static void on_dispatch(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)sig;
	(void)info;
	if (!by_range)
		selector = SYSCALL_DISPATCH_FILTER_ALLOW; /* for the way back, too */
	dispatched++;
	u->uc_mcontext.gregs[REG_RAX] = ANSWER;
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *data)
{
	unsigned long *range = data;

	(void)size;
	if (!strstr(info->dlpi_name, "libc.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			range[0] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			range[1] = info->dlpi_phdr[i].p_memsz;
		}
	return 1;
}

/* Of the calling thread. Not 0: the kernel cannot. */
static int begin_to_dispatch(void)
{
	unsigned long range[2] = { 0, 0 };

	if (by_range)
		dl_iterate_phdr(find_libc, range);
	return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, range[0], range[1],
		     by_range ? NULL : &selector);
}

static long call_from_here(long nr)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "0"(nr) : "rcx", "r11", "memory");
	return ret;
}

#endif
