/*
 * step_globals - the variables of recorded modules whose changes are reported: by what symbols of writable data cover,
 * the smallest ones first, up to a bound.
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_GLOBALS_H
#define WATCHCTL_STEP_MODEL_STEP_GLOBALS_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/step/model/step_select.h"

#define GLOBALS_DEFAULT (64u << 10)
#define GLOBALS_MAX (16u << 20)

struct step_global {
	uint64_t start, end; /* in the process */
	uint64_t module;     /* where the module begins that has it */
	const char
		*name; /* as long as the step_globals: of each symbol of a file one, wherever it is loaded */
};

struct globals_module;

/* Zero-initialised is empty. */
struct step_globals {
	struct step_global *v; /* by address */
	size_t n, cap;
	size_t left_out;	       /* variables that the bound has no room for */
	uint64_t left_out_bytes;       /* of them */
	struct globals_module *module; /* that were read: files, each once */
	size_t nmodules, modules_cap;
};

/*
 * The variables of those of @modules that @selection records, of @max bytes together, in place of those before. The
 * symbols of a file are read when it is first met.
 */
struct wc_error *step_globals_read(struct step_globals *g, const struct module_list *modules,
				   const struct step_selection *selection, uint64_t max);

/* The one that holds @address; NULL: none. */
const struct step_global *step_globals_find(const struct step_globals *g, uint64_t address);

void step_globals_deinit(struct step_globals *g);

#endif
