/*
 * futex_guess - threads that may hold a lock which does not store its owner: by the addresses on their stacks, and the
 * functions that they are in. All of them are added as guessed, with why.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_FUTEX_GUESS_H
#define WATCHCTL_FLOW_EXPLAIN_FUTEX_GUESS_H

#include "watchctl/flow/explain/futex_site.h"

/* Other threads, not waiting in [addr, addr + len) themselves, whose stack holds @addr. */
void futex_guess_by_address(struct futex_call *f, uint64_t addr, uint64_t len);

/*
 * @f itself holds the rwlock at @base for reading, as the frames outside of its caller's have its address on the stack, too.
 * For one that waits in rdlock also a thread must wait in wrlock, or it would get it.
 */
void futex_guess_itself_reads(struct futex_call *f, uint64_t base, uint64_t len);

/* @f waits for a once_flag or guard at @addr: the threads that are in its initialiser, itself among them. */
void futex_guess_initialiser(struct futex_call *f, uint64_t addr);

/* Other threads that are in malloc and the like but do not wait for the lock at uaddr. How many. */
size_t futex_guess_in_malloc(struct futex_call *f);

/* The one thread that runs Python code and does not wait for the interpreter lock, if there is exactly one. */
void futex_guess_python(struct futex_call *f);

/*
 * @t waits for Python's interpreter lock: in Python's functions for it or, where they have no names, with a time limit at
 * a condition variable in _PyRuntime.
 */
bool futex_waits_for_python(const struct look_process *p, const struct look_thread *t,
			    const struct futex_site *site);

/*
 * @f waits in pthread_cond_wait(): *cond and *mutex are its arguments, by what it keeps on its stack. False: not
 * found.
 */
bool futex_guess_condition(struct futex_call *f, uint64_t *cond, uint64_t *mutex);

#endif
