/*
 * flow_events - `flow_events write|turns CALLS ROUNDS`: rounds of system events, each of which is ended by a line: the nanoseconds of one.
 *
 *	write	a thread writes a byte to a pipe and reads it: an event is the return of one of the two calls
 *	turns	two processes on one CPU send a byte to and fro: an event is a waking, a switch, or the return of a call
 */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TURN_EVENTS 8 /* of a byte to and fro: two each of wakings, waits, writes, reads */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void give(int fd)
{
	if (write(fd, "x", 1) != 1)
		_exit(1);
}

static int take(int fd)
{
	char c;

	return read(fd, &c, 1) == 1;
}

static void write_and_read(int n, const int to[2])
{
	for (int i = 0; i < n / 2; i++) {
		give(to[1]);
		take(to[0]);
	}
}

static void turns(int n, const int to[2], const int from[2])
{
	for (int i = 0; i < n / TURN_EVENTS; i++) {
		give(to[1]);
		take(from[0]);
	}
}

static void echo(const int to[2], const int from[2])
{
	close(to[1]);
	while (take(to[0]))
		give(from[1]);
	_exit(0);
}

int main(int argc, char **argv)
{
	const int is_turns = argc > 1 && strcmp(argv[1], "turns") == 0;
	const int n = argc > 2 ? atoi(argv[2]) : 0, rounds = argc > 3 ? atoi(argv[3]) : 0;
	int to[2], from[2];

	if (n < TURN_EVENTS || pipe(to) != 0 || pipe(from) != 0)
		return 2;
	if (is_turns) {
		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET(0, &one);
		sched_setaffinity(0, sizeof(one), &one);
		if (fork() == 0)
			echo(to, from);
		close(to[0]);
	}
	for (int i = 0; i < rounds; i++) {
		const uint64_t begin = now_ns();

		if (is_turns)
			turns(n, to, from);
		else
			write_and_read(n, to);
		printf("%.2f\n", (double)(now_ns() - begin) / n);
		fflush(stdout);
	}
	close(to[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
