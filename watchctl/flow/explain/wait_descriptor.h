/*
 * wait_descriptor - what a thread waits for that is in a system call on a descriptor: what that is, and which processes of
 * this machine have its other end.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_WAIT_DESCRIPTOR_H
#define WATCHCTL_FLOW_EXPLAIN_WAIT_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/code/memory_view.h"
#include "watchctl/flow/explain/wait.h"

/* The descriptors of all processes that may be looked at, by what they are: read once, when first asked. */
struct descriptors;

struct descriptors *descriptors_new(void); /* NULL: no memory */
void descriptors_free(struct descriptors *d);

/*
 * Thread @tid of @pid is in system call @number with @arg; @mem reads its memory. False: that call is not about descriptors; *ret is
 * untouched. Else *ret is filled in.
 */
bool wait_descriptor(struct descriptors *d, pid_t pid, pid_t tid, const struct memory_view *mem, long number,
		     const uint64_t arg[6], struct wait *ret);

#endif
