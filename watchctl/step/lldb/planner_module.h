/*
 * planner_module - the modules of a planner, and the functions in each: which addresses are entries that a
 * breakpoint may be put on, what they are called, and where stubs lead to.
 */
#ifndef WATCHCTL_STEP_LLDB_PLANNER_MODULE_H
#define WATCHCTL_STEP_LLDB_PLANNER_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/map64.h"
#include "watchctl/code/dwarf/param_place.h"
#include "watchctl/code/strings.h"
#include "watchctl/code/symbols/code_entry.h"
#include "watchctl/code/unwind/cfi.h"
#include "watchctl/step/lldb/lldb_shim.h"
#include "watchctl/step/model/planner.h"

/* A function or stub of a module. */
struct known_function {
	struct planner_function f; /* addresses of the process */
	const char *linkage;	   /* the linker's name; NULL: none */
};

struct known_module {
	struct module m; /* a copy */
	bool gone;
	struct lldb_module *lldb; /* NULL: LLDB cannot read it */
	struct code_entries *entries;
	struct param_places *places;
	bool is_listed;
	struct known_function *function; /* that it defines, by address */
	size_t nfunctions, function_cap;
	struct known_function *stub; /* by address; rewritten each time they are asked for */
	size_t nstubs, stub_cap;
	struct map64 plans[2]; /* file address -> function_plan; [1]: stepped over */
};

struct known_modules {
	struct lldb_session *session;
	struct strings *pool;
	struct memory_view memory;
	struct cfi *cfi;
	struct known_module **v;
	size_t n, cap;
};

void known_modules_deinit(struct known_modules *k);

struct wc_error *known_modules_set(struct known_modules *k, const struct module_list *list);

/* The module around @address, and the one that is the same as @m; NULL: none. */
struct known_module *known_module_at(struct known_modules *k, uint64_t address);
struct known_module *known_module_of(struct known_modules *k, const struct module *m);

/* Fills in function[]. */
struct wc_error *known_module_list(struct known_modules *k, struct known_module *m);

/* Fills in stub[]: of PLT stubs, and of functions of other modules that m has pointers to. */
struct wc_error *known_module_list_stubs(struct known_modules *k, struct known_module *m);

/* NULL: none begins at @address. */
const struct known_function *known_module_function(const struct known_module *m, uint64_t address);
const struct known_function *known_module_stub(const struct known_module *m, uint64_t address);

/*
 * The module, other than @except (may be NULL), that exports @name, and where; the first in the order of
 * addresses, but the program itself before all. *@n: how many do. False: none.
 */
bool known_modules_export(struct known_modules *k, const char *name, const struct known_module *except,
			  struct known_module **ret, uint64_t *vaddr, size_t *n);

/* One of the runtime's own libraries: a function there is what its name in the manual says. */
bool known_module_is_runtime(const struct known_module *m);

#endif
