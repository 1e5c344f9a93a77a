/* build: gcc -O1 -g */
/*
 * hot - a small function has nearly all of the calls. It says how many there were of each function:
 *
 *	hot ROUNDS [from N] [sleep MS]	ROUNDS rounds of 1000 calls of tiny(), and 3 of mix(); from round N on mix() gets
 *					another number; at the end it sleeps
 *
 *	tiny 300000
 *	mix 900
 *	turn 300
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TINY 1000
#define MIX 3

static unsigned long ntiny, nmix, nturn;
static long other_from = -1;

__attribute__((noipa)) int tiny(int x)
{
	ntiny++;
	return x * 3 + 1;
}

__attribute__((noipa)) int mix(int turn, int x)
{
	nmix++;
	return turn ^ x;
}

__attribute__((noipa)) int turn(int n)
{
	int i, sum = 0;

	nturn++;
	for (i = 0; i < TINY; i++)
		sum += tiny(i);
	for (i = 0; i < MIX; i++)
		sum += mix(n, other_from >= 0 && n >= other_from ? i + 7 : i);
	return sum;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 300, sleep_ms = 0, i, sum = 0;

	for (i = 2; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "from"))
			other_from = atol(argv[i + 1]);
		else
			sleep_ms = atol(argv[i + 1]);
	}
	for (i = 0; i < rounds; i++)
		sum += turn((int)i);
	usleep((useconds_t)sleep_ms * 1000);
	printf("tiny %lu\nmix %lu\nturn %lu\n", ntiny, nmix, nturn);
	return sum == 42;
}
