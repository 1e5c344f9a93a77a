/* build: gcc -O1 -g */
/* build parting_O2: gcc -O2 -g */
/* build parting_other: gcc -O1 -g -DOTHER */
/*
 * Runs that part at known branches: MODE says which. A comment "at: NAME" marks the line of each.
 * usage: MODE=n parting
 */
#include <stdio.h>
#include <stdlib.h>

#define APART __attribute__((noinline, noclone))
#define INLINED static inline __attribute__((always_inline))

static volatile int mode;
static volatile int sink;

APART void left(int n)
{
	sink += n;
}

APART void right(int n)
{
	sink -= n;
}

APART void before(void)
{
	sink = 1;
}

APART void plain(void)
{
	before();
	if (mode == 1) /* at: plain */
		left(1);
	else
		right(1);
}

INLINED int is_chosen(int n)
{
#ifdef OTHER
	if (n == 200)
		return 1;
#else
	if (n == 2) /* at: chosen */
		return 1;
#endif
	before();
	return n == 3;
}

APART void inlined(void)
{
	before();
	if (sink == 5)
		return;
	if (is_chosen(mode))
		left(2);
	right(2);
}

APART void table(void)
{
	before();
	switch (mode) { /* at: table */
	case 30:
		left(30);
		break;
	case 31:
		before();
		break;
	case 32:
		right(32);
		left(32);
		break;
	case 33:
		left(33);
		right(33);
		break;
	case 34:
		before();
		before();
		break;
	default:
		right(3);
	}
}

INLINED int scaled(int n)
{
	return mode == 4 ? n * 3 : n * 2;
}

APART void computed(void)
{
	before();
	left(scaled(7));
}

APART void early(void)
{
	if (mode == 5) /* at: early */
		return;
	right(5);
}

INLINED int weighed(int n)
{
	return mode == 6 ? n * 5 : n * 7;
}

APART int result(void)
{
	before();
	return weighed(3);
}

__attribute__((cold)) APART void never(void)
{
	abort();
}

/* With -O2 the call is made in a part of the function that lies elsewhere. */
APART void guarded(void)
{
	before();
	if (mode == 7) /* at: guarded */
		return;
	if (mode == 99)
		never();
	right(7);
}

APART void watched(void)
{
	guarded();
	plain();
	inlined();
	table();
	computed();
	early();
	left(result());
}

int main(void)
{
	const char *text = getenv("MODE");

	mode = text ? atoi(text) : 0;
	watched();
	return 0;
}
