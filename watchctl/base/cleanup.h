/*
 * cleanup - locals that own something say so.
 *
 *	scoped(freep) char *name = strdup(x);	released at the end of the block
 *	return take_ptr(name);			unless it is taken
 */
#ifndef WATCHCTL_BASE_CLEANUP_H
#define WATCHCTL_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define scoped(fn) __attribute__((cleanup(fn)))

#define take_ptr(p)                           \
	({                                    \
		__auto_type taken_ptr_ = (p); \
		(p) = NULL;                   \
		taken_ptr_;                   \
	})

#define take_fd(fd)                   \
	({                            \
		int taken_fd_ = (fd); \
		(fd) = -1;            \
		taken_fd_;            \
	})

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

#endif
