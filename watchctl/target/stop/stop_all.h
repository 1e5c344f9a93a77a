/*
 * stop_all - every thread that runs in the memory of a process, stopped at the same time: its own, and those of processes that
 * share it (a child of vfork()). When we are killed, all of them go on as they are.
 */
#ifndef WATCHCTL_TARGET_STOP_STOP_ALL_H
#define WATCHCTL_TARGET_STOP_STOP_ALL_H

#include "watchctl/base/urgent.h"
#include "watchctl/target/stop/tracee.h"

struct stop_all {
	struct tracee *v;
	size_t n, cap;
	struct tracee *held; /* one of them is not ours to let go: it is @v[0] */
	struct urgent urgent;
	uint64_t began_ns;
};

/*
 * @held: a thread of it that we hold already, or NULL. A thread that cannot be stopped for a moment is waited for, with the others
 * running, for some seconds. WC_ETARGET: it ended; WC_EPERM: not permitted, or somebody else traces it; WC_ENOTSUP: a thread does
 * not stop. Nothing is stopped then.
 */
struct wc_error *stop_all(pid_t pid, struct tracee *held, struct stop_all *ret);

/* Lets all go on. Returns how long they stood, in ns; accepts zeros. */
uint64_t stop_all_release(struct stop_all *s);

/*
 * The thread goes on at @rip, whatever becomes of us; @rcx (may be NULL): with that in rcx. A system call that it is in ends, or
 * starts again, there. False: it has ended.
 */
bool tracee_move(struct tracee *t, uint64_t rip, const uint64_t *rcx);

/* Whether it is in a system call, which it will finish or start again, and whose instruction is the one before its rip. */
bool tracee_in_syscall(const struct tracee *t);

#endif
