/* fetch_run - carries out a plan's fetches for one stopped thread, whoever has stopped it. */
#ifndef WATCHCTL_STEP_INSN_FETCH_RUN_H
#define WATCHCTL_STEP_INSN_FETCH_RUN_H

#include "watchctl/code/memory_view.h"
#include "watchctl/code/regs.h"
#include "watchctl/step/insn/plan.h"

/* State of a stopped thread. Vector registers are asked for only when a fetch needs them. */
struct fetch_source {
	const struct regs *regs;
	uint64_t entry_sp; /* rsp at the function's entry: of FETCH_STACK also on the way out */
	/* Memory of the program; a read that fails is retried in parts, so that a string that ends at the end
	 * of a page is read whole. */
	struct memory_view memory;
	/* 64 bytes of vector register @reg (high part 0 where the CPU has none), false: not known. NULL: not
	 * known. */
	bool (*vector)(void *ctx, unsigned int reg, uint8_t ret[64]);
	bool (*x87)(void *ctx, unsigned int reg, uint8_t ret[10]); /* st(reg) */
	void *ctx;
	uint64_t errno_address; /* of this thread; 0: not known */
};

/* Fills @ret. Reads memory in as few calls of @s->memory as it can. What does not fit into @ret is
 * VALUE_NONE, never cut silently. */
void fetch_run(const struct fetch_list *l, const struct fetch_source *s, struct fetched *ret);

/* The same memory as FETCH_MEMORY or _STRING @f has read by @pointer, as it is now: @ret has that one alone. */
void fetch_again(const struct fetch *f, uint64_t pointer, const struct fetch_source *s, struct fetched *ret);

#endif
