/* demangle - C++ and Rust symbol names as people write them; private to stackwalk/. */
#ifndef STACKWALK_DEMANGLE_H
#define STACKWALK_DEMANGLE_H

#include <stdbool.h>

/*
 * The name behind the mangled @symbol, malloc'd; NULL: not mangled, or no memory. Rust's legacy
 * names lose the hash at their end; Rust's v0 names ("_R...") are not understood.
 */
char *demangle(const char *symbol);

/* A copy of @symbol for people: demangled if it is mangled, without "@VERSION". NULL: no memory. */
char *demangle_or_copy(const char *symbol);

#endif
