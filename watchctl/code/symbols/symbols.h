/*
 * symbols - the symbol table of a file: its own, that of its debug file, .gnu_debugdata or .dynsym,
 * whichever says most; private to watchctl/code/. Addresses are file addresses.
 */
#ifndef WATCHCTL_CODE_SYMBOLS_SYMBOLS_H
#define WATCHCTL_CODE_SYMBOLS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/elf/elffile.h"

enum symbol_use { SYMBOL_CODE, SYMBOL_DATA, SYMBOL_TLS };

struct symbol {
	const char *name; /* raw: mangled, perhaps with "@VERSION"; lives as long as the elffile */
	uint64_t addr, size;
	enum symbol_use use;
	bool indirect; /* STT_GNU_IFUNC: code that returns the address of the function to be used */
	uint8_t bind, visibility; /* STB_*, STV_* */
};

struct symbols;

/* Reads the table; a file without one gives an empty one. NULL: no memory. */
struct symbols *symbols_new(struct elffile *f);
void symbols_free(struct symbols *s);

/* All of them, in the order of the table. */
const struct symbol *symbols_all(const struct symbols *s, size_t *n);

bool symbols_has_code(const struct symbols *s);

/* True if there is no full table: only what the file exports has a name. */
bool symbols_are_exported_only(const struct symbols *s);

/*
 * The code (or with @data, the code or data) symbol that covers @addr; [*start, *end) is what it covers.
 * A symbol without a size, as assembler programs have, covers what lies before the next one. NULL: none.
 */
const struct symbol *symbols_find(const struct symbols *s, uint64_t addr, bool data, uint64_t *start,
				  uint64_t *end);

#endif
