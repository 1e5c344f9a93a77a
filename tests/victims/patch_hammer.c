/* build: gcc -O2 -g -pthread */
/*
 * patch_hammer - threads that run into code while it is patched and unpatched, and check all that they compute: registers, flags, the
 * red zone, vector registers, errno, longjmp, signals on alternate stacks, forks. Says "CHECKS SIGNALS" ten times a second; ends
 * with a sentence and SIGABRT where something is wrong.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4

static volatile uint64_t checks, signals;
static __thread jmp_buf place;

static void fail(const char *what)
{
	fprintf(stderr, "wrong: %s\n", what);
	abort();
}

/* Has its array in the red zone. */
__attribute__((noinline)) uint64_t leaf(uint64_t a, uint64_t b)
{
	volatile uint64_t x[8];
	uint64_t sum = 0;

	for (unsigned int i = 0; i < 8; i++)
		x[i] = a * i + b;
	for (unsigned int i = 0; i < 8; i++)
		sum += x[i * 3 & 7];
	return sum;
}

__attribute__((noinline)) uint64_t calls(uint64_t n)
{
	return n ? calls(n - 1) + leaf(n, 1) : 0;
}

static uint64_t calls_should_be(uint64_t n)
{
	return n * (n + 1) / 2 * 28 + 8 * n;
}

__attribute__((noinline)) unsigned int flags(uint64_t a, uint64_t b)
{
	unsigned char carry, zero, overflow;
	uint64_t r;

	__asm__ volatile("mov %4, %0; sub %5, %0; setc %1; setz %2; seto %3"
			 : "=&r"(r), "=q"(carry), "=q"(zero), "=q"(overflow)
			 : "r"(a), "r"(b)
			 : "cc");
	return carry | zero << 1u | overflow << 2u;
}

static unsigned int flags_should_be(uint64_t a, uint64_t b)
{
	uint64_t r = a - b;

	return (a < b) | (r == 0) << 1u | (unsigned int)(((a ^ b) & (a ^ r)) >> 63) << 2u;
}

static void on_signal(int signal)
{
	(void)signal;
	signals++;
	if (calls(3) != calls_should_be(3))
		fail("a call in a signal handler");
}

__attribute__((noinline)) void jump_out(int n)
{
	if (n > 3)
		longjmp(place, n);
	jump_out(n + 1);
}

static void check_memory(uint64_t n)
{
	char a[64], b[64], text[64];
	void *p = malloc(n * 100 + 1);

	memset(a, (int)n, sizeof(a));
	memcpy(b, a, sizeof(b));
	if (memcmp(a, b, sizeof(a)) != 0)
		fail("memcpy");
	free(p);
	snprintf(text, sizeof(text), "%u %.3f", (unsigned int)n, 1.5);
	if (strtoul(text, NULL, 10) != n || !strstr(text, "1.500"))
		fail("snprintf");
	errno = 77;
	syscall(SYS_getpid);
	if (errno != 77)
		fail("errno");
}

static void check_all(uint64_t seed)
{
	uint64_t n = (seed >> 60) + 1;
	int jumped;

	if (calls(n) != calls_should_be(n))
		fail("calls");
	if (flags(seed, seed * 3) != flags_should_be(seed, seed * 3) || flags(seed, seed) != 2)
		fail("flags");
	jumped = setjmp(place);
	if (!jumped)
		jump_out(0);
	else if (jumped != 4)
		fail("longjmp");
	check_memory(n);
}

static void *run(void *arg)
{
	uint64_t seed = (uintptr_t)arg * 77 + 1;
	stack_t stack = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };

	sigaltstack(&stack, NULL);
	for (;;) {
		seed = seed * 6364136223846793005u + 1;
		check_all(seed);
		if ((seed >> 40 & 255) == 0)
			usleep(50);
		__sync_fetch_and_add(&checks, 1);
	}
	return NULL;
}

static void run_child(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (calls(5) != calls_should_be(5))
			_exit(3);
		execl("/bin/true", "true", (char *)NULL);
		_exit(4);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		fail("a child");
}

int main(void)
{
	const struct itimerval often = { { 0, 700 }, { 0, 700 } };
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART };
	pthread_t thread;

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, run, (void *)i);
	for (;;) {
		usleep(100000);
		run_child();
		printf("%llu %llu\n", (unsigned long long)checks, (unsigned long long)signals);
		fflush(stdout);
	}
}
