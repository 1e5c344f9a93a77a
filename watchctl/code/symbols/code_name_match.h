/* code_name_match - the names of functions, and what people leave out of them; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_SYMBOLS_CODE_NAME_MATCH_H
#define WATCHCTL_CODE_SYMBOLS_CODE_NAME_MATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/code/symbols/locate_match.h"

/* What a function's symbol is to the function. */
enum hit_part {
	HIT_WHOLE,
	HIT_CLONE, /* a copy that the compiler made for some of its callers */
	HIT_PART,  /* split off: it does not begin here */
};

/*
 * How well the function of the linker's name @symbol answers to @query; *@part shows what it is to it. In C++
 * the parameters, the arguments of templates and return types may be left out.
 */
enum name_fit code_name_fit(const char *symbol, const char *query, enum hit_part *part);

/*
 * Cuts the last suffix (and its number) that a compiler gave to a part or copy of a function from @name, and
 * raises
 * *@part to what that says. False: it has none.
 */
bool code_name_cut_suffix(char *name, enum hit_part *part);

/* For people: with parameters, without a version, and with "[clone .cold]" as the symbol has it (".cold"). */
char *code_name_shown(const char *symbol); /* NULL: no memory */

/* A part of @query that every mangled name of it contains, with its length; 0: nothing. */
const char *code_name_word(const char *query, size_t *len);

#endif
