/* build: gcc -O1 -g -pthread */
/*
 * sites - several functions access two variables, by several threads and ways, and account for it: what a
 *table by site must find.
 *
 *	sites THREADS PAUSE_US [ROUNDS]		ROUNDS of each thread (default: until SIGTERM)
 *
 *	pid N
 *	...
 *	bump 1200		at the end: how often each function made its one access
 *	set_state 600
 *	peek 300
 *	only_once 1
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum state { IDLE, READING = 3, WRITING, CLOSED = 9 };

volatile int counter;
volatile enum state state;

static volatile sig_atomic_t stop;
static long pause_us, rounds;
static long n_bump, n_set_state, n_peek, n_only_once;

#define COUNT(n) __atomic_fetch_add(&(n), 1, __ATOMIC_RELAXED)

__attribute__((noinline)) static void bump(void)
{
	counter++;
	COUNT(n_bump);
}

__attribute__((noinline)) static void set_state(int i)
{
	static const enum state next[] = { READING, WRITING, IDLE, (enum state)7 };

	state = next[i % 4];
	COUNT(n_set_state);
}

__attribute__((noinline)) static int peek(void)
{
	int seen = counter;

	COUNT(n_peek);
	return seen;
}

__attribute__((noinline)) static void only_once(void)
{
	state = CLOSED;
	COUNT(n_only_once);
}

__attribute__((noinline)) static void handle_request(int i)
{
	bump();
	if (i % 2)
		set_state(i / 4);
	__asm__ volatile("");
}

__attribute__((noinline)) static void reload(int i)
{
	bump();
	if (peek() < 0)
		abort();
	__asm__ volatile("");
}

static void *work(void *arg)
{
	struct timespec t = { 0, pause_us * 1000 };
	int i;

	for (i = 0; !stop && (!rounds || i < rounds); i++) {
		if (i % 4 == 3)
			reload(i);
		else
			handle_request(i);
		if (pause_us)
			nanosleep(&t, NULL);
	}
	return NULL;
}

static void on_term(int sig)
{
	stop = sig;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1, i;
	pthread_t *thread = calloc((size_t)n, sizeof(*thread));
	struct sigaction sa = { .sa_handler = on_term };

	pause_us = argc > 2 ? atol(argv[2]) : 1000;
	rounds = argc > 3 ? atol(argv[3]) : 0;
	sigaction(SIGTERM, &sa, NULL);
	printf("pid %d\n", getpid());
	fflush(stdout);
	for (i = 0; i < n; i++)
		pthread_create(&thread[i], NULL, work, NULL);
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	only_once();
	printf("bump %ld\nset_state %ld\npeek %ld\nonly_once %ld\n", n_bump, n_set_state, n_peek,
	       n_only_once);
	return 0;
}
