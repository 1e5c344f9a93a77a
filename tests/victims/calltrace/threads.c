/* Threads that end in each way, many times: by return, pthread_exit, cancellation. */
#include <pthread.h>

#include "account.h"

TRACED static int fib(int n)
{
	int r;

	IN();
	r = n < 2 ? n : fib(n - 1) + fib(n - 2);
	OUT();
	return r;
}

TRACED static void ends(void)
{
	IN();
	pthread_exit(NULL);
}

TRACED static void waits(void)
{
	IN();
	for (;;)
		pause();
}

TRACED static void *returns_body(void *arg)
{
	IN();
	fib((int)(long)arg);
	OUT();
	return NULL;
}

TRACED static void *exits_body(void *arg)
{
	IN();
	fib((int)(long)arg);
	ends();
	return NULL;
}

TRACED static void *cancelled_body(void *arg)
{
	IN();
	fib((int)(long)arg);
	waits();
	return NULL;
}

TRACED int main(void)
{
	void *(*const body[])(void *) = { returns_body, exits_body, cancelled_body };
	pthread_t t[12];
	long i;

	IN();
	for (i = 0; i < 12; i++)
		pthread_create(&t[i], NULL, body[i % 3], (void *)(i % 7));
	for (i = 0; i < 12; i++) {
		if (i % 3 == 2)
			pthread_cancel(t[i]);
		pthread_join(t[i], NULL);
	}
	OUT();
	account_print();
	return 0;
}
