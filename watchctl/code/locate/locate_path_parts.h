/* locate_path_parts - single steps of a path, shared by the files that make it; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_LOCATE_PATH_PARTS_H
#define WATCHCTL_CODE_LOCATE_LOCATE_PATH_PARTS_H

#include "watchctl/code/locate/locate_array.h"
#include "watchctl/code/locate/locate_path.h"

/* "'x' is of type 'int', <why>" */
struct wc_error *path_wrong_kind(const struct path_place *p, const char *why);

/* Goes where the pointer at @p leads; its type stays. */
struct wc_error *path_follow_pointer(struct path_place *p, const struct memory_view *mem);

/* Goes to what the pointer at @p points to, or to the first element of the array there. */
struct wc_error *path_to_target(struct path_place *p, const struct memory_view *mem);

struct wc_error *path_to_member(struct path_place *p, const char *name, const struct memory_view *mem);

/* Element @step of the array, the pointer or the container at @p. */
struct wc_error *path_to_element(struct path_place *p, const struct locate_step *step,
				 const struct memory_view *mem);

/* Of the array @t at @p: where its elements are; remembers the places that tell it. */
struct wc_error *path_array_shape(struct path_place *p, const struct dtype *t, const struct memory_view *mem,
				  struct array_shape *ret);

/* A pointer to an array of Ada's with its bounds: @t is what GNAT makes of it. */
bool dtype_is_fat_pointer(const struct dtype *stripped);

#endif
