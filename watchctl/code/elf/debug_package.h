/* debug_package - which package of this system has the debug information of a file, for advice on what to install. */
#ifndef WATCHCTL_CODE_ELF_DEBUG_PACKAGE_H
#define WATCHCTL_CODE_ELF_DEBUG_PACKAGE_H

#include "watchctl/code/elf/module.h"

/* A sentence, without its capital letter and full stop, malloc'd. NULL: no Debian package installed @path. */
char *debug_package_advice(const char *path);

/* Adds the sentence to the text of @err, which it takes, if a package of this system installed the file of @m. */
struct wc_error *debug_package_hint(struct wc_error *err, const struct module *m);

#endif
