/* build: gcc -O0 -g -w */
/* build unused_results_O1: gcc -O1 -g -w */
/* build unused_results_clang: clang -O1 -g -w */
/* build unused_results_untyped: gcc -O0 -g0 -w */
/* build unused_results_untyped_O1: gcc -O1 -g0 -w */
/*
 * Functions that have no result, or leave it out, and leave something of an address behind in its place: it is
 * another in each run. And one that has a result, which its caller does not read: FAULT sets another.
 */
#include <stdio.h>
#include <stdlib.h>

static long kept[3];

/* Falls off its end, behind a temporary. */
__attribute__((noinline)) int leaves_temporary(int n)
{
	int local = n;

	*(void *volatile *)&kept[0] = &local;
}

/* ... behind a call, with what that has left. */
__attribute__((noinline)) int leaves_call(int n)
{
	leaves_temporary(n);
}

__attribute__((noinline)) void no_result(void *p)
{
	volatile unsigned long local;

	local = (unsigned long)p * 3;
}

__attribute__((noinline)) void *some_place(void)
{
	return malloc(16);
}

/* Its result is read. */
__attribute__((noinline)) int has_result(int n)
{
	return n + 1;
}

__attribute__((noinline)) int is_ignored(const char *fault)
{
	*(volatile long *)&kept[1] = 1;
	return fault && *fault ? -1 : 0;
}

__attribute__((noinline)) void watched(const char *fault)
{
	void *p = some_place();

	leaves_temporary(1);
	leaves_call(2);
	no_result(p);
	kept[2] = has_result(3);
	is_ignored(fault);
	free(p);
}

int main(void)
{
	watched(getenv("FAULT"));
	printf("%ld\n", kept[2]);
	return 0;
}
