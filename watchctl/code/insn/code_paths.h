/*
 * code_paths - the ways through a piece of code: those that are still to be gone, and the places that were come
 * to, each with a set of things that hold on every way there. A set only ever shrinks, so that a walk ends.
 */
#ifndef WATCHCTL_CODE_INSN_CODE_PATHS_H
#define WATCHCTL_CODE_INSN_CODE_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/map64.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/insn/insn_regs.h"

/* Code by address: how many bytes there are at @addr, 0: none. */
struct code_view {
	size_t (*bytes)(void *ctx, uint64_t addr, const uint8_t **ret);
	void *ctx;
};

/* The instruction at @addr. False: there is none. */
bool code_view_decode(const struct code_view *code, uint64_t addr, struct insn *insn, struct insn_regs *regs);

struct code_path {
	uint64_t at;
	uint32_t holds;
};

/* Zero-initialised is empty. */
struct code_paths {
	struct code_path *v; /* to be gone */
	size_t n, cap;
	struct map64 seen; /* address -> 1 + what holds there */
	bool no_memory;	   /* some were left out */
};

void code_paths_deinit(struct code_paths *p);

void code_paths_add(struct code_paths *p, uint64_t at, uint32_t holds);

/* The next that is to be gone. False: there is none. */
bool code_paths_take(struct code_paths *p, struct code_path *ret);

/* Whether as little as *@holds is new at @at; what holds on all ways there is left in it. */
bool code_paths_is_new(struct code_paths *p, uint64_t at, uint32_t *holds);

#endif
