/* patch_module - one module whose code is looked at: its file, and the map of its code. */
#ifndef WATCHCTL_PATCH_PLAN_PATCH_MODULE_H
#define WATCHCTL_PATCH_PLAN_PATCH_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/symbols/code_image.h"
#include "watchctl/patch/plan/code_map.h"

struct patch_module {
	struct module module;
	struct code_image *image;
	struct code_map map;	       /* empty before patch_module_map() */
	const struct free_space *room; /* of the process; NULL: not known; the owner's */
	uint64_t sweep_ns;	       /* processor time that patch_module_map() took */
};

/* @mem: of the process that has it mapped, or NULL. Errors as code_image_open() has them. */
struct wc_error *patch_module_open(const struct module *m, const struct memory_view *mem,
				   struct patch_module *ret);
void patch_module_deinit(struct patch_module *p); /* accepts zeros */

/* Makes the map. */
struct wc_error *patch_module_map(struct patch_module *p);

/* The module that the file at @path is, not loaded anywhere. WC_ENAME: there is none. */
struct wc_error *patch_module_of_file(const char *path, struct module *ret);

#endif
