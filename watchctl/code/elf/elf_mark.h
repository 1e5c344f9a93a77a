/* elf_mark - what shows from its sections and names what an executable is made of. */
#ifndef WATCHCTL_CODE_ELF_ELF_MARK_H
#define WATCHCTL_CODE_ELF_ELF_MARK_H

#include <stddef.h>

struct elf_mark {
	const char *section; /* there is one of this name; NULL: any */
	const char *symbol; /* ... with this in a symbol's name, the file's own or one that it asks for; NULL:
			       no matter */
};

/* The first of @n marks that the open file @fd has, as an index; @n: none, or it is no ELF file. */
size_t elf_mark_find(int fd, const struct elf_mark *mark, size_t n);

#endif
