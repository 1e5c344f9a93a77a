/* launch - start a program and hold it before its first instruction. */
#ifndef WATCHCTL_TARGET_STOP_LAUNCH_H
#define WATCHCTL_TARGET_STOP_LAUNCH_H

#include "watchctl/base/error.h"
#include "watchctl/target/stop/tracee.h"

enum launch_addresses {
	LAUNCH_RANDOM, /* as ever */
	LAUNCH_SAME, /* without randomisation, where the kernel permits: personality(2), ADDR_NO_RANDOMIZE */
};

/*
 * Starts @argv (found by PATH) as our child, with our terminal, environment, signal mask and
 * ignored signals; those that we catch have their default action. On success *ret is its only thread, stopped
 * with nothing of it executed; tracee_release() lets it run. If we die meanwhile it runs, unwatched.
 * WC_EUSAGE: cannot be executed, with the reason.
 */
struct wc_error *launch_start(char *const argv[], enum launch_addresses addresses, struct tracee *ret);

#endif
