/*
 * names - what an expression that is being typed can go on with: variables, members of structures, functions.
 * For completion, in the REPL and in shells. Nothing is read from a process but its list of modules.
 */
#ifndef WATCHCTL_CODE_LOCATE_NAMES_H
#define WATCHCTL_CODE_LOCATE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/locate/locate.h"

enum names_of {
	NAMES_VARIABLES, /* and, after "." and "->", members: what locate() understands */
	NAMES_FUNCTIONS, /* what code_ranges() and an execute watch understand */
};

/*
 * Calls @each with texts that begin with @prefix and may stand in its place, sorted, each once, until there
 * were
 * @most or it returns false. With an empty @prefix the program's own variables come, without those of its
 * libraries. A prefix like "head->next->l" gives members ("head->next->len"); "libx.so:f", "file.c:f" and the
 * operators before a name ("*p", "&flag") are understood. Pointers are followed by their types alone, also
 * null ones.
 *
 * The names are those of the process @pid or, if that is 0, of the file @program, looked for in $PATH when it
 * has no '/'. Unknown is no error: there are no names then. WC_ETARGET, WC_EPERM: the process cannot be
 * looked at; WC_ENAME: no such program, or none with names in it.
 */
struct wc_error *names_list(pid_t pid, const char *program, const char *prefix, enum names_of what,
			    size_t most, bool (*each)(void *ctx, const char *name), void *ctx);

/* The same for modules that are at hand; @l keeps what was read for the next time. Never fails but for
 * memory. */
struct wc_error *names_find(struct locator *l, const struct module_list *modules, const char *prefix,
			    enum names_of what, size_t most, bool (*each)(void *ctx, const char *name),
			    void *ctx);

#endif
