/*
 * resist - a C program that obeys, accounts and checks itself: timers and faults on signal stacks,
 * young threads, vfork, longjmp out of a handler. For static programs, of glibc and of musl. See
 * resist_real.py.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3

static _Atomic uint64_t cell, rounds[THREADS], ticks, errors;
static atomic_bool stopping;
static _Thread_local sigjmp_buf home;
static char *volatile hole;

static void check(int right)
{
	if (!right)
		atomic_fetch_add(&errors, 1);
}

__attribute__((noinline)) static void *hit(void *arg)
{
	for (uintptr_t n = (uintptr_t)arg; n; n--)
		atomic_fetch_add(&cell, 1);
	return NULL;
}

static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(home, 1);
}

static void on_tick(int sig)
{
	(void)sig;
	atomic_fetch_add(&ticks, 1);
}

static void faults(void)
{
	if (!sigsetjmp(home, 1)) {
		*hole = 1;
		check(0);
	}
}

static uint64_t hash(const uint8_t *p, size_t n)
{
	uint64_t h = 14695981039346656037u;

	while (n--)
		h = (h ^ *p++) * 1099511628211u;
	return h;
}

static void computes(void)
{
	static _Thread_local uint8_t text[20000];
	double sum = 0;
	uint64_t before;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 7);
	before = hash(text, sizeof(text));
	for (int i = 1; i <= 10000; i++)
		sum += 0.5 * i;
	errno = 77;
	check(hash(text, sizeof(text)) == before && sum == 25002500.0 && errno == 77);
}

static void *young(void *arg)
{
	return (char *)arg + 1;
}

static void births(void)
{
	struct timespec nap = { 0, 2000000 }, begin, end;
	pthread_t t;
	void *ret = NULL;
	pid_t child;
	int status = -1;

	check(!pthread_create(&t, NULL, young, &status) && !pthread_join(t, &ret) &&
	      ret == (char *)&status + 1);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (nanosleep(&nap, &nap)) /* the timer interrupts it, and nothing else */
		check(errno == EINTR);
	clock_gettime(CLOCK_MONOTONIC, &end);
	check((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec >= 2000000);
	child = vfork();
	if (!child)
		_exit(9);
	while (waitpid(child, &status, 0) < 0)
		check(errno == EINTR);
	check(WIFEXITED(status) && WEXITSTATUS(status) == 9);
}

static void *work(void *arg)
{
	static void (*const what[THREADS])(void) = { faults, computes, births };
	uintptr_t number = (uintptr_t)arg;
	struct timespec nap = { 0, 1000000 };
	stack_t own = { .ss_sp = malloc(32768), .ss_size = 32768 }, after;

	sigaltstack(&own, NULL);
	while (!stopping) {
		what[number]();
		atomic_fetch_add(&rounds[number], 1);
		nanosleep(&nap, NULL);
	}
	sigaltstack(NULL, &after);
	check(after.ss_sp == own.ss_sp && after.ss_size == own.ss_size && !after.ss_flags);
	return NULL;
}

static uint64_t least(void)
{
	uint64_t n = ticks;

	for (int i = 0; i < THREADS; i++)
		n = rounds[i] < n ? rounds[i] : n;
	return n;
}

static int obey(void)
{
	char verb[16];
	unsigned long n;
	pthread_t other;

	while (scanf("%15s %lu", verb, &n) == 2) {
		if (!strcmp(verb, "hit")) {
			check(!pthread_create(&other, NULL, hit, (void *)(n / 2)));
			hit((void *)(n - n / 2));
			check(!pthread_join(other, NULL));
			printf("ok %lu\n", (unsigned long)cell);
		} else if (!strcmp(verb, "check")) {
			printf("ok %lu %lu\n", (unsigned long)least(), (unsigned long)errors);
		} else {
			return 7;
		}
		fflush(stdout);
	}
	return 1;
}

int main(int argc, char **argv)
{
	struct sigaction fault = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	struct sigaction tick = { .sa_handler = on_tick, .sa_flags = SA_ONSTACK | SA_RESTART };
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } };
	pthread_t threads[THREADS];
	int status;

	(void)argv;
	hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGALRM, &tick, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	setitimer(ITIMER_REAL, &often, NULL);
	printf("pid %d %p\n", getpid(), (void *)&cell);
	fflush(stdout);
	while (argc > 1) /* a debugger's: nobody talks to it */
		pause();
	status = obey();
	stopping = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("bye %lu %lu\n", (unsigned long)cell, (unsigned long)errors);
	return status;
}
