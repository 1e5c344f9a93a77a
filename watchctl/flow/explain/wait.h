/*
 * wait - what a thread waits for, and who can end that. What fills it in: wait_futex, wait_descriptor, wait_process.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_WAIT_H
#define WATCHCTL_FLOW_EXPLAIN_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WAIT_TEXT 320

enum wait_kind {
	WAIT_UNKNOWN,	/* in a system call that is not known here */
	WAIT_RUNS,	/* it does not wait: it runs, or waits for a CPU */
	WAIT_LOCK,	/* mutex, rwlock, a lock of libc's or the loader's */
	WAIT_CONDITION, /* condition variable, semaphore, barrier: no owner by its nature */
	WAIT_THREAD,	/* the end of another thread */
	WAIT_CHILD,	/* the end of a child process */
	WAIT_PEER,	/* bytes or room in a pipe, FIFO, socket, terminal */
	WAIT_EVENTS,	/* poll, select, epoll */
	WAIT_FILE_LOCK, /* flock, fcntl, lease */
	WAIT_TIME,	/* a sleep */
	WAIT_SIGNAL,	/* pause, sigwait */
	WAIT_STOPPED,	/* by SIGSTOP and its like, or by a debugger */
	WAIT_KERNEL,	/* D state: a device, a file system, a lock of the kernel's */
};

/* By whom it can be ended. */
enum wait_ender {
	ENDER_UNKNOWN, /* somebody may; it cannot be known who. @evidence says why not */
	ENDER_THREADS, /* one of @whom, and nobody else */
	ENDER_SOME,    /* one of @whom, but others may as well */
	ENDER_NOBODY,  /* there is nobody who could; @evidence says why */
	ENDER_OUTSIDE, /* another machine, a user, a device; @evidence says which */
	ENDER_TIME,    /* it ends by itself */
};

/* A thread or process that could end a wait. */
struct waited {
	pid_t pid;
	pid_t tid;    /* 0: any thread of that process */
	bool guessed; /* nothing names it, but it may be; @why says what speaks for it */
	char why[160];
};

/* Zero-initialised is WAIT_UNKNOWN, ENDER_UNKNOWN. */
struct wait {
	enum wait_kind kind;
	enum wait_ender ender;
	bool has_limit; /* the call has a time limit: it will go on by itself, whatever happens */
	bool idle;	/* of WAIT_PEER: it waits for whoever comes, as accept does */
	uint64_t
		object; /* what tells two waits for the same thing: the address of a lock, an inode; 0: none */
	/* Without a verb, as it follows "waits for": "the mutex table_lock", "a byte from the pipe 1234 (descriptor 3)". */
	char what[WAIT_TEXT];
	/* A clause, lower case, no full stop: "its owner word is 1240, and the wait is in pthread_mutex_lock". */
	char evidence[WAIT_TEXT];
	struct waited *whom; /* owned */
	size_t n, cap;
};

/* Adds one, unless it is there. @why is copied. False: no memory. */
bool wait_add(struct wait *w, pid_t pid, pid_t tid, bool guessed, const char *why);

void wait_deinit(struct wait *w); /* accepts zeros */

#endif
