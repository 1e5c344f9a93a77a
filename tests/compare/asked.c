/*
 * asked - makes a known number of accesses of each kind to one variable, for compare.py: what does each tool
 * tell of them? Prints its id and the variable's address, waits for the file that is named, and for the end
 * of its input.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/compare/accesses.h"

volatile long value;
static volatile long seen;

__attribute__((noinline)) static void set(long to)
{
	value = to;
}

__attribute__((noinline)) static void get(void)
{
	seen = value;
}

__attribute__((noinline)) static void add(long by)
{
	value += by;
}

/* The kernel writes it. */
static void receive(int in, int out, long what)
{
	if (write(out, &what, sizeof(what)) != sizeof(what) ||
	    read(in, (void *)&value, sizeof(value)) != sizeof(what))
		perror("pipe");
}

/* A breakpoint of a debugger, when all is done. */
__attribute__((noinline)) void finished(void)
{
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	char end;
	int i, fd[2];

	if (argc != 2 || pipe(fd))
		return 2;
	printf("%d %p\n", (int)getpid(), (void *)&value);
	fflush(stdout);
	while (access(argv[1], F_OK))
		usleep(10000);
	for (i = 0; i < CHANGES; i++)
		set(i + 1);
	for (i = 0; i < SAME; i++)
		set(CHANGES);
	for (i = 0; i < READS; i++)
		get();
	for (i = 0; i < ADDS; i++)
		add(1);
	for (i = 0; i < BY_KERNEL; i++)
		receive(fd[0], fd[1], 1000 + i);
	finished();
	puts("done");
	fflush(stdout);
	while (read(0, &end, 1) > 0)
		;
	return 0;
}
