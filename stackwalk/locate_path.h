/* locate_path - follows ".member", "->member", "[n]" and "*" from a variable; private to stackwalk/. */
#ifndef STACKWALK_LOCATE_PATH_H
#define STACKWALK_LOCATE_PATH_H

#include "stackwalk/locate.h"
#include "stackwalk/locate_parse.h"
#include "stackwalk/locate_type.h"
#include "watchctl/base/error.h"

struct path_place {
	uint64_t addr; /* in thread-local storage an offset, as in struct hit */
	bool is_tls;
	uint64_t size; /* of the symbol, where there is no type; 0: unknown */
	struct dtype type;
	unsigned int bit_offset, bit_size;
	uint64_t storage;
	/* The pointers that were read on the way, as in struct variable. */
	uint64_t pointer[LOCATE_POINTERS];
	unsigned int npointers;
	bool null_pointer; /* the last one leads nowhere: set with an error */
	char *text;	   /* the path so far, as a person writes it; the owner's to free */
	bool text_is_deref;
};

/* Applies one step. On error @p keeps what it had, but for what it says of pointers. */
struct wc_error *path_step(struct path_place *p, const struct locate_step *step,
			   const struct memory_view *mem);

/* Goes from a C++ reference to what it refers to. */
struct wc_error *path_follow_reference(struct path_place *p, const struct memory_view *mem);

#endif
