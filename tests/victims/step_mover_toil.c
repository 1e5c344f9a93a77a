/* build: gcc -O2 -g -pthread */
/*
 * step_mover_toil - threads that call functions all the time and check what comes back: recursion, a callback
 * out of qsort, library calls, signal handlers, forked children. "pid N"; each line on standard input is
 * answered with "ok ROUNDS ERRORS", the rounds of the thread that has done least.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define KINDS 4

static atomic_long rounds[KINDS], errors, alarms;

NOINLINE int sum_to(int n)
{
	int r = n ? n + sum_to(n - 1) : 0;

	__asm__ volatile("" ::: "memory");
	return r;
}

NOINLINE int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

NOINLINE int sorts(unsigned int seed)
{
	int v[24], i, wrong = 0;

	for (i = 0; i < 24; i++)
		v[i] = rand_r(&seed) % 1000;
	qsort(v, 24, sizeof(v[0]), compare);
	for (i = 1; i < 24; i++)
		wrong += v[i - 1] > v[i];
	return wrong;
}

NOINLINE int prints(int n)
{
	char text[64], back[64];

	snprintf(text, sizeof(text), "%d and %.3f", n, n / 8.0);
	strcpy(back, text);
	return strcmp(text, back) != 0 || atoi(back) != n;
}

NOINLINE int forks(int n)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(sum_to(n) == n * (n + 1) / 2 ? 5 : 6);
	if (waitpid(pid, &status, 0) == pid && status == 5 << 8)
		return 0;
	fprintf(stderr, "step_mover_toil: child %d: status %#x\n", pid, (unsigned int)status);
	return 1;
}

NOINLINE void on_alarm(int sig)
{
	alarms += sig == SIGALRM && sum_to(3) == 6;
}

static void *toil(void *arg)
{
	long kind = (long)arg, i;

	for (i = 0;; i++) {
		int wrong = 0;

		if (kind == 0)
			wrong = sum_to(20) != 210;
		else if (kind == 1)
			wrong = sorts((unsigned int)i);
		else if (kind == 2)
			wrong = prints((int)(i & 0xffff));
		else
			wrong = forks((int)(i % 20));
		if (wrong)
			fprintf(stderr, "step_mover_toil: kind %ld, round %ld: %d wrong\n", kind, i, wrong);
		errors += wrong;
		rounds[kind]++;
		usleep(kind == 3 ? 5000 : 0);
	}
	return NULL;
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 10000 }, { 0, 10000 } };
	char line[64];
	pthread_t t;
	long i;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 0; i < KINDS; i++)
		pthread_create(&t, NULL, toil, (void *)i);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		long least = rounds[0];

		for (i = 1; i < KINDS; i++)
			if (rounds[i] < least)
				least = rounds[i];
		printf("ok %ld %ld\n", least, (long)errors);
	}
	return 0;
}
