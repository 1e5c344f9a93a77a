/* bare_name - the name of a function as people speak of it. */
#ifndef WATCHCTL_CODE_SYMBOLS_BARE_NAME_H
#define WATCHCTL_CODE_SYMBOLS_BARE_NAME_H

#include <stddef.h>

/*
 * "ns::f(int) const" -> "ns::f": the name of a C++ function without its parameters, where it has some; never
 * empty. Returns @buf.
 */
char *bare_name(const char *name, char *buf, size_t cap);

#endif
