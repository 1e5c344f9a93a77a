/* build: gcc -O0 -g */
/*
 * armed - a program to be debugged, that accounts for its own accesses: what a debugger's watchctl-arm
 * recorded from the first call of work() on must be that. With an argument it goes on for so many seconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct slot {
	int id;
	int state;
};

struct slot table[4];
static long total;
static unsigned int total_writes, state_writes, sum_writes;

__attribute__((noinline)) static void add(int n)
{
	total += n;
	total_writes++;
}

__attribute__((noinline)) static int work(int rounds)
{
	volatile int sum = 0;
	int i;

	for (i = 1; i <= rounds; i++) {
		add(i);
		sum += i;
		sum_writes++;
		if (i % 3 == 0) {
			table[i % 4].state = i;
			state_writes += i % 4 == 1;
		}
	}
	return sum;
}

/* Uses the stack where work() had its variables. */
__attribute__((noinline)) static int scribble(int n)
{
	volatile int heap[64];
	int i;

	for (i = 0; i < 64; i++)
		heap[i] = n + i;
	return heap[n % 64];
}

int main(int argc, char **argv)
{
	int i, n = argc > 1 ? atoi(argv[1]) : 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", (int)getpid());
	work(60);
	scribble(3);
	printf("total %u state %u sum %u\n", total_writes, state_writes, sum_writes);
	for (i = 0; i < n * 100; i++) {
		add(1);
		usleep(10000);
	}
	return 0;
}
