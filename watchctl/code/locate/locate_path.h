/* locate_path - follows ".member", "->member", "[n]" and "*" from a variable; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_LOCATE_PATH_H
#define WATCHCTL_CODE_LOCATE_LOCATE_PATH_H

#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/lookup/locate_parse.h"
#include "watchctl/code/lookup/locate_type.h"

struct path_place {
	uint64_t addr; /* in thread-local storage an offset, as in struct hit */
	bool is_tls;
	uint64_t size; /* of the symbol, where there is no type; 0: unknown */
	struct dtype type;
	unsigned int bit_offset, bit_size;
	uint64_t storage;
	/* The pointers that were read on the way, as in struct variable. */
	uint64_t pointer[LOCATE_POINTERS];
	unsigned int npointers, bounds;
	bool null_pointer; /* the last one leads nowhere: set with an error */
	char *text;	   /* the path so far, as a person writes it; the owner's to free */
	bool text_is_deref;
	uint64_t bias; /* of its module: address of the process minus that of the debug information */
};

/* Applies one step. On error @p keeps what it had, but for what it says of pointers. */
struct wc_error *path_step(struct path_place *p, const struct locate_step *step,
			   const struct memory_view *mem);

/*
 * Goes to what the language means by the name: from a C++ reference to what it refers to, from a pointer or
 * an allocatable variable of Fortran to the variable that it stands for. Not to the data of an array.
 */
struct wc_error *path_open(struct path_place *p, const struct memory_view *mem);

/*
 * The same to the data of an array or a string that lies elsewhere, or whose size is only known now: p->size
 * is set.
 * *@members (may be NULL): its first and last element, malloc'd, or NULL.
 */
struct wc_error *path_settle(struct path_place *p, const struct memory_view *mem, char **members);

/* Whether @t is a variable of Fortran's that stands for another one: "class(t) :: x". */
bool dtype_is_class_wrapper(const struct dtype *stripped);

#endif
