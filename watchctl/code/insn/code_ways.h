/*
 * code_ways - the ways that a function may go from one of its instructions up to events: the calls that it makes next,
 * its return. The branches that decide which of two events comes are where two runs have parted.
 *
 * Static, from the code alone: where an indirect jump leads is not known.
 */
#ifndef WATCHCTL_CODE_INSN_CODE_WAYS_H
#define WATCHCTL_CODE_INSN_CODE_WAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/map64.h"
#include "watchctl/code/insn/code_paths.h"
#include "watchctl/code/insn/insn_scan.h"

#define CODE_WAYS_INSNS_MAX 20000u

/* The two events, as bits. */
enum { CODE_EVENT_A = 1, CODE_EVENT_B = 2 };

struct code_way {
	uint64_t at;
	struct insn_brief insn;
	bool leaves;	  /* a jump out of the function */
	bool is_unknown;  /* an indirect jump: anywhere */
	uint8_t is_event; /* set by the caller */
	uint8_t reaches;  /* by code_ways_reach(): the events that may come next, its own included */
	uint8_t nnext;
	size_t next[2]; /* indexes */
};

/* Zero-initialised is empty. v[0] is the beginning. */
struct code_ways {
	struct code_way *v;
	size_t n, cap;
	struct map64 index; /* address -> index + 1 */
	bool passes_calls;
	bool is_cut; /* there are more than CODE_WAYS_INSNS_MAX, or some cannot be decoded */
};

struct code_inside {
	bool (*has)(void *ctx, uint64_t addr); /* it belongs to the function */
	void *ctx;
};

/*
 * All instructions that may come from @from on, up to the next calls; with @pass_calls, beyond calls that the caller does not
 * make events. False: no memory.
 */
bool code_ways_find(struct code_ways *w, const struct code_view *code, const struct code_inside *inside,
		    uint64_t from, bool pass_calls);

/* A jump that nobody knows the target of leads to those events that nothing else leads to. */
void code_ways_reach(struct code_ways *w);

/*
 * Whether the way at @i is a branch that decides which of @events comes: by its two sides the runs can part, and they do not lead
 * to the same. Or an indirect jump that leads to all of them. Of one event: whether it comes.
 */
bool code_ways_decides(const struct code_ways *w, size_t i, uint8_t events);

void code_ways_deinit(struct code_ways *w);

#endif
