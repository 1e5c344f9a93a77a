/*
 * run_to_entry - lets a launched program that is stopped at its first instruction run to its entry point: the
 * loader has mapped and relocated its libraries then and run their constructors, and none of the program's
 * own code has run.
 */
#ifndef WATCHCTL_TARGET_STOP_RUN_TO_ENTRY_H
#define WATCHCTL_TARGET_STOP_RUN_TO_ENTRY_H

#include <stdbool.h>

#include "watchctl/target/stop/tracee.h"

/*
 * @t is from launch_start(); it is stopped again afterwards, with t->home what it is there. Where the entry
 * point cannot be known, it stays where it is. WC_ETARGET: it ended on the way.
 */
struct wc_error *run_to_entry(struct tracee *t);

/* Whether a loader runs in @pid before the program; else it relocates itself, if at all. */
bool run_to_entry_has_loader(pid_t pid);

#endif
