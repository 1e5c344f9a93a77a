/*
 * insn_move - how the instruction under a breakpoint is executed while the breakpoint stays in place: in the
 * tracer's head, where that is simple and certain, or somewhere else in the program's memory. Arithmetic on
 * bytes and registers; no process.
 */
#ifndef WATCHCTL_STEP_INSN_INSN_MOVE_H
#define WATCHCTL_STEP_INSN_INSN_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/insn/insn.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/regs.h"

enum insn_way {
	INSN_EMULATE, /* insn_emulate() does it: no stop */
	INSN_COPY,    /* single-step the rewritten copy at a place of our own, then put rip right */
	INSN_LIFT,    /* neither is certain: take the breakpoint out, hold the other threads, single-step in
			 place */
};

/* Made once for an address. */
struct insn_move {
	enum insn_way way;
	uint8_t len;		 /* of the instruction */
	uint8_t bytes[INSN_MAX]; /* original */
	struct insn insn;
	bool may_copy; /* insn_copy() can do it, whatever @way says: if insn_emulate() declines */
};

/* @bytes: the original code at @addr, @len (1..INSN_MAX) of them. False: it does not decode; INSN_LIFT then.
 */
bool insn_move_prepare(const uint8_t *bytes, uint32_t len, uint64_t addr, struct insn_move *ret);

/* Writes to the program's memory; false: it could not be. */
typedef bool (*insn_write_fn)(void *ctx, uint64_t addr, const void *bytes, uint32_t len);

/*
 * INSN_EMULATE: changes @regs, flags included, as the CPU would have, and memory by @write. False: something
 * could not be read or written, or the result is not certain; nothing has been changed then, and the CPU must
 * do it (it raises the fault that the program must get): by a copy if insn_copy() gives one, else lifted.
 * Memory that other threads may look at is read, but only written near the stack pointer: the kernel promises
 * nobody that it copies a word at once. A call or ret must not be emulated in a thread with a shadow stack.
 */
bool insn_emulate(const struct insn_move *m, uint64_t addr, struct regs *regs, const struct memory_view *mem,
		  insn_write_fn write, void *ctx);

/*
 * INSN_COPY: the bytes to be executed at @at in place of those at @addr, addresses relative to rip put right;
 * at most INSN_MAX, *@len of them. False: @at is too far away, or a copy would not do the same; lift then.
 */
bool insn_copy(const struct insn_move *m, uint64_t addr, uint64_t at, uint8_t ret[INSN_MAX], uint8_t *len);

/*
 * After a step of the copy at @at: where rip belongs. At @at itself it is @addr: a repeated string
 * instruction is not through yet (step again), or has raised a fault.
 */
uint64_t insn_copy_rip(const struct insn_move *m, uint64_t addr, uint64_t at, uint8_t copy_len, uint64_t rip);

#endif
