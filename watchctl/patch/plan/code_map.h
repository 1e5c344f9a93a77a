/*
 * code_map - what is known about each byte of a module's code: where instructions and functions begin, where jumps,
 * calls, pointers and exceptions lead, what is read as data. One sweep, in which nothing is stored per instruction but
 * marks; whoever needs more decodes again.
 *
 * It knows no files: sections, functions and pointers are given to it, so that tests can make their own.
 */
#ifndef WATCHCTL_PATCH_PLAN_CODE_MAP_H
#define WATCHCTL_PATCH_PLAN_CODE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/insn/insn_scan.h"

enum code_mark {
	MARK_START = 1,	 /* an instruction begins here, decoded from a function's start */
	MARK_JUMP = 2,	 /* a direct jump leads here */
	MARK_CALL = 4,	 /* a direct call */
	MARK_TAKEN = 8,	 /* a jump table, a pointer, a landing pad, code that takes the address */
	MARK_ENTRY = 16, /* a function begins here */
	MARK_KNOWN = 32, /* it belongs to a function */
	MARK_DATA = 64,	 /* an instruction reads it */
	MARK_USED = 128, /* a patch of the plan has it: patch_tactic's */
};

#define MARK_ANY_TARGET (MARK_JUMP | MARK_CALL | MARK_TAKEN | MARK_ENTRY)

struct free_space;

struct code_part {
	uint64_t start;
	const uint8_t *bytes; /* the owner's */
	size_t len;
	bool is_stubs;
	uint8_t *mark; /* enum code_mark, one for each byte */
};

struct map_function {
	uint64_t start, end;
	const char *name; /* the owner's; NULL: not known */
	uint64_t jump;	  /* an indirect jump of it whose targets are not known; 0: there is none */
};

/* Bytes behind an instruction that nothing reaches. */
struct code_padding {
	uint64_t start;
	uint32_t len;
};

struct code_map {
	struct code_part *part; /* by address */
	size_t nparts, part_cap;
	struct map_function *function; /* by address, without overlaps, once scanned */
	size_t nfunctions, function_cap;
	struct code_padding *padding; /* by address; what is a target is not taken out */
	size_t npaddings, padding_cap;
	uint64_t start, end; /* of the module */
	bool is_fixed;	     /* it runs where it says */
	/* Of a module in a process: what is free there (the owner's), and how far above its file's addresses it is. NULL: not known. */
	const struct free_space *room;
	uint64_t bias;
	size_t ninstructions, njumps;	  /* of the sweep; indirect jumps among them */
	size_t ntables, nunresolved;	  /* jump tables found, indirect jumps not resolved */
	bool failed;			  /* memory ran out */
	struct code_reference *reference; /* of the sweep only */
	size_t nreferences, reference_cap;
	uint64_t *jump; /* indirect jumps, likewise */
	size_t jump_cap;
};

/* Initialised by zeros. */
void code_map_deinit(struct code_map *m);

void code_map_add_part(struct code_map *m, uint64_t start, const uint8_t *bytes, size_t len, bool is_stubs);

/* An @end of @start: only where it begins is known. */
void code_map_add_function(struct code_map *m, uint64_t start, uint64_t end, const char *name);

/* All parts and functions have been added; pointers come later, with code_map_mark(). False: no memory. */
bool code_map_scan(struct code_map *m);

/* Sets @mark at @addr, if that is code. */
void code_map_mark(struct code_map *m, uint64_t addr, unsigned int mark);

/* The module's bytes that are no code: from @vaddr on, and how many; NULL: none. */
struct code_data {
	const uint8_t *(*bytes)(void *ctx, uint64_t vaddr, size_t *len);
	void *ctx;
};

/* Once all marks are set: reads the jump tables. */
void code_map_read_tables(struct code_map *m, const struct code_data *data);

struct code_part *code_map_part(const struct code_map *m, uint64_t addr); /* NULL: no code */

/* 0 outside of code. */
unsigned int code_map_marks(const struct code_map *m, uint64_t addr);

/* The function that holds @addr; NULL: none. */
struct map_function *code_map_function(const struct code_map *m, uint64_t addr);

/* The instruction at @addr. False: none. */
bool code_map_insn(const struct code_map *m, uint64_t addr, struct insn_brief *ret);

/* Where the instruction begins that ends at @addr, in the same function. False: there is none. */
bool code_map_before(const struct code_map *m, uint64_t addr, uint64_t *ret);

#endif
