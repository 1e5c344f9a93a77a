/*
 * dwarf_eval - computes what DWARF writes as a little program: where the data of an object lies, the bounds
 * of an array, the place of a member; private to watchctl/code/. Whatever the bytes say, it comes to an end.
 */
#ifndef WATCHCTL_CODE_DWARF_DWARF_EVAL_H
#define WATCHCTL_CODE_DWARF_DWARF_EVAL_H

#include <stddef.h>
#include <stdint.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "watchctl/code/memory_view.h"

/* Of the addresses that were read, the first ones. */
#define DWARF_EVAL_READS 4

struct dwarf_eval {
	uint64_t object;	       /* its address: DW_OP_push_object_address */
	uint64_t bias;		       /* an address of the process minus one of the debug information */
	const struct memory_view *mem; /* NULL: nothing can be read */
	/* Filled in: what was read, in the order of reading. */
	uint64_t read[DWARF_EVAL_READS];
	unsigned int nreads;
};

enum dwarf_eval_result {
	EVAL_OK,
	EVAL_NONE,	 /* there is no such attribute */
	EVAL_UNREADABLE, /* it needs memory that cannot be read */
	EVAL_UNKNOWN,	 /* it does what is not known here, or has no end */
};

/* Runs the @n operations @op, with @start (may be NULL) on the stack. *@ret: what lies on top at the end. */
enum dwarf_eval_result dwarf_eval_ops(struct dwarf_eval *e, const Dwarf_Op *op, size_t n,
				      const uint64_t *start, uint64_t *ret);

/*
 * The number that attribute @attr of @die is or describes: a constant, an expression, or another entry, whose
 * value counts. An unsigned constant of few bytes is not widened as a signed one.
 */
enum dwarf_eval_result dwarf_eval_number(struct dwarf_eval *e, Dwarf_Die *die, unsigned int attr,
					 int64_t *ret);

#endif
