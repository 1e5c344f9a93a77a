/* The victims of test_locate print, for each expression, what the compiler knows: the oracle. */
#ifndef LOC_SHOW_H
#define LOC_SHOW_H

#include <stdio.h>
#include <unistd.h>

#define SHOW_AS(text, lvalue) printf("%s\t%#lx\t%zu\n", text, (unsigned long)&(lvalue), sizeof(lvalue))
#define SHOW(lvalue) SHOW_AS(#lvalue, lvalue)

/* Says that everything is shown, then waits for its stdin to be closed. */
static inline void show_done(void)
{
	char c;

	puts("done");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
}

#endif
