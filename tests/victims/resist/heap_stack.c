/*
 * heap_stack - a program whose only thread runs on a small stack in the midst of its heap, as coroutines do,
 * and checks the heap around it. With an argument its main stack was used deeply before. See resist_real.py
 * for what it obeys.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define HEAP (1u << 20)
#define STACK_AT (HEAP / 2)
#define STACK_SIZE (64u << 10)

static volatile uint64_t cell;
static uint8_t *heap;
static ucontext_t home, coroutine;
static int status = 1;

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 31 + (i >> 9) + 1);
}

static unsigned long damaged(void)
{
	unsigned long n = 0;

	for (size_t i = 0; i < HEAP; i++)
		if (i - STACK_AT >= STACK_SIZE)
			n += heap[i] != pattern(i);
	return n;
}

static void obey(void)
{
	unsigned long n, rounds = 0;
	char verb[16];

	printf("pid %d %p\n", getpid(), (void *)&cell);
	fflush(stdout);
	while (scanf("%15s %lu", verb, &n) == 2) {
		if (!strcmp(verb, "hit")) {
			while (n--)
				cell++;
			printf("ok %lu\n", (unsigned long)cell);
		} else if (!strcmp(verb, "check")) {
			printf("ok %lu %lu\n", ++rounds, damaged());
		} else {
			printf("bye %lu %lu\n", (unsigned long)cell, damaged());
			status = 7;
			break;
		}
		fflush(stdout);
	}
}

__attribute__((noinline)) static int deeply(int n)
{
	volatile char room[1024];

	memset((char *)room, 0x5a, sizeof(room));
	return n ? deeply(n - 1) + room[n % 1024] : 0;
}

int main(int argc, char **argv)
{
	(void)argv;
	heap = malloc(HEAP);
	for (size_t i = 0; i < HEAP; i++)
		heap[i] = pattern(i);
	if (argc > 1)
		deeply(500);
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = heap + STACK_AT;
	coroutine.uc_stack.ss_size = STACK_SIZE;
	coroutine.uc_link = &home;
	makecontext(&coroutine, obey, 0);
	swapcontext(&home, &coroutine);
	return status;
}
