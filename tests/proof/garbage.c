/*
 * Preloaded: fills the stack that the program is about to use with small numbers that begin at the first
 * character of $GARBAGE. What it does is the same in every run.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

static int garbage;
static int (*the_main)(int, char **, char **);

static __attribute__((noinline)) void fill(void)
{
	volatile int words[8192];

	for (int i = 0; i < 8192; i++)
		words[i] = garbage + i % 5;
}

static int main_on_garbage(int argc, char **argv, char **env)
{
	for (int i = 0; env[i]; i++)
		if (strncmp(env[i], "GARBAGE=", 8) == 0)
			garbage = env[i][8];
	fill();
	return the_main(argc, argv, env);
}

int __libc_start_main(int (*m)(int, char **, char **), int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*end)(void), void *stack)
{
	__typeof__(&__libc_start_main) real = dlsym(RTLD_NEXT, "__libc_start_main");

	the_main = m;
	return real(main_on_garbage, argc, argv, init, fini, end, stack);
}
