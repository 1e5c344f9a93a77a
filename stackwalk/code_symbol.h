/* code_symbol - the address of a function by its symbol's name. */
#ifndef STACKWALK_CODE_SYMBOL_H
#define STACKWALK_CODE_SYMBOL_H

#include <stdint.h>

#include "stackwalk/module.h"

/* The runtime address of function @name in @m, without regard to symbol versions; 0: not there. */
uint64_t code_symbol_address(const struct module *m, const char *name);

#endif
