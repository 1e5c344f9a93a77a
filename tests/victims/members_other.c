/* Has a static variable of the name of one in members.c, and of another type. */
#include <stdio.h>

#include "members.h"

static struct {
	float alone;
} twin;

__attribute__((noinline)) void set_theirs(void)
{
	twin.alone = 0.5f;
}

void say_theirs(void)
{
	printf("set_theirs twin.alone %g\n", (double)twin.alone);
}
