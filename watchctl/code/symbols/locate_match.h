/* locate_match - qualified names and paths, and what people leave out of them; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_SYMBOLS_LOCATE_MATCH_H
#define WATCHCTL_CODE_SYMBOLS_LOCATE_MATCH_H

#include <stdbool.h>

/* The component of a scope that has no name. */
#define LOCATE_ANONYMOUS "(anonymous namespace)"

/* How well a name fits; higher is better. */
enum name_fit { FIT_NONE, FIT_SUFFIX, FIT_EXACT };

/* How well the qualified name @scope::@name answers to @query. @scope may be NULL. */
enum name_fit locate_name_fit(const char *scope, const char *name, const char *query);

/* The same where "FLAG" and "flag" are one name. */
enum name_fit locate_name_fit_folded(const char *scope, const char *name, const char *query);

/* Whether @path is what a user means by @file: equal, or ends in "/@file". */
bool locate_path_fit(const char *path, const char *file);

/* Where the last component of @name begins: after the last "::", or a Go package's '.'. */
const char *locate_last_component(const char *name);

/* Behind "(int) const" of "(int) const::x", the parameters of a function that is a scope; NULL: it is none. */
const char *locate_skip_parameters(const char *s);

/*
 * Rust's thread_local!() hides the variable inside items of its own: "crate::NAME::__getit::__KEY" is what
 * the program calls "crate::NAME". Cuts @full in place.
 */
void locate_cut_thread_local(char *full);

/* The scope in a demangled name, "ns::f(int)::x" -> "ns::f"; NULL: none. Takes @full, which may be NULL. */
char *locate_scope_of(char *full);

#endif
