/* build: gcc -O1 -g -pthread */
/*
 * usage: trap_rounds raise|int3|wait|wait-handler SECONDS [THREADS]. Each thread gets a SIGTRAP of its own in each
 * round: by raise(3) or int3, for its handler; or it blocks the signal, and takes it by sigtimedwait(2). Checks that
 * each comes, once, and that the mask (and with one thread the action) stays what they are. Prints "ready", and at the end, which
 * SIGTERM brings sooner, "ok ROUNDS" (exit status 0), or what was wrong (1).
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 16

static bool waits, by_int3, has_handler, many;
static volatile time_t end;
static long rounds, bad;
static __thread volatile sig_atomic_t got;

__attribute__((noinline)) void tick(void)
{
	__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
}

static void on_trap(int sig)
{
	(void)sig;
	got++;
	tick();
}

static void on_term(int sig)
{
	(void)sig;
	end = 0;
}

static void check(bool right, const char *what)
{
	if (right)
		return;
	printf("BAD: %s\n", what);
	__atomic_fetch_add(&bad, 1, __ATOMIC_RELAXED);
}

__attribute__((noinline)) static void one_round(const sigset_t *trap)
{
	const struct timespec second = { 1, 0 };
	struct sigaction action;
	sigset_t mask;
	int before = got;

	if (by_int3)
		__asm__ volatile("int3");
	else
		raise(SIGTRAP);
	tick();
	if (waits)
		check(sigtimedwait(trap, NULL, &second) == SIGTRAP, "the blocked SIGTRAP does not wait");
	else
		check(got == before + 1, "the handler was not called once");
	sigaction(SIGTRAP, NULL, &action);
	check(many || action.sa_handler == (has_handler ? on_trap : SIG_DFL), "the action is another");
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	check(sigismember(&mask, SIGTRAP) == waits, "the mask is another");
}

static void *rounds_of(void *unused)
{
	sigset_t trap;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	while (time(NULL) < end && !bad) {
		one_round(&trap);
		usleep(3000);
	}
	return unused;
}

int main(int argc, char **argv)
{
	int n = argc > 3 ? atoi(argv[3]) : 1, i;
	pthread_t thread[THREADS_MAX];
	sigset_t trap, term;

	if (argc < 3 || n > THREADS_MAX)
		return 2;
	waits = !strncmp(argv[1], "wait", 4);
	by_int3 = !strcmp(argv[1], "int3");
	has_handler = strcmp(argv[1], "wait") != 0;
	many = n > 1; /* for a moment another thread may see that the kernel has removed it */
	end = time(NULL) + atoi(argv[2]);
	if (has_handler)
		signal(SIGTRAP, on_trap);
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	if (waits)
		sigprocmask(SIG_BLOCK, &trap, NULL);
	signal(SIGTERM, on_term);
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL); /* it interrupts none of the threads */
	printf("ready\n");
	fflush(stdout);
	for (i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, rounds_of, NULL))
			return 2;
	pthread_sigmask(SIG_UNBLOCK, &term, NULL);
	for (i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
	if (!bad)
		printf("ok %ld\n", rounds);
	return bad != 0;
}
