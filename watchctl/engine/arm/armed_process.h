/*
 * armed_process - whether a process is still what was meant when a watch of it was asked for. Asked of each
 * thread after it has been prepared, and before anything of it can trap: in a program that it has executed by
 * then, nobody would take the signal. An exec after that disarms by itself.
 */
#ifndef WATCHCTL_ENGINE_ARM_ARMED_PROCESS_H
#define WATCHCTL_ENGINE_ARM_ARMED_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "watchctl/base/error.h"

struct armed_process {
	bool (*is_meant)(void *ctx); /* NULL: it does not matter, since no signal will come */
	void *ctx;
};

/* WC_ETARGET: it is not. */
struct wc_error *armed_process_check(const struct armed_process *p, pid_t pid);

#endif
