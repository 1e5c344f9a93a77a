/* build: gcc -O2 -g */
/* build same_places_fp: gcc -O1 -g -fno-omit-frame-pointer */
/*
 * One instruction writes `route`, always with the same stack pointer, and by ways that differ: the value says
 *by which. Digits of base 3: whose call it was at each of three levels; then which of two functions with an
 * array of a length of its own was there ("alloca": frames are found by rbp). What earlier calls left on the
 * stack is the return addresses of the other ways.
 *
 *	walk N	N writes, each way several times in a row, in an order drawn by lot
 */
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile long route;

static unsigned int seed = 1;

static unsigned int draw(unsigned int n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

__attribute__((noinline)) void leaf(long way)
{
	route = way;
	__asm__ volatile("" ::: "memory");
}

#define LEVEL(name, next)                                        \
	__attribute__((noinline)) void name(long way, long rest) \
	{                                                        \
		next;                                            \
		__asm__ volatile("" ::: "memory");               \
	}

typedef void (*level)(long way, long rest);

LEVEL(low_0, leaf(way + 0 * rest))
LEVEL(low_1, leaf(way + 0 * rest))
LEVEL(low_2, leaf(way + 0 * rest))
static const level lows[] = { low_0, low_1, low_2 };
LEVEL(mid_0, lows[rest % 3](way, rest / 3))
LEVEL(mid_1, lows[rest % 3](way, rest / 3))
LEVEL(mid_2, lows[rest % 3](way, rest / 3))
static const level mids[] = { mid_0, mid_1, mid_2 };
LEVEL(high_0, mids[rest % 3](way, rest / 3))
LEVEL(high_1, mids[rest % 3](way, rest / 3))
LEVEL(high_2, mids[rest % 3](way, rest / 3))
static const level highs[] = { high_0, high_1, high_2 };

/* It takes what its caller leaves of 256 bytes, so that all below is at the same place. */
__attribute__((noinline)) void inner(long way, long rest, size_t len)
{
	volatile char *a = alloca(len);

	a[0] = 0;
	highs[rest % 3](way, rest / 3);
	a[len - 1] = 0;
}

#define OUTER(name)                                                          \
	__attribute__((noinline)) void name(long way, long rest, size_t len) \
	{                                                                    \
		volatile char *a = alloca(len);                              \
                                                                             \
		a[0] = 0;                                                    \
		inner(way, rest, 256 - len);                                 \
		a[len - 1] = 0;                                              \
	}

OUTER(outer_0)
OUTER(outer_1)

static void walk(long way)
{
	if (way / 27 % 2)
		outer_1(way, way, 64);
	else
		outer_0(way, way, 192);
}

int main(void)
{
	char line[64];
	long n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		for (n = strtol(line + strcspn(line, " "), NULL, 10); n > 0;) {
			long way = draw(54);
			unsigned int times = 1 + draw(4);

			while (times-- && n-- > 0)
				walk(way);
		}
		printf("ok\n");
	}
	return 0;
}
