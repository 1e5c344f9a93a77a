/*
 * followed - who a record is of: processes (the target, and children of it that are followed) and threads,
 * by the ids that they have in the target's pid namespace, reported to the sink the first time.
 *
 * A forked child starts with its parent's modules, so what is known about the parent's code is true for it.
 * One that maps other code later is found out: its stacks end where they reach that code.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_FOLLOWED_H
#define WATCHCTL_ENGINE_INTAKE_FOLLOWED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/trace/event.h"

struct followed_process {
	pid_t pid;
	bool below;		    /* its ids are those of a pid namespace below the target's */
	uint64_t looked_ns;	    /* at its modules */
	uint64_t searched_ns;	    /* ... for one that an address is in */
	struct module_list modules; /* of a child */
};

struct followed {
	pid_t pid; /* the target */
	char name[17];
	struct event_sink sink;
	struct map64 processes;	  /* id in the namespace -> struct followed_process, owned */
	struct map64 threads;	  /* process and thread ids in the namespace -> struct thread_id, owned */
	struct map64 names;	  /* thread id, ours -> its name, owned: as reported, for when it is gone */
	uint32_t named;		  /* how often a name has come into @names, or changed there */
	struct map64 reported;	  /* processes that were reported */
	struct proc_namespace ns; /* of the target */
	pid_t inner;		  /* the target's id there */
	bool alone;		  /* no children are followed: everything is the target's */
	/*
	 * Who says which process a record is of can lie: whether @pid is a child that is followed, or one
	 * that has gone. What it says no to is the target's own. NULL: it does not lie, the kernel said it.
	 */
	bool (*is_child)(void *ctx, pid_t pid);
	/*
	 * Who says it may also know no other id than its own in a pid namespace below the target's: the
	 * process with that id there, 0: there is none. NULL: it says the id in the target's.
	 */
	pid_t (*find_below)(void *ctx, pid_t inner);
	void *ctx; /* of both */
};

/*
 * Threads and processes come and go, and a target may name some that never were: where there are too many,
 * all are forgotten, and re-emitted when they are heard of again. Nothing that was given out is valid then.
 */
void followed_bound(struct followed *f);

void followed_init(struct followed *f, pid_t pid, struct event_sink sink);
void followed_deinit(struct followed *f); /* accepts zero-initialised */

/*
 * What is reported threads, of whatever process, as they are born and take other names: known of those that
 * have ended by the time they are heard of.
 */
void followed_other_program(struct followed *f); /* the process has executed one */
void followed_hears(struct followed *f);	 /* all that happens from now on will be reported */
void followed_born(struct followed *f, pid_t tid, pid_t parent_tid);
void followed_named(struct followed *f, pid_t tid, const char *name);

/* Whether thread @tid of @pid is the target's, or its birth was reported. */
bool followed_is_ours(const struct followed *f, pid_t pid, pid_t tid);

/* Reports of child @pid, unless that was done. */
struct wc_error *followed_report(struct followed *f, pid_t pid, uint64_t time_ns);

/* @inner: 0 for the target itself. NULL: no memory, or an error of the sink (*err). */
struct followed_process *followed_process(struct followed *f, pid_t inner, uint64_t now_ns,
					  struct wc_error **err);

/* The thread's id as we number it. */
struct wc_error *followed_thread(struct followed *f, const struct followed_process *p, pid_t inner,
				 uint64_t now_ns, pid_t *ret);

/*
 * How many of the @n frames of a child lie in code that it has in common with the target, whose modules are
 * @modules. Looks at the child's modules again from time to time.
 */
unsigned int followed_frames(struct followed_process *p, const struct module_list *modules,
			     const uint64_t *frame, unsigned int n, uint64_t now_ns);

/* As we number it, of a thread of @pid that has the id @inner in its namespace. */
pid_t followed_global_tid(pid_t pid, pid_t inner);

#endif
