/*
 * dwarf_names - function, file and line of a file address, with the functions inlined there; private
 * to watchctl/code/.
 */
#ifndef WATCHCTL_CODE_DWARF_DWARF_NAMES_H
#define WATCHCTL_CODE_DWARF_DWARF_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/elf/elffile.h"

struct dwarf_frame {
	char *function;	  /* demangled, the receiver's to free; NULL: unknown */
	const char *file; /* lives as long as the elffile; NULL: unknown */
	unsigned int line;
	const void *id; /* the same for all parts of one function, or of one call that was inlined */
};

struct dwarf_place {
	bool has_function;   /* false: only the line is known, in one frame */
	bool in_entry_range; /* false: in a part split off, such as the unlikely paths */
	uint64_t start, end; /* the contiguous range around the address */
	size_t nframes;
	struct dwarf_frame *frame; /* innermost first; the receiver's to free */
};

struct dwarf_names;

struct dwarf_names *dwarf_names_new(struct elffile *f); /* NULL: no memory */
void dwarf_names_free(struct dwarf_names *d);

/* False: the debug information says nothing about @vaddr, or there is none, or no memory. */
bool dwarf_names_lookup(struct dwarf_names *d, uint64_t vaddr, struct dwarf_place *ret);

/*
 * The entry of the function whose first instruction is at @vaddr, and that of its unit; DWARF address +
 * *@bias = vaddr. False: none is known to begin there.
 */
bool dwarf_names_function(struct dwarf_names *d, uint64_t vaddr, Dwarf_Die *ret, Dwarf_Die *unit,
			  uint64_t *bias);

void dwarf_place_deinit(struct dwarf_place *p);

#endif
