/*
 * access - from a data-breakpoint trap to the instruction that made the access.
 *
 * x86 data breakpoints are traps: rip is where execution goes on, usually the next instruction
 * (Intel SDM vol. 3, 18.2.4). This is the only function that turns that rip into the accessing
 * instruction; nobody else adjusts it. It is pure: facts in, verdict out.
 *
 * It covers traps of data breakpoints. An execute breakpoint is a fault: its rip needs no adjustment.
 */
#ifndef WATCHCTL_CODE_INSN_ACCESS_H
#define WATCHCTL_CODE_INSN_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/insn/insn.h"
#include "watchctl/code/memory_view.h"

/* What is known about the code around one address. Stored in logs. */
struct code_fact {
	uint64_t pc;		 /* the address this is about: a trap rip, or a return address */
	uint64_t function_start; /* 0: unknown */
	uint8_t before_len;	 /* length of the instruction that ends at pc; 0: unknown */
	uint8_t before[INSN_MAX];
	uint8_t at_len; /* bytes readable at pc, up to INSN_MAX */
	uint8_t at[INSN_MAX];
};

enum access_origin { ORIGIN_USER = 0, ORIGIN_KERNEL = 1 };

struct access_query {
	const struct regs *regs; /* as the trap saw them: after the instruction */
	uint64_t addr;		 /* the watched range that fired */
	uint32_t size;
	/*
	 * What the breakpoint fires on: ACCESS_WRITE or ACCESS_READWRITE (one for reads alone does not exist
	 * on x86); 0: not known. A watch of writes rules every explanation out that only reads.
	 */
	enum access_kind armed;
	/*
	 * The processor reports each step of a repeated string instruction by itself, as AMD's do: rsi and
	 * rdi are just behind the bytes accessed. False: not known to; a trap may come up to a block late.
	 */
	bool steps_trap;
	bool has_old, has_new;
	uint64_t old_value;		/* its value before, as last seen */
	uint64_t new_value;		/* the range's value after the access, zero-extended */
	const struct code_fact *pc;	/* about regs->rip; NULL: unknown */
	const struct code_fact *caller; /* about the innermost return address, frame[1]; NULL: unknown */
};

struct access_verdict {
	/*
	 * ACCESS_WRITE where nothing is confirmed, of a watch of writes, and of the kernel, says that the
	 * range was written; whether it was read too is not known then.
	 */
	enum access_kind kind;
	enum access_origin origin;
	uint64_t insn; /* address of the accessing instruction; 0: unknown */
	uint8_t bytes[INSN_MAX];
	uint8_t len; /* 0: unknown */
	/*
	 * The access was made by a call that has not returned yet in terms of rip (rip is the callee's first
	 * instruction): frame[0] must be dropped, insn stands for frame[1].
	 */
	bool in_caller;
	/*
	 * True when the operand's address was recomputed and does cover the range, or the machine's state
	 * leaves no other explanation. False: nothing contradicts the verdict, but it could not be checked.
	 */
	bool confirmed;
	/*
	 * The bytes of the one operand that covers the watched range, if all of them are certain to have been
	 * accessed: not of masked moves, nor where two operands cover the range. Of a repeated string
	 * instruction one step, and only if steps_trap.
	 */
	bool has_range;
	uint64_t range_addr;
	uint32_t range_len;
};

/*
 * Fills *@f with what @mem shows around @pc. @function_start: of the function that holds pc - 1
 * (an instruction that ends at pc belongs there, and pc itself may be another function's start); 0: unknown.
 */
void code_fact_fill(struct code_fact *f, uint64_t pc, uint64_t function_start, const struct memory_view *mem);

/*
 * Says "unknown" (kind ACCESS_UNKNOWN, or insn 0, or both) where the facts do not decide. A kind without an
 * instruction is known of ret and of jumps through memory: rip shows where they went, not where they were.
 */
void access_resolve(const struct access_query *q, struct access_verdict *ret);

#endif
