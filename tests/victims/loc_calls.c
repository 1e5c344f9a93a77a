/* Functions to be named: inlined two deep, split into hot and cold parts, static, and called through a
 * pointer. */
#include <stdlib.h>

#include "loc_show.h"

volatile int sink;
int table[4] = { 1, 2, 3, 4 };

static inline __attribute__((always_inline)) void innermost(int x)
{
	sink += x; /* line of innermost */
	__asm__ volatile("innermost_here: nop\n\t.globl innermost_here" ::: "memory");
}

static inline __attribute__((always_inline)) void middle(int x)
{
	innermost(x + 1); /* line of middle */
}

__attribute__((noinline)) void outer(int x)
{
	middle(x * 2); /* line of outer */
	sink++;
}

__attribute__((noinline, cold)) static void unlikely(void)
{
	sink = 9;
	abort();
}

extern char innermost_here[];

int main(int argc, char **argv)
{
	(void)argv;
	if (argc == 77)
		unlikely();
	outer(argc);
	SHOW_AS("outer", outer);
	SHOW_AS("innermost_here", *innermost_here);
	SHOW_AS("main", main);
	SHOW_AS("table[1]", table[1]);
	show_done();
	return 0;
}
