/* data_symbols - the objects in a module's writable data that have a name and a size: variables, static ones too. */
#ifndef WATCHCTL_CODE_SYMBOLS_DATA_SYMBOLS_H
#define WATCHCTL_CODE_SYMBOLS_DATA_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"

struct data_symbol {
	uint64_t addr, size; /* in the file: runtime address minus bias */
	char *name;	     /* demangled */
};

/*
 * By address, none overlapping another; the receiver frees with data_symbols_free(). What the loader makes
 * read-only once it has relocated it (PT_GNU_RELRO) is not among them. A file that cannot be read has none.
 */
struct wc_error *data_symbols_read(const struct module *m, struct data_symbol **ret, size_t *n);

void data_symbols_free(struct data_symbol *v, size_t n);

#endif
