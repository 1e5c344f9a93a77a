/*
 * compile_calls THREADS CALLS - what a call of an empty function costs, as this program was compiled, and what two rdtsc
 * and two stores of 16 bytes cost. Prints "call NS" and "floor NS", of the slowest thread.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#define ROOM 65536

static long calls;
static pthread_barrier_t begin;

struct spent {
	double call, floor;
	char room[2 * ROOM] __attribute__((aligned(ROOM)));
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

__attribute__((noinline)) static void leaf(void)
{
	__asm__ volatile("");
}

static void *measure(void *arg)
{
	struct spent *s = arg;
	char *at = s->room;
	double from;
	long i;

	pthread_barrier_wait(&begin);
	from = now_ns();
	for (i = 0; i < calls; i++)
		leaf();
	s->call = (now_ns() - from) / (double)calls;

	pthread_barrier_wait(&begin);
	from = now_ns();
	for (i = 0; i < calls; i++) {
		uint64_t *slot = (uint64_t *)at;

		slot[0] = __rdtsc();
		slot[1] = (uint64_t)i;
		__asm__ volatile("" : : "r"(slot) : "memory");
		slot[2] = __rdtsc();
		slot[3] = (uint64_t)i;
		__asm__ volatile("" : : "r"(slot) : "memory");
		at = s->room + ((at + 32 - s->room) & (ROOM - 1));
	}
	s->floor = (now_ns() - from) / (double)calls;
	return NULL;
}

int main(int argc, char **argv)
{
	static struct spent spent[64];
	double call = 0, floor = 0;
	pthread_t thread[64];
	int n, i;

	n = argc == 3 ? atoi(argv[1]) : 0;
	calls = argc == 3 ? atol(argv[2]) : 0;
	if (n < 1 || n > 64 || calls < 1) {
		fputs("usage: compile_calls THREADS CALLS\n", stderr);
		return 2;
	}
	pthread_barrier_init(&begin, NULL, (unsigned int)n);
	for (i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, measure, &spent[i]))
			return 1;
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < n; i++) {
		call = spent[i].call > call ? spent[i].call : call;
		floor = spent[i].floor > floor ? spent[i].floor : floor;
	}
	printf("call %.2f\nfloor %.2f\n", call, floor);
	return 0;
}
