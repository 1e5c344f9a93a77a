/*
 * resist_dispatch - dispatches its system calls itself, as Wine does for Windows programs, and says whether
 * it still does right: "pid N", then for each line of standard input "ok WRITES", or "bad".
 *
 *	resist_dispatch KIND [late|thread]
 *
 *	selector	those made while it writes are turned into SIGSYS; it allows them all while it waits
 *	range		so are all that do not come from libc, all the time
 *
 * late: from the first line on; thread: from the first line on too, in the thread that obeys, while another
 * one, which is free, waits. A line "w N" writes N times; "end" ends it.
 */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#define SYSCALL_DISPATCH_FILTER_ALLOW 0
#define SYSCALL_DISPATCH_FILTER_BLOCK 1
#endif
#define ANSWER 4711

volatile int flag __attribute__((aligned(64)));

static volatile char selector = SYSCALL_DISPATCH_FILTER_ALLOW;
static volatile sig_atomic_t dispatched;
static const char *kind;
static int entered;

static void on_dispatch(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)sig;
	(void)info;
	if (!strcmp(kind, "selector"))
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

static int enter(void)
{
	unsigned long range[2] = { 0, 0 };

	entered = 1;
	if (!strcmp(kind, "selector"))
		return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0ul, 0ul, &selector);
	dl_iterate_phdr(find_libc, range);
	return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, range[0], range[1], 0ul);
}

static long call_from_here(long nr)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "0"(nr) : "rcx", "r11", "memory");
	return ret;
}

__attribute__((noinline)) void write_flag(int i)
{
	flag = i;
}

static int writes, expected;

static int is_right(void)
{
	if (!entered)
		return !dispatched;
	expected++;
	selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	return call_from_here(SYS_getppid) == ANSWER && dispatched == expected;
}

static void write_all(int n)
{
	selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	for (; n > 0; n--)
		write_flag(++writes);
	selector = SYSCALL_DISPATCH_FILTER_ALLOW;
}

static void *obey(void *arg)
{
	int enter_now = arg != NULL;
	char line[64];

	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
		if (enter_now && enter())
			printf("bad\n");
		enter_now = 0;
		write_all(line[0] == 'w' ? atoi(line + 1) : 0);
		printf("%s %d\n", is_right() ? "ok" : "bad", writes);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	struct sigaction sa = { .sa_sigaction = on_dispatch, .sa_flags = SA_SIGINFO };
	pthread_t t;

	kind = argv[1];
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGSYS, &sa, NULL);
	if (!*how && enter()) {
		printf("unsupported 0\n");
		return 1;
	}
	printf("pid %d\n", getpid());
	if (strcmp(how, "thread") != 0)
		obey(*how ? (void *)1 : NULL);
	pthread_create(&t, NULL, obey, (void *)1);
	for (;;)
		pause();
}
