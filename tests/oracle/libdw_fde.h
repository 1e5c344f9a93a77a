/*
 * libdw_fde - which functions a CFI table describes.
 *
 * libdw finds the row for an address but does not tell the bounds of its FDE. This reads them from
 * the section itself, all at once, sorted.
 */
#ifndef TESTS_ORACLE_LIBDW_FDE_H
#define TESTS_ORACLE_LIBDW_FDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libelf.h>

struct fde_range {
	uint64_t start, end; /* [start, end), addresses of the file */
};

struct fde_index {
	struct fde_range *v;
	size_t n, cap;
};

/*
 * Adds the FDEs of section @name (".eh_frame", ".debug_frame") of @elf, adding @bias to each address.
 * What cannot be parsed is left out. False: no memory.
 */
bool fde_index_add(struct fde_index *x, Elf *elf, const char *name, uint64_t bias);

/* After the last _add. */
void fde_index_sort(struct fde_index *x);

/* NULL: none holds @addr. */
const struct fde_range *fde_index_find(const struct fde_index *x, uint64_t addr);

void fde_index_deinit(struct fde_index *x);

#endif
