/*
 * memory - whether an allocation of ours has failed. The programs are linked with --wrap for every function
 * of libc that allocates, so that none is missed: what a reader or a view leaves out for want of memory it
 * need not report itself, because the program says at its end that it may be incomplete, and does not exit
 * with 0.
 */
#ifndef WATCHCTL_BASE_MEMORY_H
#define WATCHCTL_BASE_MEMORY_H

#include <stdbool.h>

/* In this process, since it began; in a forked one also what failed before the fork. */
bool memory_ran_out(void);

#endif
