/*
 * show - the values of variables of a live process as people read them: structures with their members,
 * arrays, what pointers point to, strings. Reads memory only; the program may change it in between.
 */
#ifndef WATCHCTL_CODE_LOCATE_SHOW_H
#define WATCHCTL_CODE_LOCATE_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/locate.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/symbols/symbolizer.h"

/* Where everything comes from; all must outlive the calls. */
struct show_source {
	struct locator *locator;
	const struct module_list *modules;
	const struct memory_view *mem;
	struct symbolizer *symbolizer; /* names what pointers point to */
};

/* What an expression means. */
struct shown {
	uint64_t addr;
	uint64_t size;	 /* of the object; 0: not known */
	uint64_t stride; /* of what "+ 1" goes on by: of an element, of what a pointer points to; 1: not known
			  */
	bool is_lvalue_address; /* an array, a function or an object: its place is what examining it looks at
				 */
	bool is_scalar;		/* a number or a pointer: @value */
	bool is_pointer;
	uint64_t value;
	bool has_value; /* it could be read */
};

/*
 * @format: 0, as the type says; or one of "xduotacfs", for each scalar inside, as gdb has them: hexadecimal,
 * signed, unsigned, octal, binary, address, character, floating point, string. *@ret is the caller's to free;
 * it has line breaks where it would be long, and only printable characters. Errors as of locate(), and
 * WC_ENAME for a thread-local variable, of which every thread has its own.
 */
struct wc_error *show_value(const struct show_source *s, const char *expr, char format, char **ret);

/* "(int *) 0x55..  name": the address of what @expr means. */
struct wc_error *show_address(const struct show_source *s, const char *expr, char **ret);

/* Where @expr is, and what can be made an address of. */
struct wc_error *show_locate(const struct show_source *s, const char *expr, struct shown *ret);

/* One number of @size (1, 2, 4, 8) bytes in one of the formats above but 's'. @padded: "x" with all its
 * digits. */
void show_number(const struct show_source *s, char format, unsigned int size, uint64_t raw, bool padded,
		 char *buf, size_t len);

/*
 * The string of characters at @addr, with quotes, as C has it; at most @most characters, "..." behind it if
 * it goes on. *@len: bytes it takes in memory, with the NUL. NULL: nothing can be read there, or no memory.
 */
char *show_string(const struct memory_view *mem, uint64_t addr, size_t most, size_t *len);

#endif
