/*
 * The step victims' own account of their calls, a line each on standard output, the oracle of the recorder:
 *
 *	E TID FUNCTION name=value ...	it was entered
 *	R TID FUNCTION value		it returns, or its callee that took its place has returned ("-":
 * nothing) X TID FUNCTION how		it has ended in another way, as the log names it O TID FUNCTION
 * name=value ... = value	a function that is stepped over was called and has returned
 *
 * Written by dprintf(), which the tests leave out: nothing is buffered, whatever happens next.
 */
#ifndef STEP_ACCOUNT_H
#define STEP_ACCOUNT_H

#include <stdio.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, noipa))

#define ENTERED(name, ...)                                    \
	do {                                                  \
		dprintf(1, "E %d %s", (int)gettid(), (name)); \
		dprintf(1, " " __VA_ARGS__);                  \
		dprintf(1, "\n");                             \
	} while (0)

#define RETURNS(name, value) dprintf(1, "R %d %s %ld\n", (int)gettid(), (name), (long)(value))
#define RETURNS_NOTHING(name) dprintf(1, "R %d %s -\n", (int)gettid(), (name))
#define ENDS(name, how) dprintf(1, "X %d %s %s\n", (int)gettid(), (name), (how))
#define OVER(name, value, ...)                                \
	do {                                                  \
		dprintf(1, "O %d %s", (int)gettid(), (name)); \
		dprintf(1, " " __VA_ARGS__);                  \
		dprintf(1, " = %ld\n", (long)(value));        \
	} while (0)

#endif
