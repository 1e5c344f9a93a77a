/*
 * plan - what is to be read when a function is entered and when it returns. Plain data: it is made once for
 * each function, at its first call, by the planner (LLDB's types, DWARF's places, the calling convention),
 * and carried out by a stepper, which may be another process.
 *
 * A plan is a list of fetches. Each gives bytes or a state; later ones may follow a pointer that an earlier
 * one has fetched. A parameter's value is the bytes of its pieces, one after the other (a struct in two
 * registers has two); what it points to is one fetch more. Memory that cannot be read gives VALUE_UNREADABLE,
 * and never harms the program.
 */
#ifndef WATCHCTL_STEP_INSN_PLAN_H
#define WATCHCTL_STEP_INSN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/regs.h"

#define PLAN_FETCHES 48u
#define PLAN_BYTES 4096u /* that all fetches of an entry or of a return give at most */

enum fetch_op {
	FETCH_GPR,   /* @len low bytes (1..8) of general register @reg (enum reg), beginning with byte @offset
		      */
	FETCH_XMM,   /* @len low bytes (4, 8, 16) of xmm register @reg, beginning with byte @offset */
	FETCH_YMM,   /* 32 bytes of ymm register @reg: VALUE_NONE where the CPU has none */
	FETCH_X87,   /* st(@reg), 16 bytes: 10 and padding of 0 */
	FETCH_STACK, /* @len bytes at rsp at entry + @offset: the return address is at 0, stack parameters
			from 8 on */
	FETCH_MEMORY, /* @len bytes at the pointer that fetch @base gave, + @offset; VALUE_NULL if that is 0
		       */
	FETCH_STRING, /* characters there, up to a NUL byte, which is not among them; VALUE_CUT: it comes
			 later than after @len, or the memory ends before it */
	FETCH_ERRNO,  /* 4 bytes: errno of the thread */
};

struct fetch {
	uint8_t op; /* enum fetch_op */
	uint8_t reg;
	uint8_t base; /* index of an earlier fetch of the same list */
	bool again; /* of an entry: read once more when the function returns, where the same pointer leads */
	uint16_t len;
	uint16_t pad;
	int32_t offset;
};

struct fetch_list {
	uint32_t n;
	struct fetch v[PLAN_FETCHES];
};

/* What each fetch gave: state[i], and of VALUE_OK and VALUE_CUT len[i] bytes at bytes[at[i]]. */
struct fetched {
	uint32_t n;
	uint8_t state[PLAN_FETCHES]; /* enum value_state */
	uint16_t len[PLAN_FETCHES];
	uint16_t at[PLAN_FETCHES];
	uint32_t nbytes;
	uint8_t bytes[PLAN_BYTES];
};

/* A zeroed plan fetches nothing. */
struct step_plan {
	struct fetch_list entry, leave;
};

/* How fetch results become parameters: what the planner keeps, and the recorder reads. */
struct param_recipe {
	uint8_t state; /* enum value_state: VALUE_OK, or VALUE_OPTIMIZED_OUT, _NONE: nothing is fetched */
	uint8_t first,
		count; /* of the fetches whose bytes are the value; the last one may give more than is left */
	uint8_t to;    /* the fetch of what it points to; PLAN_FETCHES: none */
	bool is_constant; /* the compiler knows the value: fetches give nothing, it is this */
	uint8_t constant_len;
	uint64_t constant;
};

#endif
