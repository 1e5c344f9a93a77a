/* handler - what the parts of the injected image call each other. Hosted tests include it too. */
#ifndef HANDLER_HANDLER_H
#define HANDLER_HANDLER_H

#include <stdbool.h>
#include <stdint.h>

#include "handler/wire.h"

/* The kernel's siginfo_t for SIGTRAP from a perf event (include/uapi/asm-generic/siginfo.h). */
struct trap_info {
	int32_t signo, sys_errno, code, pad;
	uint64_t addr;
	uint64_t perf_data; /* unaligned in no ABI we serve: offset 24 */
	uint32_t perf_type;
	uint32_t perf_flags;
};

#define TRAP_CODE_BRKPT 1
#define TRAP_CODE_HWBKPT 4
#define TRAP_CODE_PERF 6
#define TRAP_CODE_KERNEL 0x80 /* SI_KERNEL: int3 */
#define TRAP_ASYNC 1u	      /* TRAP_PERF_FLAG_ASYNC */

/*
 * A trap that is ours: records it. @gregs is uc_mcontext.gregs in the kernel's order; @frame: where the
 * signal's frame lies.
 */
void handler_record(struct wire_control *ctl, unsigned int watch, const struct trap_info *info,
		    const uint64_t *gregs, uint64_t frame);

/* The record that ends at @end is of a WIRE_WATCH_HOLD watch: waits for the controller. */
void handler_hold(struct wire_control *ctl, uint64_t end);

/* Which watch a trap belongs to; -1: it is not ours. */
int handler_watch_of(const struct wire_control *ctl, const struct trap_info *info);

#endif
