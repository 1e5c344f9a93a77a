/*
 * wait_futex - what a thread that sleeps in futex(2) waits for: glibc's and musl's locks by their own words, told apart by
 * the functions at the wait.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_WAIT_FUTEX_H
#define WATCHCTL_FLOW_EXPLAIN_WAIT_FUTEX_H

#include "watchctl/flow/explain/look.h"
#include "watchctl/flow/explain/wait.h"

/* @t, of @p, is in futex(2) or futex_waitv(2). An owner is named only where the code at the wait, the kernel, or the lock's kind word shows it. */
void wait_futex(struct look *l, struct look_process *p, struct look_thread *t, struct wait *ret);

#endif
