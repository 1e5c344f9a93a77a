/*
 * typed_calls - what a call costs whose parameters and result are recorded by their types.
 *
 *	typed_calls CALLS ROUNDS
 *
 * Makes CALLS of each function, ROUNDS times with a pause between; prints "NAME NS" for each: the median of the rounds, of one call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEEP __attribute__((noinline, noclone, noipa))
#define ROUNDS_MOST 100
#define PAUSE_NS 300000000

KEEP int numbers(int a, long b, double c)
{
	__asm__ volatile("nop; nop; nop; nop" : : : "memory");
	return a + (int)b + (c > 0);
}

KEEP int literal(const char *s)
{
	__asm__ volatile("nop; nop; nop; nop" : : "r"(s) : "memory");
	return 1;
}

KEEP int heap(const char *s)
{
	__asm__ volatile("nop; nop; nop; nop" : : "r"(s) : "memory");
	return 2;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double one_round(int which, long calls, const char *on_heap)
{
	const double began = now_ns();

	for (long i = 0; i < calls; i++)
		if (which == 0)
			numbers((int)i, i, 1.5);
		else if (which == 1)
			literal("a literal of the program");
		else
			heap(on_heap);
	return (now_ns() - began) / (double)calls;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static const char *const name[] = { "numbers", "literal", "heap" };
	const long calls = argc > 1 ? atol(argv[1]) : 1000, rounds = argc > 2 ? atol(argv[2]) : 3;
	char *on_heap = strdup("a string on the heap");
	double took[ROUNDS_MOST];

	if (!on_heap || calls < 1 || rounds < 1 || rounds > ROUNDS_MOST)
		return 2;
	for (int k = 0; k < 3; k++) {
		for (long i = 0; i < rounds; i++) {
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
			took[i] = one_round(k, calls, on_heap);
		}
		qsort(took, (size_t)rounds, sizeof(*took), by_size);
		printf("%s %.1f\n", name[k], took[rounds / 2]);
	}
	free(on_heap);
	return 0;
}
