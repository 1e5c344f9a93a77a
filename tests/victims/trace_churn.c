/* build: gcc -O2 -g -pthread */
/*
 * trace_churn - threads that come and go, four at a time, while a timer's signals interrupt them.
 *
 *	trace_churn THREADS CALLS
 *
 * Each thread makes CALLS. At the end "FUNCTION COUNT" for each function on standard output.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#define KEEP __attribute__((noinline, noclone, noipa))

static long ncounted, nhandled, nouter;
static long calls;

KEEP int counted(int n)
{
	__atomic_fetch_add(&ncounted, 1, __ATOMIC_RELAXED);
	return n + 1;
}

KEEP void handled(int s)
{
	__atomic_fetch_add(&nhandled, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		counted(s);
}

KEEP int outer(int n)
{
	__atomic_fetch_add(&nouter, 1, __ATOMIC_RELAXED);
	return counted(n) + counted(n);
}

static void *work(void *a)
{
	for (long i = 0; i < calls; i++)
		outer((int)i);
	return a;
}

int main(int c, char **v)
{
	struct sigaction sa = { .sa_handler = handled, .sa_flags = SA_RESTART };
	struct itimerval t = { { 0, 200 }, { 0, 200 } }, none = { 0 };
	long n = c > 2 ? atol(v[1]) : 0;

	calls = c > 2 ? atol(v[2]) : 0;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
	for (long i = 0; i < n; i += 4) {
		pthread_t p[4];

		for (int k = 0; k < 4; k++)
			pthread_create(&p[k], NULL, work, NULL);
		for (int k = 0; k < 4; k++)
			pthread_join(p[k], NULL);
	}
	setitimer(ITIMER_REAL, &none, NULL);
	printf("counted %ld\nhandled %ld\nouter %ld\n", ncounted, nhandled, nouter);
	return 0;
}
