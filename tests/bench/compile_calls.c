/*
 * compile_calls THREADS CALLS [ROUNDS PAUSE_MS] - what a call of an empty function costs, as this program was compiled, and
 * what two rdtsc and two stores of 16 bytes cost. Prints "call NS" and "floor NS", of the slowest thread: each the median
 * of the rounds, between which there are pauses.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#define ROOM 65536
#define ROUNDS_MAX 1000

static long calls;
static int rounds = 1;
static struct timespec pause_between;
static pthread_barrier_t begin;

struct spent {
	double call[ROUNDS_MAX], floor[ROUNDS_MAX];
	char room[2 * ROOM] __attribute__((aligned(ROOM)));
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Of two instructions: its entry and its end are two places. */
__attribute__((noinline)) static void leaf(void)
{
	__asm__ volatile("nopl 0x100(%rax, %rax, 1)");
}

static void measure(struct spent *s, int round)
{
	char *at = s->room;
	double from;
	long i;

	pthread_barrier_wait(&begin);
	from = now_ns();
	for (i = 0; i < calls; i++)
		leaf();
	s->call[round] = (now_ns() - from) / (double)calls;

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
	s->floor[round] = (now_ns() - from) / (double)calls;
}

static void *measure_all(void *arg)
{
	for (int i = 0; i < rounds; i++) {
		measure(arg, i);
		nanosleep(&pause_between, NULL);
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median(double *v)
{
	qsort(v, (size_t)rounds, sizeof(*v), by_size);
	return v[rounds / 2];
}

int main(int argc, char **argv)
{
	static struct spent spent[64];
	double call = 0, floor = 0;
	pthread_t thread[64];
	int n, i;

	n = argc >= 3 ? atoi(argv[1]) : 0;
	calls = argc >= 3 ? atol(argv[2]) : 0;
	if (argc == 5) {
		rounds = atoi(argv[3]);
		pause_between.tv_nsec = atol(argv[4]) * 1000000;
	}
	if (n < 1 || n > 64 || calls < 1 || rounds < 1 || rounds > ROUNDS_MAX) {
		fputs("usage: compile_calls THREADS CALLS [ROUNDS PAUSE_MS]\n", stderr);
		return 2;
	}
	pthread_barrier_init(&begin, NULL, (unsigned int)n);
	for (i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, measure_all, &spent[i]))
			return 1;
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < n; i++) {
		const double of_call = median(spent[i].call), of_floor = median(spent[i].floor);

		call = of_call > call ? of_call : call;
		floor = of_floor > floor ? of_floor : floor;
	}
	printf("call %.2f\nfloor %.2f\n", call, floor);
	return 0;
}
