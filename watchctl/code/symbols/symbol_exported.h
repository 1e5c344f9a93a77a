/* symbol_exported - a file's table of exported symbols, by name; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_SYMBOLS_SYMBOL_EXPORTED_H
#define WATCHCTL_CODE_SYMBOLS_SYMBOL_EXPORTED_H

#include <stdbool.h>

#include <gelf.h>

/* The entry of @name, without regard to versions. False: @elf (may be NULL) does not define it. */
bool symbol_exported(Elf *elf, const char *name, GElf_Sym *ret);

/* Whether it is linked with libraries (DT_NEEDED). */
bool symbol_needs_libraries(Elf *elf);

#endif
