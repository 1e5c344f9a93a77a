/*
 * ptrace_bp - one watch in a debug register of one's choice, set in each thread by ptrace and left armed.
 *
 * Unlike perf events: every thread is stopped for a moment; a thread born later must be found and armed
 * (ptrace_bp_extend, called often); and the registers stay armed when we die, until the thread ends. The
 * handler stays too, so the program lives on.
 */
#ifndef WATCHCTL_ENGINE_ARM_PTRACE_BP_H
#define WATCHCTL_ENGINE_ARM_PTRACE_BP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/engine/arm/armed_process.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/tracee.h"

struct ptrace_bp {
	pid_t pid;
	unsigned int slot;
	uint64_t addr;
	uint32_t size;
	enum access_kind access;
	struct armed_process process;
	struct thread_ids armed;
};

/*
 * Of all watchctls only one at a time has such a watch in a process: a trap of ptrace's registers carries
 * nothing that shows whose it is, and the first handler takes it. Gives a file descriptor that holds the
 * claim until it is closed, which is after the last trap can have come; WC_ESLOTS: another has it.
 */
struct wc_error *ptrace_bp_claim(pid_t pid, int *ret);

/*
 * Arms what @wanted says (its `armed` is not looked at). WC_ESLOTS when a register of some thread is set
 * through ptrace already. On error nothing stays armed.
 */
struct wc_error *ptrace_bp_open(const struct ptrace_bp *wanted, struct tracee *held, struct ptrace_bp *ret);

/* Arms threads that were born since. */
struct wc_error *ptrace_bp_extend(struct ptrace_bp *bp);

/* Disarms every thread. Accepts zero-initialised. */
void ptrace_bp_close(struct ptrace_bp *bp);

#endif
