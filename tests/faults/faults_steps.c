/*
 * faults_steps - a few calls with parameters, results and a variable, and an end. Its argument is one of the
 * values: two runs with different ones differ in it.
 */
#include <stdio.h>
#include <stdlib.h>

volatile long total;

__attribute__((noinline)) static long add(long a, long b)
{
	total += a;
	return a + b;
}

__attribute__((noinline)) static long name_length(const char *name)
{
	long n = 0;

	while (*name++)
		n = add(1, n);
	return n;
}

int main(int argc, char **argv)
{
	long sum = name_length("faults") + name_length("steps");

	for (int i = 0; i < 8; i++)
		sum = add(i == 5 ? atol(argv[1]) : i, sum);
	printf("sum %ld\n", sum);
	return 0;
}
