/*
 * cc_clang - which clang is used, and which plugin: each is of one version of LLVM, and the clang's decides.
 */
#ifndef CALLTRACE_CC_CC_CLANG_H
#define CALLTRACE_CC_CC_CLANG_H

#include <limits.h>
#include <stdbool.h>

struct cc_clang {
	char program[PATH_MAX]; /* a path, or a name in PATH */
	char plugin[PATH_MAX + 32];
};

/*
 * @chosen is the compiler that the user wants; without (NULL, ""), it is the newest one in PATH of those that have a
 * plugin in @folder, or the name of the newest, if there is none. WC_EFAIL: @chosen cannot be asked, or has no plugin.
 * Asking takes as long as starting it: a name that ends in its version is not asked.
 */
struct wc_error *cc_clang_find(const char *chosen, bool is_cxx, const char *folder, struct cc_clang *ret);

#endif
