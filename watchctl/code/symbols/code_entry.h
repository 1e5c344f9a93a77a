/*
 * code_entry - where calls can enter the code of a file, and how it calls other files: functions by symbol
 * and unwind tables, PLT stubs, pointers that the dynamic linker fills in. Addresses are those of the file.
 */
#ifndef WATCHCTL_CODE_SYMBOLS_CODE_ENTRY_H
#define WATCHCTL_CODE_SYMBOLS_CODE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/elf/module.h"

/* How the file calls a function of another one, or of its own by way of the dynamic linker. */
struct code_stub {
	uint64_t address;  /* of the stub's first instruction; 0: none, code calls through the slot itself */
	uint64_t slot;	   /* the pointer that it jumps through */
	const char *name;  /* as the linker knows it, without version; NULL: not known */
	uint64_t resolver; /* of an indirect function: the code that chooses; 0: it is not known to be one */
	bool is_own;	   /* the function is defined in the file itself */
};

struct code_entries;

/* Reads the file when first asked. NULL: no memory. */
struct code_entries *code_entries_new(const struct module *m);
void code_entries_free(struct code_entries *e); /* accepts NULL */

/* Whether a function begins at @vaddr: a symbol says so, or an entry of the unwind tables begins there. */
bool code_entry_is_function(struct code_entries *e, uint64_t vaddr);

/* The function that the file exports under @name. *@indirect: *@vaddr is code that chooses it. */
bool code_entry_export(struct code_entries *e, const char *name, uint64_t *vaddr, bool *indirect);

/* Whether the file is a program with the C library inside. False also of one that has lost its symbols. */
bool code_entry_is_static_program(struct code_entries *e);

/* By address, then slot. Strings live as long as @e. */
const struct code_stub *code_entry_stubs(struct code_entries *e, size_t *n);

/* The bytes of code at @vaddr as the file has them, and how many there are up to the end of its segment; 0:
 * none. */
size_t code_entry_bytes(struct code_entries *e, uint64_t vaddr, const uint8_t **ret);

#endif
