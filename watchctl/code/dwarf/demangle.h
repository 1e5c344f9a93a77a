/*
 * demangle - C++ and Rust symbol names as people write them; private to watchctl/code/. Wraps libiberty, which
 * knows the Itanium C++ ABI and both of Rust's manglings.
 */
#ifndef WATCHCTL_CODE_DWARF_DEMANGLE_H
#define WATCHCTL_CODE_DWARF_DEMANGLE_H

#include <stdbool.h>

/*
 * The name behind the mangled @symbol, malloc'd; NULL: not mangled, or no memory. C++ functions have their
 * parameters, and clones " [clone .cold]"; Rust's names lose their hashes.
 */
char *demangle(const char *symbol);

/* The same without parameters, return type and clone: "ns::f<int>". */
char *demangle_bare(const char *symbol);

/* A copy of @symbol for people: demangled if it is mangled, without "@VERSION". NULL: no memory. */
char *demangle_or_copy(const char *symbol);

#endif
