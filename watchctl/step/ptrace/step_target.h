/*
 * step_target - the process to be recorded: one that runs, or one that is started and held at its entry
 * point, with its libraries loaded and nothing of its own executed.
 */
#ifndef WATCHCTL_STEP_PTRACE_STEP_TARGET_H
#define WATCHCTL_STEP_PTRACE_STEP_TARGET_H

#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/target/inject/same_addresses.h"
#include "watchctl/target/stop/tracee.h"

struct step_target {
	pid_t pid;
	bool launched;
	struct tracee
		held; /* its tid is 0 once somebody else has taken it over, or if the process was running */
	enum same_addresses addresses; /* of one that was started and was to have the same ones each time */
};

/*
 * Either @argv, ended by NULL, is started (@random: with random addresses, as ever; else with the same each time), or
 * @pid is taken. WC_ETARGET, WC_EPERM, WC_EUSAGE as launch and proc_check().
 */
struct wc_error *step_target_open(pid_t pid, char *const argv[], bool random, struct step_target *ret);

/* For a stepper: who holds the stopped thread; NULL: nobody does. */
struct tracee *step_target_held(struct step_target *t);

/* It came to nothing before the program ran: a started one is killed. */
void step_target_abandon(struct step_target *t);

/* A started program that has ended is waited for. */
void step_target_close(struct step_target *t);

#endif
