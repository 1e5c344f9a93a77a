/*
 * Stacks of every shape that compilers make: deep recursion with large frames, realigned frames, callbacks
 * from libc, and signal handlers on a stack of their own that interrupt all of these. Runs until killed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static volatile long sink;

/* With alloca and an aligned local, gcc keeps the CFA in memory. */
static __attribute__((noinline)) int realigned(int n)
{
	char *p = __builtin_alloca((size_t)n);
	volatile char aligned[128] __attribute__((aligned(64)));

	memset(p, n, (size_t)n);
	memset((void *)aligned, p[n / 2], sizeof(aligned));
	return aligned[n % 128];
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static __attribute__((noinline)) long deep(int n, char *const *words)
{
	volatile char large[5000];
	struct timespec t;
	char *copy[64];

	large[n] = (char)n;
	if (n)
		return deep(n - 1, words) + large[n];
	memcpy(copy, words, sizeof(copy));
	qsort(copy, 64, sizeof(*copy), by_text);
	clock_gettime(CLOCK_MONOTONIC, &t);
	return realigned(33) + t.tv_nsec;
}

static void on_timer(int sig)
{
	char text[300];

	sink += snprintf(text, sizeof(text), "%d %f %s", sig, 3.14, "text") + realigned(40);
}

int main(void)
{
	const struct itimerval often = { { 0, 300 }, { 0, 300 } };
	struct sigaction sa = { .sa_handler = on_timer, .sa_flags = SA_ONSTACK | SA_RESTART };
	static char stack[65536];
	const stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	static char text[64][16];
	char *words[64];

	for (int i = 0; i < 64; i++) {
		snprintf(text[i], sizeof(text[i]), "%d", i * 7919 % 1000);
		words[i] = text[i];
	}
	sigaltstack(&ss, NULL);
	sigaction(SIGVTALRM, &sa, NULL);
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	for (;;)
		sink += deep(30, words);
}
