/*
 * dregs - debug register arithmetic (Intel SDM vol. 3, 18.2). Nothing here touches a process.
 */
#ifndef WATCHCTL_ENGINE_PLAN_DREGS_H
#define WATCHCTL_ENGINE_PLAN_DREGS_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/insn/insn.h"

#define DREGS 4

/* 1, 2, 4 or 8 bytes, aligned to their own length: what one register can watch. */
bool dregs_fits(uint64_t addr, uint64_t size);

/* The bits of DR7 that arm register @slot (0..3): local enable, R/W and LEN fields. */
uint64_t dregs_dr7(unsigned int slot, uint32_t size, enum access_kind access);

/* This CPU traps at each step of a repeated string instruction (AMD does: measured), not once for a block. */
bool dregs_steps_trap(void);

/* The bits of DR7 that belong to @slot. */
uint64_t dregs_dr7_mask(unsigned int slot);

/* True when @dr7 enables @slot, locally or globally. */
bool dregs_enabled(uint64_t dr7, unsigned int slot);

/* What @dr7 arms register @slot for. False: it is not enabled, or for I/O ports. READ is never said. */
bool dregs_decode(uint64_t dr7, unsigned int slot, uint32_t *ret_size, enum access_kind *ret_access);

/* True when DR6 says that @slot has fired. */
bool dregs_fired(uint64_t dr6, unsigned int slot);

#endif
