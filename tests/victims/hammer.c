/* build: gcc -O2 -g -pthread */
/*
 * hammer - threads write one counter as fast as they can, and check themselves: registers, vector
 * registers, errno, signal mask and the sum. Prints "pid N" and, at SIGTERM, "total N" or "bad WHAT".
 *
 *	hammer THREADS [USLEEP]
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile long counter;
volatile long scratch; /* written by checked_bump() */
static volatile sig_atomic_t stop;
static long pause_us;
static const char *volatile bad;

struct worker {
	pthread_t thread;
	long n;
};

__attribute__((noinline)) static void bump(void)
{
	__atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
}

/* One write with known values in registers, flags and the red zone around it. False: one of them changed. */
__attribute__((noinline)) static int checked_bump(uint64_t seed)
{
	const uint64_t in[6] = { seed, ~seed, seed * 3, seed * 5, seed * 7, seed * 11 };
	uint64_t out[6], rbx = seed, red_zone = 0, one = 1;
	uint8_t carry = 0;

	__asm__ volatile("movdqu (%[in]), %%xmm0\n\t"
			 "movdqu 16(%[in]), %%xmm7\n\t"
			 "movdqu 32(%[in]), %%xmm15\n\t"
			 "lea -256(%%rsp), %%rsp\n\t" /* past what the compiler may keep in its red zone */
			 "movq %%rbx, -120(%%rsp)\n\t"
			 "stc\n\t"
			 "movq %[one], %[counter]\n\t"
			 "setc %[carry]\n\t"
			 "movq -120(%%rsp), %[red_zone]\n\t"
			 "lea 256(%%rsp), %%rsp\n\t"
			 "movdqu %%xmm0, (%[out])\n\t"
			 "movdqu %%xmm7, 16(%[out])\n\t"
			 "movdqu %%xmm15, 32(%[out])\n\t"
			 : [carry] "+r"(carry), [red_zone] "=&r"(red_zone), "+b"(rbx), [counter] "=m"(scratch)
			 : [in] "r"(in), [out] "r"(out), [one] "r"(one)
			 : "xmm0", "xmm7", "xmm15", "cc", "memory");
	return rbx == seed && red_zone == seed && carry && !memcmp(in, out, sizeof(in));
}

/* The same for the widest vector registers that this CPU has. */
__attribute__((noinline, target("avx"))) static int checked_ymm(const uint8_t *in)
{
	uint8_t out[32];

	__asm__ volatile("vmovdqu (%[in]), %%ymm9\n\t"
			 "movq $2, %[counter]\n\t"
			 "vmovdqu %%ymm9, (%[out])\n\t"
			 : [counter] "=m"(scratch)
			 : [in] "r"(in), [out] "r"(out)
			 : "xmm9", "memory");
	return !memcmp(in, out, sizeof(out));
}

__attribute__((noinline, target("avx512f"))) static int checked_zmm(const uint8_t *in)
{
	uint8_t out[64];

	__asm__ volatile("vmovdqu64 (%[in]), %%zmm21\n\t"
			 "movq $3, %[counter]\n\t"
			 "vmovdqu64 %%zmm21, (%[out])\n\t"
			 : [counter] "=m"(scratch)
			 : [in] "r"(in), [out] "r"(out)
			 : "xmm21", "memory");
	return !memcmp(in, out, sizeof(out));
}

static int checked_vectors(uint64_t seed)
{
	uint64_t in[8] = { seed, ~seed, seed * 3, seed * 5, seed * 7, seed * 11, seed * 13, seed * 17 };

	return (!__builtin_cpu_supports("avx") || checked_ymm((const uint8_t *)in)) &&
	       (!__builtin_cpu_supports("avx512f") || checked_zmm((const uint8_t *)in));
}

static void check(int ok, const char *what)
{
	if (!ok)
		bad = what;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	sigset_t before, after;
	struct timespec t = { 0, pause_us * 1000 };

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	while (!stop) {
		errno = 77;
		check(checked_bump((uint64_t)w->n * 0x9e3779b97f4a7c15u), "registers");
		check(checked_vectors((uint64_t)w->n * 0x9e3779b97f4a7c15u), "vector registers");
		bump();
		check(errno == 77, "errno");
		w->n++;
		if (pause_us && nanosleep(&t, NULL))
			check(stop, "nanosleep");
	}
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	check(!memcmp(&before, &after, 8), "signal mask");
	return NULL;
}

static void on_term(int sig)
{
	stop = sig;
}

int main(int argc, char **argv)
{
	int i, n = argc > 1 ? atoi(argv[1]) : 2;
	struct worker *w = calloc((size_t)n, sizeof(*w));
	struct sigaction sa = { .sa_handler = on_term };
	sigset_t set, awake;
	long sum = 0;

	pause_us = argc > 2 ? atol(argv[2]) : 0;
	sigaction(SIGTERM, &sa, NULL);
	printf("pid %d\n", getpid());
	fflush(stdout);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, &awake);
	for (i = 0; i < n; i++)
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	while (!stop)
		sigsuspend(&awake); /* one that comes between the two waits until then */
	for (i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		sum += w[i].n;
	}
	check(sum == counter, "sum");
	if (bad)
		printf("bad %s\n", bad);
	else
		printf("total %ld\n", sum);
	return bad ? 1 : 0;
}
