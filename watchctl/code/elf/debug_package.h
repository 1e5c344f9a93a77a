/* debug_package - which package of this system has the debug information of a file, for advice on what to install. */
#ifndef WATCHCTL_CODE_ELF_DEBUG_PACKAGE_H
#define WATCHCTL_CODE_ELF_DEBUG_PACKAGE_H

#include "watchctl/code/elf/module.h"

/*
 * Returns the sentence, without its capital letter and full stop, malloc'd. NULL: the file of @m has debug information
 * (itself or in a separate file), is not the one at its path, or was not installed by a Debian package.
 */
char *debug_package_advice(const struct module *m);

/* The same of the file at @path, if it has that build id; without one it need not be the file. */
char *debug_package_advice_at(const char *path, const uint8_t *build_id, uint8_t build_id_len);

/* Adds the sentence, if there is one, to the text of @err, which it takes. */
struct wc_error *debug_package_hint(struct wc_error *err, const struct module *m);

#endif
