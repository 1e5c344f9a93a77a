/*
 * regs - the user-visible integer registers of one x86-64 thread.
 *
 * Numbered as DWARF numbers them (System V psABI for x86-64, figure 3.36), so that CFI and
 * location expressions index this array directly. WREG_: <sys/ucontext.h> has taken REG_. Freestanding:
 * shared with the handler that runs inside the traced program.
 */
#ifndef WATCHCTL_CODE_REGS_H
#define WATCHCTL_CODE_REGS_H

#include <stdint.h>

/* Of rflags: Intel SDM vol. 1, 3.4.3. */
#define RFLAG_ZERO 0x40u
#define RFLAG_DIRECTION 0x400u

enum reg {
	WREG_RAX,
	WREG_RDX,
	WREG_RCX,
	WREG_RBX,
	WREG_RSI,
	WREG_RDI,
	WREG_RBP,
	WREG_RSP,
	WREG_R8,
	WREG_R9,
	WREG_R10,
	WREG_R11,
	WREG_R12,
	WREG_R13,
	WREG_R14,
	WREG_R15,
	WREG_RIP,
	WREG_RFLAGS,
	WREG_FS_BASE, /* 0: not known */
	WREG_COUNT
};

struct regs {
	uint64_t r[WREG_COUNT];
};

#endif
