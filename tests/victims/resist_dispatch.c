/* build: gcc -O2 -g -pthread */
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
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dispatch.h"

volatile int flag __attribute__((aligned(64)));

static int entered;

static int enter(void)
{
	entered = 1;
	return begin_to_dispatch();
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

	by_range = strcmp(argv[1], "selector") != 0;
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
