/*
 * forked - the copies of a handler in processes that were forked while it was placed: finds them, and takes
 * the handler out until none is left.
 *
 * A child has its parent's memory and SIGTRAP action as they were at the fork, or only a part of them if it was
 * forked while the handler was being placed or removed. It may fork others, change its user, and outlive its
 * parent. It is recognised by the contents of its memory at the handler's address, which was chosen at random.
 */
#ifndef WATCHCTL_TARGET_INJECT_FORKED_H
#define WATCHCTL_TARGET_INJECT_FORKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/inject.h"
#include "watchctl/target/proc/proc.h"

struct forked {
	struct injection inj; /* what was placed; its process may have ended, and may keep it */
	uint64_t cookie;
	struct gadgets gadgets; /* of the last one looked at: mostly those of the next, too */
	/* When it was in place, and when it was to be taken out, as task_ticks_now() says: children born
	 * before the one, or after the other, may have the memory without the action. 0: not known. */
	uint64_t placed, withdrawn;
	bool kept;	  /* the process where it was placed has it still: it may fork more */
	bool has_watches; /* children are watched, too: hits of theirs may be under way */
};

bool forked_has(const struct forked *f, pid_t pid);

struct forked_search {
	struct thread_ids found;
	struct thread_ids unseen; /* children made meanwhile that we are not permitted to look at */
	bool no_memory;		  /* for all of them */
	/* The last number that had been given to anybody, at its beginning and at its end; 0: not known. */
	pid_t first_pid, last_pid;
};

/* All processes but that in which it was placed, and, while that has it, who shares its memory. */
void forked_look(const struct forked *f, struct forked_search *ret);
void forked_search_deinit(struct forked_search *s);

/*
 * One that forks another one and ends, while a look goes on, may not be seen. But numbers are given in
 * ascending order, and that is the order of a look: the other one is met later in it, or, where the numbers
 * had begun anew since the first one was made, in the next. So two looks that find nobody prove that there is
 * nobody, if the numbers did not begin anew in between.
 */
bool forked_is_proof(const struct forked_search *before, const struct forked_search *now);

struct forked_left {
	pid_t pid;
	struct wc_error *why; /* owned */
};

struct forked_report {
	size_t cleared;
	struct forked_left *left;
	size_t nleft, left_cap;
	bool gave_up; /* some were still being forked when the time was over */
};

/* Until there are none; where f->kept, those that there are now. Takes seconds at most. */
void forked_leave(struct forked *f, struct forked_report *ret);
void forked_report_deinit(struct forked_report *r);

/* What could not be placed as a whole is taken out of whoever was forked meanwhile. */
void forked_undo(const struct injection *tried, uint64_t cookie);

/*
 * NULL: nothing is left in any of them. Else one sentence about all, with the reason for the first; @parent:
 * whose children they are. Takes what is in *r.
 */
struct wc_error *forked_report_error(struct forked_report *r, pid_t parent);

/* forked_leave.c: of one process; @others: those that may share its memory, itself among them or not. */
struct wc_error *forked_leave_one(struct forked *f, pid_t pid, const struct thread_ids *others);

#endif
