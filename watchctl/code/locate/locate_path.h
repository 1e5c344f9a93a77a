/* locate_path - follows ".member", "->member", "[n]" and "*" from a variable; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_LOCATE_PATH_H
#define WATCHCTL_CODE_LOCATE_LOCATE_PATH_H

#include "watchctl/base/error.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/lookup/locate_parse.h"
#include "watchctl/code/lookup/locate_type.h"

struct locator;
struct module_list;

enum path_kind {
	PATH_OBJECT,  /* what lies at @addr */
	PATH_ADDRESS, /* a pointer that was calculated: to what lies at @addr */
	PATH_NUMBER,  /* @number */
};

/* How an operator that is written behind, or before, the text of a path takes it. */
enum path_text { TEXT_POSTFIX, TEXT_UNARY, TEXT_SUM };

struct path_place {
	enum path_kind kind;
	uint64_t addr; /* in thread-local storage an offset, as in struct hit */
	int64_t number;
	unsigned int stars; /* the object is no @type, but so many pointers to one */
	uint64_t slice;	    /* so many of them lie side by side; 0: it is one */
	/* Where types are looked for by name. */
	struct locator *locator;
	const struct module_list *modules;
	bool is_tls;
	uint64_t size; /* of the symbol, where there is no type; 0: unknown */
	struct dtype type;
	unsigned int bit_offset, bit_size;
	uint64_t storage;
	/* The pointers that were read on the way, as in struct variable. */
	uint64_t pointer[LOCATE_POINTERS];
	unsigned int npointers, bounds;
	bool may_go_on;	   /* a member, or behind a pointer: more may be allocated than its type has */
	bool null_pointer; /* the last one leads nowhere: set with an error */
	char *text;	   /* the path so far, as a person writes it; the owner's to free */
	enum path_text text_kind;
	uint64_t bias; /* of its module: address of the process minus that of the debug information */
};

/* Applies one step. On error @p keeps what it had, but for what it says of pointers. */
struct wc_error *path_step(struct path_place *p, const struct locate_step *step,
			   const struct memory_view *mem);

/* In bytes, of the object; of what was calculated, that of a pointer or a number. 0: not known. */
uint64_t path_size(const struct path_place *p);

/* Of one element of a slice, of the object, or of what an address leads to. 0: not known. */
uint64_t path_element_size(const struct path_place *p);

/* Its type, for values; false: no memory. */
bool path_value_type(const struct path_place *p, struct value_type *ret);

/* The type as in the source, malloc'd; NULL: not known, or no memory. */
char *path_type_name(const struct path_place *p);

/* The whole number that @p is or has; WC_ENAME: it has none. */
struct wc_error *path_number(struct path_place *p, const struct memory_view *mem, int64_t *ret);

/* Nothing, or why @p is no place that could be watched: a number, an address. */
struct wc_error *path_check_place(const struct path_place *p);

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
