/*
 * code_source - which functions of a module are defined in source files that globs fit, by its debug information: the file that
 * declares a function, or the one that its compilation unit was made from. Debug information is found as for names (elffile.h).
 *
 * A glob fits a path, or the end of one that begins behind a '/'. '*' and '?' fit no '/'. A glob that ends in '/' fits all files below
 * a folder of that name.
 */
#ifndef WATCHCTL_CODE_LOCATE_CODE_SOURCE_H
#define WATCHCTL_CODE_LOCATE_CODE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"

/* Whether @glob fits the source file @path. */
bool code_source_fits(const char *path, const char *glob);

/* The code of one module that was chosen. */
struct code_source_ranges;

void code_source_ranges_free(struct code_source_ranges *r); /* accepts NULL */

/* Whether the function that begins at @addr, of the file, was chosen. */
bool code_source_ranges_have(const struct code_source_ranges *r, uint64_t addr);

struct code_source_choice;

/* @glob, @n of them, must outlive it. NULL: no memory. */
struct code_source_choice *code_source_choice_new(const char *const *glob, size_t n);
void code_source_choice_free(struct code_source_choice *c); /* accepts NULL */

/*
 * Reads the debug information of @m. *@ret, which may hold nothing, is the caller's: code_source_ranges_free(). WC_ENAME: there is
 * none, with the package that has it; or it is damaged. Takes up to seconds where it is large.
 */
struct wc_error *code_source_choose(struct code_source_choice *c, const struct module *m,
				    struct code_source_ranges **ret);

/* WC_ENAME: one of the globs fits no source file with code in the modules that were read so far, with near names. */
struct wc_error *code_source_check(const struct code_source_choice *c);

#endif
