/* symbol_address - the address of a function or variable by its symbol's name. */
#ifndef WATCHCTL_CODE_SYMBOLS_SYMBOL_ADDRESS_H
#define WATCHCTL_CODE_SYMBOLS_SYMBOL_ADDRESS_H

#include <stdint.h>

#include "watchctl/code/elf/module.h"

/* The runtime address of @name in @m, without regard to symbol versions; 0: not there. */
uint64_t symbol_address(const struct module *m, const char *name);

#endif
