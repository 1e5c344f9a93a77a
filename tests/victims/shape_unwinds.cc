// build: g++ -O2 -g
/*
 * shape_unwinds - writes `flag` while an exception is on its way: in a destructor, in a handler, and in a
 * function that the handler calls. "pid N"; each line: "ok".
 */
#include <cstdio>
#include <unistd.h>

volatile int flag;
static volatile int zero;

struct Guard {
	__attribute__((noinline)) ~Guard();
};

Guard::~Guard()
{
	flag = 1;
}

__attribute__((noinline)) static void thrower(int n)
{
	if (!zero)
		throw n;
}

__attribute__((noinline)) static int middle(int n)
{
	volatile char frame[200];
	Guard guard;

	frame[n] = 0;
	thrower(n);
	return frame[n];
}

__attribute__((noinline)) static void in_flight(int n)
{
	flag = n;
	zero = 0;
}

__attribute__((noinline)) static int outer(int n)
{
	try {
		return middle(n) + 1;
	} catch (int caught) {
		flag = 2;
		in_flight(caught);
	}
	return zero;
}

int main()
{
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		outer(3);
		printf("ok\n");
	}
	return zero;
}
