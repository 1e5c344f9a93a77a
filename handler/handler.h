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

#define TRAP_CODE_HWBKPT 4
#define TRAP_CODE_PERF 6
#define TRAP_ASYNC 1u /* TRAP_PERF_FLAG_ASYNC */

/* A trap that is ours: records it. @gregs is uc_mcontext.gregs in the kernel's order. */
void handler_record(struct wire_control *ctl, unsigned int watch, const struct trap_info *info,
		    const uint64_t *gregs);

/* Which watch a trap belongs to; -1: it is not ours. */
int handler_watch_of(const struct wire_control *ctl, const struct trap_info *info);

/* Copies @len bytes of our own process, never faulting. False: some of them cannot be read. */
bool guarded_copy(const struct wire_control *ctl, uint64_t addr, void *buf, uint64_t len);

/* True when the 8 bytes at @addr can be read now. */
bool guarded_probe(uint64_t addr);

#endif
