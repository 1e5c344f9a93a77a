/* build_id_notes - the build id in the notes of a module that is mapped into this process (gABI, "Note Section"). */
#ifndef WATCHCTL_CODE_ELF_BUILD_ID_NOTES_H
#define WATCHCTL_CODE_ELF_BUILD_ID_NOTES_H

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "watchctl/code/elf/module.h"

/* Of the notes [@note, @end): the bytes of @ret (BUILD_ID_MAX), of which it returns the number; 0: there is none. */
static inline uint8_t build_id_in_notes(const char *note, const char *end, uint8_t *ret)
{
	while ((size_t)(end - note) >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *n = (const ElfW(Nhdr) *)note;
		const char *name = note + sizeof(*n), *desc = name + ((n->n_namesz + 3) & ~3ull);

		if (desc > end || n->n_descsz > (size_t)(end - desc))
			return 0;
		if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && !memcmp(name, "GNU", 4) &&
		    n->n_descsz <= BUILD_ID_MAX) {
			memcpy(ret, desc, n->n_descsz);
			return (uint8_t)n->n_descsz;
		}
		note = desc + ((n->n_descsz + 3) & ~3ull);
	}
	return 0;
}

#endif
