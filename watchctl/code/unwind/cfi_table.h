/*
 * cfi_table - the CFI of a file, in .eh_frame or .debug_frame; private to watchctl/code/.
 *
 * Read by eh_frame.c and not by libdw, which makes tables as long as the highest register number that CFI
 * names: files of a few bytes can ask it for gigabytes.
 */
#ifndef WATCHCTL_CODE_UNWIND_CFI_TABLE_H
#define WATCHCTL_CODE_UNWIND_CFI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gelf.h>

#include "watchctl/code/unwind/eh_frame.h"
#include "watchctl/code/unwind/unwind_program.h"

/* Zero-initialised has no functions. */
struct cfi_table {
	struct eh_image image;
	bool has_table, indexed;
	struct eh_function *v; /* sorted by start, once asked for */
	size_t n, cap;
};

/* The bytes that @elf has from @vaddr on, and in *@len how many; NULL: none. */
const uint8_t *cfi_file_bytes(Elf *elf, uint64_t vaddr, size_t *len);

/* They look into the file as long as they are used. False: it has none. */
bool cfi_table_open_eh(struct cfi_table *t, Elf *elf);
bool cfi_table_open_debug(struct cfi_table *t, Elf *elf);

/* As eh_frame_rule(). */
bool cfi_table_rule(struct cfi_table *t, uint64_t pc, struct unwind_rule *ret);

/* As unwind_program_at(): into what @t was opened on. */
bool cfi_table_program(struct cfi_table *t, uint64_t pc, struct unwind_program *ret);

/* The function that holds @pc; NULL: none. */
const struct eh_function *cfi_table_function(struct cfi_table *t, uint64_t pc);

/* Whether it has any function. */
bool cfi_table_has_functions(struct cfi_table *t);

/* All of them, as eh_frame_next(). */
bool cfi_table_next(const struct cfi_table *t, struct eh_function *f);

void cfi_table_deinit(struct cfi_table *t);

#endif
