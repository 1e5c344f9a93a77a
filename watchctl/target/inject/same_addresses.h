/* same_addresses - a program whose addresses are the same each time it is started, and which does not notice. */
#ifndef WATCHCTL_TARGET_INJECT_SAME_ADDRESSES_H
#define WATCHCTL_TARGET_INJECT_SAME_ADDRESSES_H

#include "watchctl/target/stop/tracee.h"

enum same_addresses {
	SAME_ADDRESSES_NOT,	  /* they are random: the kernel refused (a seccomp filter) */
	SAME_ADDRESSES_ALONE,	  /* its own are; programs that it executes have theirs as ever */
	SAME_ADDRESSES_INHERITED, /* programs that it executes have fixed ones, too */
};

/*
 * Of a program that launch_start() has started with LAUNCH_SAME: takes the setting back, by a system call of the
 * program's (remote.h). The kernel lays an address space out when a program is executed, and leaves it so. One with a
 * loader must have come to its entry point: loaders have no instructions for it. One without stands where it began.
 */
enum same_addresses same_addresses_take_back(struct tracee *held);

#endif
