/* build: gcc -O1 -g */
/*
 * own_signals - a program whose use of signals only begins while it is watched. It does what it is told, a
 * line at a time: "pid N" first, "ok TEXT" after each line.
 *
 *	write N		so many writes to `flag`, half a millisecond apart
 *	loop N		an event loop takes all signals by a signalfd, and writes to `flag` once a round, N
 *			rounds of 10 ms; it ends early at 1,000,000 rounds; tells how many rounds there were, and
 *			signals
 *	sigwait N	the same with sigtimedwait(); the signals stay blocked
 *	bursts N	three writes with all signals blocked, N times
 *	lets N		a loop that lets signals in by ppoll() alone, and writes once a round, N times
 *	blocked N	so many writes with all signals blocked; they stay so
 *	default		every signal has its default action
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define ROUND_MS 10
#define ROUNDS_MOST 1000000

volatile long flag;

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void write_slowly(long n)
{
	for (; n > 0; n--) {
		flag = flag + 1;
		usleep(500);
	}
	printf("ok\n");
}

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
}

static void loop(long n)
{
	long end = now_ms() + n * ROUND_MS, rounds = 0, signals = 0;
	struct epoll_event e = { .events = EPOLLIN };
	struct signalfd_siginfo info;
	sigset_t all;
	int fd, poll;

	block_all();
	sigfillset(&all);
	fd = signalfd(-1, &all, SFD_NONBLOCK);
	poll = epoll_create1(0);
	epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e);
	while (now_ms() < end && rounds < ROUNDS_MOST) {
		epoll_wait(poll, &e, 1, ROUND_MS);
		while (read(fd, &info, sizeof(info)) > 0)
			signals++;
		flag = flag + 1;
		rounds++;
	}
	printf("ok %ld %ld\n", rounds, signals);
}

static void wait_for_signals(long n)
{
	const struct timespec round = { .tv_nsec = ROUND_MS * 1000000 };
	long end = now_ms() + n * ROUND_MS, rounds = 0, signals = 0;
	sigset_t all;

	block_all();
	sigfillset(&all);
	while (now_ms() < end && rounds < ROUNDS_MOST) {
		signals += sigtimedwait(&all, NULL, &round) > 0;
		flag = flag + 1;
		rounds++;
	}
	printf("ok %ld %ld\n", rounds, signals);
}

static void let_signals_in(long n)
{
	const struct timespec round = { .tv_nsec = 1000000 };
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	for (; n > 0; n--) {
		flag = flag + 1;
		ppoll(NULL, 0, &round, &before);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	printf("ok\n");
}

static void write_in_bursts(long n)
{
	sigset_t all, before;
	int i;

	sigfillset(&all);
	for (; n > 0; n--) {
		sigprocmask(SIG_BLOCK, &all, &before);
		for (i = 0; i < 3; i++)
			flag = flag + 1;
		sigprocmask(SIG_SETMASK, &before, NULL);
		usleep(1000);
	}
	printf("ok\n");
}

static void set_defaults(void)
{
	int i;

	for (i = 1; i < 32; i++)
		signal(i, SIG_DFL);
	printf("ok\n");
}

static void obey(const char *verb, long n)
{
	if (!strcmp(verb, "loop")) {
		loop(n);
	} else if (!strcmp(verb, "sigwait")) {
		wait_for_signals(n);
	} else if (!strcmp(verb, "lets")) {
		let_signals_in(n);
	} else if (!strcmp(verb, "bursts")) {
		write_in_bursts(n);
	} else if (!strcmp(verb, "default")) {
		set_defaults();
	} else {
		if (!strcmp(verb, "blocked"))
			block_all();
		write_slowly(n);
	}
}

int main(void)
{
	char line[64], verb[32];
	long n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		n = 0;
		if (sscanf(line, "%31s %ld", verb, &n) >= 1)
			obey(verb, n);
	}
	return 0;
}
