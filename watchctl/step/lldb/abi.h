/*
 * abi - where the System V calling convention puts parameters and results (psABI for x86-64, 3.2.3).
 * Arithmetic only: a type is reported as its scalars, one by one.
 */
#ifndef WATCHCTL_STEP_LLDB_ABI_H
#define WATCHCTL_STEP_LLDB_ABI_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/dwarf/param_place.h"

#define ABI_EIGHTBYTES 8 /* of what may travel in registers: a vector of 64 bytes */

enum abi_class {
	ABI_NO_CLASS,
	ABI_INTEGER,
	ABI_SSE,
	ABI_SSEUP,
	ABI_X87,
	ABI_X87UP,
	ABI_COMPLEX_X87,
	ABI_MEMORY,
};

enum abi_scalar {
	ABI_SCALAR_INTEGER, /* pointers, enumerations, bool, __int128 */
	ABI_SCALAR_FLOAT,   /* 2, 4, 8 bytes, and the 16 of __float128 */
	ABI_SCALAR_VECTOR,  /* 8, 16, 32, 64 bytes */
	ABI_SCALAR_X87,	    /* long double */
	ABI_SCALAR_COMPLEX_X87,
	ABI_SCALAR_BITS, /* the bytes that a bit field touches: need not be aligned */
};

/* A type. Zero-initialised with its size; then each scalar in it is put; then it is used. */
struct abi_layout {
	uint32_t size;
	uint32_t align;		       /* as the scalars demand; may be raised */
	bool by_reference;	       /* C++: the object lies elsewhere, and its address is passed */
	bool in_memory;		       /* a scalar is not aligned, or too far behind for registers */
	uint8_t class[ABI_EIGHTBYTES]; /* enum abi_class, merged */
};

void abi_put(struct abi_layout *l, enum abi_scalar scalar, uint32_t offset, uint32_t size);

/* What parameters have taken so far. Zero-initialised; a hidden result takes a register first. */
struct abi_call {
	unsigned int gpr, xmm;
	uint32_t stack; /* bytes */
};

struct abi_place {
	unsigned int npieces; /* 0: it is not passed at all, having no content, or cannot be known */
	struct param_piece piece[2];
};

void abi_param(struct abi_call *c, const struct abi_layout *l, struct abi_place *ret);

/* True: the caller has reported where the result is to be stored, by a hidden first parameter. */
bool abi_result_is_hidden(const struct abi_layout *l);

/* Where the result is when the function has returned. */
void abi_result(const struct abi_layout *l, struct abi_place *ret);

#endif
