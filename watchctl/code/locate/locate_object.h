/* locate_object - an expression -> what it means, with its type as debug information has it; private to
 * watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_LOCATE_OBJECT_H
#define WATCHCTL_CODE_LOCATE_LOCATE_OBJECT_H

#include "watchctl/code/locate/locate.h"
#include "watchctl/code/locate/locate_path.h"

/* place.text is the object's to free. */
struct object {
	struct path_place place;
	bool is_function;
	struct tls_place tls; /* place.is_tls, and it was asked for */
};

/*
 * As locate(), but for the type. @tls: also where each thread has it, if it is thread-local. *@ret is written
 * on success; it is valid as long as @l.
 */
struct wc_error *locate_object(struct locator *l, const char *expr, const struct module_list *modules,
			       const struct memory_view *mem, bool tls, struct object *ret);

void object_deinit(struct object *o);

#endif
