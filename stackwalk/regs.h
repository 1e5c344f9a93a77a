/*
 * regs - the user-visible integer registers of one x86-64 thread.
 *
 * Numbered as DWARF numbers them (System V psABI for x86-64, figure 3.36), so that CFI and
 * location expressions index this array directly. Freestanding: shared with the handler that
 * runs inside the traced program.
 */
#ifndef STACKWALK_REGS_H
#define STACKWALK_REGS_H

#include <stdint.h>

enum reg {
	REG_RAX,
	REG_RDX,
	REG_RCX,
	REG_RBX,
	REG_RSI,
	REG_RDI,
	REG_RBP,
	REG_RSP,
	REG_R8,
	REG_R9,
	REG_R10,
	REG_R11,
	REG_R12,
	REG_R13,
	REG_R14,
	REG_R15,
	REG_RIP,
	REG_RFLAGS,
	REG_FS_BASE, /* 0: not known */
	REG_COUNT
};

struct regs {
	uint64_t r[REG_COUNT];
};

#endif
