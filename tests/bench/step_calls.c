/*
 * step_calls - a deterministic program for the step recorders: calls_wanted times a small function with an
 * int, a double, a string and a pointer to a struct, which calls another one with two ints.
 *
 *	step_calls COUNT	two calls each time; prints what they add up to
 */
#include <stdio.h>
#include <stdlib.h>

struct item {
	int id;
	double weight;
};

static volatile long sum;

__attribute__((noinline)) static int scale(int n, int by)
{
	sum += n;
	return n * by + 1;
}

__attribute__((noinline)) static int handle(int n, double factor, const char *name, struct item *item)
{
	item->id = n;
	item->weight = item->weight * factor + name[0];
	return scale(n, 3) + (int)item->weight;
}

__attribute__((noinline)) static void run(int count)
{
	struct item item = { 0, 1.0 };
	int i;

	for (i = 0; i < count; i++)
		sum += handle(i, 0.5, "some name", &item);
}

int main(int argc, char **argv)
{
	run(argc > 1 ? atoi(argv[1]) : 1);
	printf("%ld\n", sum);
	return 0;
}
