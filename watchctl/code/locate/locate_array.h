/*
 * locate_array - where the elements of an array lie, in any language: its bounds, the order of its
 * dimensions, and where its data is, if that is not in the variable itself; private to watchctl/code/.
 */
#ifndef WATCHCTL_CODE_LOCATE_LOCATE_ARRAY_H
#define WATCHCTL_CODE_LOCATE_LOCATE_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/dwarf/dwarf_eval.h"
#include "watchctl/code/lookup/locate_type.h"

/* Fortran has no more. */
#define ARRAY_DIMS 15

struct array_dim {
	int64_t lower;
	uint64_t count;
	bool has_count; /* else it is not known: "extern int v[]" */
	int64_t stride; /* bytes from one element to the next; 0: not known */
};

struct array_shape {
	uint64_t data; /* the first element */
	struct array_dim dim[ARRAY_DIMS];
	unsigned int ndims;
	bool column_major;
	bool is_described; /* where it lies or how large it is changes while the program runs */
	unsigned int bits; /* elements are packed, so many bits each: they have no addresses; 0: not packed */
	struct dtype element; /* of all dimensions */
	/*
	 * Where the address of the data is kept, and a place that is written when its bounds are; 0: none. A
	 * compiler may write the bounds after the address.
	 */
	uint64_t pointer, bounds;
};

enum array_state {
	ARRAY_OK,
	ARRAY_UNALLOCATED, /* it has no elements now: not allocated, not associated, empty by a null pointer
			    */
	ARRAY_UNREADABLE,  /* what describes it cannot be read */
	ARRAY_UNKNOWN,	   /* it is described in a way that is not known here */
};

/* Of the stripped array @t, whose variable is at @at->object. */
enum array_state array_shape_of(const struct dtype *t, struct dwarf_eval *at, struct array_shape *ret);

bool array_shape_is_empty(const struct array_shape *s);

/* Its size in bytes; 0: it is not contiguous, or not known. */
uint64_t array_shape_size(const struct array_shape *s);

/* The length in bytes of the string type @t of Fortran, of a variable at @at->object. False: not known. */
bool array_string_size(const struct dtype *t, struct dwarf_eval *at, uint64_t *ret);

/* "[0] .. [9]", "(1,0) .. (3,4)": the first and the last element, malloc'd; NULL: none, not known, no memory.
 */
char *array_shape_range(const struct array_shape *s, enum dwarf_family family);

#endif
