#include "watchctl/code/elf/elf_mark.h"

#include <gelf.h>
#include <stdbool.h>
#include <string.h>

static bool has_string(Elf_Scn *scn, const GElf_Shdr *h, const char *wanted)
{
	const Elf_Data *d = h->sh_type == SHT_STRTAB ? elf_getdata(scn, NULL) : NULL;

	return d && d->d_buf && memmem(d->d_buf, d->d_size, wanted, strlen(wanted));
}

static bool is_mark(Elf_Scn *scn, const GElf_Shdr *h, const char *name, const struct elf_mark *m)
{
	return (!m->section || (name && !strcmp(name, m->section))) &&
	       (!m->symbol || has_string(scn, h, m->symbol));
}

size_t elf_mark_find(int fd, const struct elf_mark *mark, size_t n)
{
	Elf *elf = elf_version(EV_CURRENT) == EV_NONE ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	Elf_Scn *scn = NULL;
	size_t names, i, found = n;
	GElf_Shdr h;

	if (elf && elf_getshdrstrndx(elf, &names) == 0)
		while ((scn = elf_nextscn(elf, scn)))
			for (i = 0; i < found; i++)
				if (gelf_getshdr(scn, &h) &&
				    is_mark(scn, &h, elf_strptr(elf, names, h.sh_name), &mark[i]))
					found = i;
	elf_end(elf);
	return found;
}
