/* A second file, for functions of the same name. */
#include <stdio.h>

extern volatile int sink;
void code2_show(void);

static __attribute__((noinline)) void twin(void)
{
	sink -= 2;
}

void code2_show(void)
{
	twin();
	printf("at code2.c:twin\t%#lx\t1\n", (unsigned long)twin);
}
