/*
 * futex_owner - who holds a lock whose word names a thread: glibc's and musl's mutexes, glibc's rwlocks held for writing, PI
 * futexes; and what it means when no thread of the process has that number.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_FUTEX_OWNER_H
#define WATCHCTL_FLOW_EXPLAIN_FUTEX_OWNER_H

#include "watchctl/flow/explain/futex_site.h"

/* struct __pthread_mutex_s of glibc, x86-64. */
struct glibc_mutex {
	uint32_t lock, count, owner, nusers, kind;
};

#define GLIBC_MUTEX_SIZE 40u
/* Of kind. */
#define GLIBC_MUTEX_RECURSIVE 1u
#define GLIBC_MUTEX_ROBUST 16u
#define GLIBC_MUTEX_PROTECT 64u

/* False: it cannot be read, or it is no mutex: its kind has bits that glibc does not know, or another word is out of range. */
bool glibc_mutex_read(const struct memory_view *mem, uint64_t addr, struct glibc_mutex *ret);

/* The number of the thread that holds it; 0: none, or it is being locked or unlocked. */
uint32_t glibc_mutex_owner(const struct glibc_mutex *m);

/* @f waits for the mutex at its uaddr, of glibc: fills in all but what and object. */
void futex_owner_glibc(struct futex_call *f);

/* ... of musl. False: its words are not those of a mutex of musl's, nothing is filled in. */
bool futex_owner_musl(struct futex_call *f);

/* glibc's rwlock at @base. False: it is not held for writing, or cannot be read. */
bool futex_owner_rwlock(struct futex_call *f, uint64_t base);

/* The kernel hands the lock word at @addr to the waiters: FUTEX_LOCK_PI. */
void futex_owner_pi(struct futex_call *f, uint64_t addr);

#endif
