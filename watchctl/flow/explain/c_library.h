/* c_library - which modules are the C library's and the loader's, by their file names. */
#ifndef WATCHCTL_FLOW_EXPLAIN_C_LIBRARY_H
#define WATCHCTL_FLOW_EXPLAIN_C_LIBRARY_H

#include <stdbool.h>

/* @module: a base name, like "libc.so.6"; NULL is none. */
bool c_library_has(const char *module);

#endif
