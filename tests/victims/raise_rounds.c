/* build: gcc -O1 -g */
/*
 * Sends itself one SIGUSR1 after another, until it gets a SIGTERM. Prints "ready", and at the end "ok", if each has come,
 * or how many have.
 */
#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t got, over;
static long rounds;

/* Its first instruction is one that runs from a copy while there is a breakpoint on it. */
__attribute__((noinline)) static void count_round(void)
{
	__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
}

static void on_signal(int sig)
{
	if (sig == SIGTERM)
		over = 1;
	else
		got++;
}

__attribute__((noinline)) static long send_one(long sent)
{
	count_round();
	raise(SIGUSR1);
	return sent + 1;
}

int main(void)
{
	long sent = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGUSR1, on_signal);
	signal(SIGTERM, on_signal);
	printf("ready\n");
	while (!over)
		sent = send_one(sent);
	if (got == sent)
		printf("ok\n");
	else
		printf("%ld sent, %ld came\n", sent, (long)got);
	return got != sent;
}
