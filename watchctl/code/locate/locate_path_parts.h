/* locate_path_parts - single steps of a path, shared by the files that make it; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_LOCATE_PATH_PARTS_H
#define WATCHCTL_CODE_LOCATE_LOCATE_PATH_PARTS_H

#include "watchctl/code/locate/locate_array.h"
#include "watchctl/code/locate/locate_path.h"

/* Makes the text of @p that of the path with @step. */
struct wc_error *path_add_text(struct path_place *p, const struct locate_step *step);

/* "'x' is of type 'int', <why>" */
struct wc_error *path_wrong_kind(const struct path_place *p, const char *why);

/* Reads the pointer that lies at @p, and remembers that it was; it is not null. */
struct wc_error *path_load_pointer(struct path_place *p, const struct memory_view *mem, uint64_t *ret);

/* Goes where the pointer at @p leads; its type stays. */
struct wc_error *path_follow_pointer(struct path_place *p, const struct memory_view *mem);

/* Goes to what the pointer at @p points to, or to the first element of the array there. */
struct wc_error *path_to_target(struct path_place *p, const struct memory_view *mem);

/* As path_open(). @inside: a member that the compiler made is asked for. Sets *@opened if it went anywhere. */
struct wc_error *path_open_place(struct path_place *p, bool inside, bool *opened,
				 const struct memory_view *mem);

struct wc_error *path_to_member(struct path_place *p, const char *name, const struct memory_view *mem);

/* Element @step of the array, the pointer or the container at @p. */
struct wc_error *path_to_element(struct path_place *p, const struct locate_step *step,
				 const struct memory_view *mem);

/* Of the array @t at @p: where its elements are; remembers the places that tell it. */
struct wc_error *path_array_shape(struct path_place *p, const struct dtype *t, const struct memory_view *mem,
				  struct array_shape *ret);

/*
 * Applies @step where values are involved: arithmetic, casts, "&", slices, and whatever is done to their
 * results. *@done: it was such a step.
 */
struct wc_error *path_step_value(struct path_place *p, const struct locate_step *step,
				 const struct memory_view *mem, bool *done);

/* The type that is called @name ("struct conn", "ns::Derived"), best one near @p. */
struct wc_error *path_find_type(const struct path_place *p, const char *name, struct dtype *ret,
				uint64_t *bias);

/*
 * Moves @addr, of an object of type @from, to where its part, or the whole of which it is a part, of type @to
 * is, if they are classes of which one derives from the other. @p: what it is called.
 */
struct wc_error *path_convert_class(const struct path_place *p, const struct dtype *from,
				    const struct dtype *to, const struct memory_view *mem, uint64_t *addr);

/*
 * Goes from a std::unique_ptr or std::shared_ptr, of the stripped type @s, to the pointer inside. *@is: it was
 * one. @array: only of those that have several elements.
 */
struct wc_error *path_open_smart_pointer(struct path_place *p, const struct dtype *s, bool array,
					 const struct memory_view *mem, bool *is);

/* Why '[n]' finds nothing in the container of the stripped type @s, and what does; NULL: it is none. */
struct wc_error *path_no_container_element(const struct path_place *p, const struct dtype *s);

/* A pointer to an array of Ada's with its bounds: @t is what GNAT makes of it. */
bool dtype_is_fat_pointer(const struct dtype *stripped);

#endif
