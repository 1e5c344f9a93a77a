/*
 * locate_type - questions about DWARF types: size, members, elements, and the form in which a value_type
 * keeps the answer; private to watchctl/code/.
 */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_TYPE_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "watchctl/code/dwarf/dwarf_language.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/code/lookup/locate_index.h"
#include "watchctl/code/memory_view.h"

/* A type, or what is left of an array of several dimensions after @dim of them were indexed. */
struct dtype {
	struct locate_index *index; /* the file that it comes from */
	bool known;		    /* false: void, or no type information */
	Dwarf_Die die;
	unsigned int dim;
	const struct dwarf_language *language; /* of what has it; NULL: nothing has */
};

/* A member found by name: where, and of what type. */
struct dmember {
	uint64_t addr;
	struct dtype type;
	unsigned int bit_offset, bit_size; /* a bit field of the @storage bytes at addr; bit_size 0: none */
	uint64_t storage;
};

enum member_result { MEMBER_FOUND, MEMBER_NONE, MEMBER_STATIC, MEMBER_UNREADABLE };

/* The type that DW_AT_type of the variable @die names. */
struct dtype dtype_of(struct locate_index *x, Dwarf_Die *die);

/* The same of a member or parameter of @outer; and of @t itself: what it points to, or is made of. */
struct dtype dtype_part(const struct dtype *outer, Dwarf_Die *die);
struct dtype dtype_target(const struct dtype *t);

/* FAMILY_C where nothing is known. */
enum dwarf_family dtype_family(const struct dtype *t);

/* Without typedefs and qualifiers; an incomplete type is replaced by its definition, where there is one. */
struct dtype dtype_strip(const struct dtype *t);

/* DW_TAG_* of a stripped type; 0: unknown. */
int dtype_tag(const struct dtype *t);

bool dtype_is_aggregate_tag(int tag); /* struct, class, union */
bool dtype_is_reference(const struct dtype *stripped);

/* 0: unknown. */
uint64_t dtype_size(const struct dtype *t);

/* Whether its size is known, and 0: an empty struct of GNU C's, an array of no elements. */
bool dtype_is_empty(const struct dtype *t);

/* Of a stripped array: its first dimension (false: there is none), the number of elements in it (false:
 * unknown here; see locate_array.h), and the type of one. */
bool dtype_dimension(const struct dtype *array, Dwarf_Die *ret);
bool dtype_count(const struct dtype *array, uint64_t *ret);
struct dtype dtype_element(const struct dtype *array);

/*
 * The member @name of the object of the stripped type @t at @addr, also inside anonymous members and
 * base classes. @mem (may be NULL) is needed for virtual base classes.
 */
enum member_result dtype_member(const struct dtype *t, uint64_t addr, const char *name,
				const struct memory_view *mem, struct dmember *ret);

/* What directly belongs to an object: a member, or a base class. */
struct dmember_reported {
	const char *name; /* NULL: an anonymous member, or a base class without a name */
	bool is_base;
	bool is_variant; /* of a Rust enum: only one of them is there at a time */
	bool is_placed;	 /* false: where it lies cannot be computed */
	struct dmember m;
};

/*
 * Calls @each for the members and base classes of the object of the stripped aggregate @t at @addr, in the
 * order of the source, without static ones. It returns false to stop. @mem as in dtype_member().
 */
void dtype_each_member(const struct dtype *t, uint64_t addr, const struct memory_view *mem,
		       bool (*each)(void *ctx, const struct dmember_reported *m), void *ctx);

/* "state, count, next" of a stripped aggregate, "[0] .. [9]" of an array; malloc'd, NULL: none. */
char *dtype_member_list(const struct dtype *t);

/* As in the source: "const char *", "struct node [4]"; malloc'd, NULL: no memory. */
char *dtype_name(const struct dtype *t);

/* False: no memory. */
bool dtype_value_type(const struct dtype *t, struct value_type *ret);

/* The type that the stripped @s was made for: "T" of "Vec<T>". */
bool dtype_first_parameter(const struct dtype *s, struct dtype *ret);

#endif
