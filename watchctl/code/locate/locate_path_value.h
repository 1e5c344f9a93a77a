/* locate_path_value - what the files of a path's calculations share; private to them. */
#ifndef WATCHCTL_CODE_LOCATE_LOCATE_PATH_VALUE_H
#define WATCHCTL_CODE_LOCATE_LOCATE_PATH_VALUE_H

#include "watchctl/code/locate/locate_path_parts.h"

/* A kind of value that a whole number is made of. */
bool path_is_whole(const struct value_type *t);

/* *@ret: @n, where it is one that calculations have: from -2^63 to 2^63-1. */
struct wc_error *path_take_number(const struct path_place *p, const struct value_number *n, int64_t *ret);

void path_become_number(struct path_place *p, int64_t n);

/* A pointer to @stars pointers to @type. */
void path_become_address(struct path_place *p, uint64_t addr, const struct dtype *type, unsigned int stars);

/* Makes an address of the pointer or array that lies at @p. *@is: it is one. */
struct wc_error *path_decay(struct path_place *p, const struct memory_view *mem, bool *is);

/* "'x' is a number: there is nothing that '@what' could do with it." */
struct wc_error *path_no_operand(const struct path_place *p, const char *what);

struct wc_error *path_cast(struct path_place *p, const struct locate_step *step,
			   const struct memory_view *mem);

#endif
