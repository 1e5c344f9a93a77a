/*
 * param_place - where the parameters of a function are as its first instruction is about to be executed,
 * by DWARF's location descriptions. Wraps libdw; addresses are those of the file.
 *
 * A description that holds later on only (a slot of the frame that the prologue is yet to make) says nothing
 * about the entry: there the calling convention reports (watchctl/step/lldb/abi.h), if the function is one that it
 * binds.
 */
#ifndef WATCHCTL_CODE_DWARF_PARAM_PLACE_H
#define WATCHCTL_CODE_DWARF_PARAM_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/elf/module.h"

#define PARAM_PIECES 8
#define PARAM_PLACES_MAX 64u /* parameters of a function; more are left out */

enum param_where {
	PARAM_OPTIMIZED_OUT, /* no description at all, or one with a hole */
	PARAM_IN_PIECES,
	PARAM_CONSTANT,	     /* in each call the same */
	PARAM_BY_CONVENTION, /* described, but not for the entry */
	PARAM_COMPUTED,	     /* described in a way that a fetch cannot follow */
};

enum param_in {
	PARAM_IN_GPR,		  /* reg: enum reg */
	PARAM_IN_XMM,		  /* reg: 0..15; more than 16 bytes: the ymm or zmm register around it */
	PARAM_IN_X87,		  /* reg: st(reg); results only */
	PARAM_ON_STACK,		  /* at rsp + offset: the return address is at 0 */
	PARAM_IN_MEMORY,	  /* at the content of general register reg + offset */
	PARAM_IN_MEMORY_BY_STACK, /* at the content of the 8 bytes at rsp + offset */
};

struct param_piece {
	uint8_t in; /* enum param_in */
	uint8_t reg;
	uint16_t size; /* bytes; 0: all of the parameter */
	int32_t offset;
};

/* How objects of a structure are passed: as they are, or the address of a copy, where copying is code. */
enum param_passing { PARAM_PASSING_UNKNOWN, PARAM_BY_VALUE, PARAM_BY_REFERENCE };

/* What the type's DIE shows that LLDB does not. */
struct param_type_facts {
	enum param_passing passing;
	bool is_quad;	/* a floating-point number of 16 bytes that is not long double: __float128 */
	uint32_t align; /* DW_AT_alignment; 0: none */
};

struct param_place {
	const char *name; /* NULL: none */
	enum param_where where;
	unsigned int npieces;
	struct param_piece piece[PARAM_PIECES];
	uint8_t constant_len; /* PARAM_CONSTANT: 1..8 */
	uint64_t constant;
	bool is_address; /* the constant is an address in the file: it moves with the module */
	struct param_type_facts type;
};

struct function_places {
	bool is_external; /* others can call it: it keeps to the calling convention */
	bool is_nocall;	  /* the compiler says that it does not */
	bool is_rust, is_go;
	const char *file; /* as the compiler was given it; NULL: not known */
	uint32_t line;	  /* of its declaration; 0: not known */
	struct param_type_facts result;
	unsigned int nparams;
	struct param_place param[PARAM_PLACES_MAX]; /* in the order of the source; results of Go are not among
						       them */
};

struct param_places;

/* Opens nothing yet. NULL: no memory. */
struct param_places *param_places_new(const struct module *m);
void param_places_free(struct param_places *p); /* accepts NULL */

/* The function whose first instruction is at @vaddr. False: there is no debug information about it. Strings
 * live as long as @p. */
bool param_places_find(struct param_places *p, uint64_t vaddr, struct function_places *ret);

/*
 * *@function: the first instruction of the function that declares the static variable at @vaddr; 0: none is known. The
 * first question reads all debug information. False: no memory.
 */
bool param_places_static(struct param_places *p, uint64_t vaddr, uint64_t *function);

#endif
