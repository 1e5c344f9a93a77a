/*
 * self_modules - the modules of the own process, and whether one is still the one that it was.
 */
#ifndef STACKWALK_SELF_MODULES_H
#define STACKWALK_SELF_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/unwind/eh_frame.h"

/* Most modules that may be unloaded, counting each that was ever met; beyond it nothing is remembered of one.
 */
#define SELF_MODULES_MAX 1024u
#define SELF_MODULE_PASSING (SELF_MODULES_MAX + 1) /* the id of those */

struct self_module {
	struct eh_image image;	 /* empty: it has no .eh_frame */
	uint64_t code, code_end; /* the segment with its code; 0: it cannot be read */
	uint32_t id;		 /* 0: never unloaded */
};

enum self_found {
	SELF_MODULE,
	SELF_NO_MODULE, /* none: memory that the program filled with code itself, or no code at all */
	SELF_UNKNOWN,	/* this C library cannot tell */
};

/* Once, when the library is loaded. */
void self_modules_setup(void);

/* The module whose span holds @pc. */
enum self_found self_module_find(uint64_t pc, struct self_module *ret);

/* True when the module that was given @id, not 0, is mapped now where it was then. */
bool self_module_is_there(uint32_t id);

#endif
