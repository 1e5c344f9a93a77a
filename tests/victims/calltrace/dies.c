/* Dies in a known depth while another thread is asleep: usage: dies segv|abort|pause ROUNDS [FLUSH] */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "account.h"

int calltrace_flush(void) __attribute__((weak));

static int is_asleep;
static char **args;

TRACED static int leaf(int n)
{
	IN();
	__asm__ volatile("");
	OUT();
	return n + 1;
}

TRACED static void sleeps(void)
{
	IN();
	__atomic_store_n(&is_asleep, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

TRACED static void *body(void *arg)
{
	int i;

	IN();
	for (i = 0; i < 3; i++)
		leaf(i);
	sleeps();
	return arg;
}

TRACED static int dives(int n)
{
	int r;

	IN();
	if (n) {
		r = dives(n - 1) + leaf(n);
	} else {
		account_print();
		if (!strcmp(args[1], "segv"))
			*(volatile int *)16 = 1;
		if (!strcmp(args[1], "abort"))
			abort();
		for (;;)
			pause();
	}
	OUT();
	return r;
}

TRACED static int rounds(int n)
{
	int i;

	IN();
	for (i = 0; i < n; i++)
		leaf(i);
	if (args[3] && calltrace_flush)
		calltrace_flush();
	for (i = 0; i < 7; i++)
		leaf(i);
	i = dives(5);
	OUT();
	return i;
}

TRACED int main(int argc, char **argv)
{
	pthread_t t;
	int r;

	args = argv;
	IN();
	pthread_create(&t, NULL, body, NULL);
	while (!__atomic_load_n(&is_asleep, __ATOMIC_ACQUIRE))
		usleep(1000);
	r = rounds(argc > 2 ? atoi(argv[2]) : 10);
	OUT();
	return r;
}
