/*
 * static_owner - the functions that static variables are declared in, by the variables' addresses. Their symbols do not
 * say: two of one name are told apart by numbers of the compiler's.
 */
#ifndef WATCHCTL_CODE_DWARF_STATIC_OWNER_H
#define WATCHCTL_CODE_DWARF_STATIC_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/elf/elffile.h"

/* Of larger debug information the rest is not looked at. */
#define STATIC_OWNER_ENTRIES_MAX 8000000u

struct static_owners;

/* Reads the debug information of @f once, all of it. NULL: no memory. */
struct static_owners *static_owners_new(struct elffile *f);
void static_owners_free(struct static_owners *o); /* accepts NULL */

/* *@function: where the code of the function begins that declares the variable at @vaddr. False: none is known. */
bool static_owners_find(const struct static_owners *o, uint64_t vaddr, uint64_t *function);

#endif
