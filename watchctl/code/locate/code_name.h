/*
 * code_name - names of code -> addresses.
 *
 *	code	 = function [ "+" number ] | file ":" line | "0x..."
 *	function = [ prefix ":" [ file ":" ] ] name
 *	prefix	 = a source file ("file.c") or a module ("libx.so"), as in locate.h
 *	name	 = as in the source: "main", "ns::Class::method" (ambiguous if it has overloads; its parameters select one),
 *		   "main.(*Pool).get", "crate::module::function"; the end of a qualified name, where it is unique
 *	number	 = decimal or 0x hexadecimal, the offset of an instruction
 */
#ifndef WATCHCTL_CODE_LOCATE_CODE_NAME_H
#define WATCHCTL_CODE_LOCATE_CODE_NAME_H

#include "watchctl/code/locate/locate.h"

struct code_range {
	uint64_t start, end; /* [start, end), runtime addresses */
};

/*
 * Finds the address that @expr means, for an execute watch: *@ret has its addr, size 1, name
 * ("file.c:f+0x12"), module, and decl_file and decl_line as the line of the code. A raw address has no module
 * if none holds it; whether it can be executed is the caller's to check. Errors, WC_ENAME unless said
 * otherwise:
 *  - malformed (WC_EUSAGE): with a caret, as locate();
 *  - unknown: near misses; ambiguous: the candidates, in the form that selects each;
 *  - offset outside the function, or inside an instruction: the nearest boundaries;
 *  - a line without code: the nearest lines with code; of several places: their addresses;
 *  - an indirect function, which is chosen when the program starts (memcpy): its implementations;
 *  - inlined everywhere: the lines where.
 * *@missing_module as in locate().
 */
struct wc_error *locate_code(struct locator *l, const char *expr, const struct module_list *modules,
			     const struct memory_view *mem, struct variable *ret, bool *missing_module);

/*
 * All code of the functions called @function (a "function" of the grammar above): every copy of it in every
 * module or those that the prefix leaves, the parts and clones that the compiler made of it (.cold, .part,
 * .constprop, .isra), and the places where it was inlined. Sorted by start, without overlaps; *@ret is the
 * caller's to free. Errors as above; several functions of that name are no error.
 */
struct wc_error *code_ranges(struct locator *l, const char *function, const struct module_list *modules,
			     struct code_range **ret, size_t *n, bool *missing_module);

#endif
