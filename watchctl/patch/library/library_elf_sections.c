#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/patch/library/library_elf_impl.h"

void drop_in_pad(struct drop_in *d, size_t align)
{
	static const uint8_t zeros[DROP_IN_PAGE];

	while (d->to->len % align && !d->to->failed)
		text_buf_put(d->to, zeros,
			     align - d->to->len % align < DROP_IN_PAGE ? align - d->to->len % align
								       : DROP_IN_PAGE);
}

static uint32_t name_section(struct drop_in *d, const char *name)
{
	uint32_t at = (uint32_t)d->section_names.len;

	text_buf_put(&d->section_names, name, strlen(name) + 1);
	return at;
}

uint32_t drop_in_add_section(struct drop_in *d, const char *name, const Elf64_Shdr *like)
{
	Elf64_Shdr s = *like;

	s.sh_name = name_section(d, name);
	d->failed |= !vec_push(d->section, d->nsections, d->section_cap, s);
	return (uint32_t)d->nsections - 1;
}

uint64_t drop_in_begin(struct drop_in *d, const char *name, uint32_t type, uint64_t flags, size_t align,
		       uint64_t entry)
{
	Elf64_Shdr s = { .sh_type = type, .sh_flags = flags, .sh_addralign = align, .sh_entsize = entry };

	drop_in_pad(d, align);
	s.sh_offset = d->to->len;
	s.sh_addr = (flags & SHF_ALLOC) ? d->to->len : 0;
	drop_in_add_section(d, name, &s);
	return d->to->len;
}

Elf64_Shdr *drop_in_last(struct drop_in *d)
{
	static Elf64_Shdr none;

	return d->failed ? &none : &d->section[d->nsections - 1];
}

void drop_in_finish(struct drop_in *d)
{
	Elf64_Shdr *s = drop_in_last(d);

	s->sh_size = d->to->len - s->sh_offset;
}

bool drop_in_exports(const Elf64_Sym *s)
{
	return s->st_shndx != SHN_UNDEF && ELF64_ST_BIND(s->st_info) != STB_LOCAL;
}

/*
 * Without contents, but where nm(1) could not tell then what sort of symbol is in it: it knows code by its flags, and the usual
 * sections of data by their names.
 */
static uint32_t type_shown(const struct library_source *s, const Elf64_Shdr *sh)
{
	return sh->sh_flags & SHF_EXECINSTR || sh->sh_size > s->size ? SHT_NOBITS : sh->sh_type;
}

/* Their numbers are given before there is a file; where they are in it, later. */
void drop_in_number_sections(struct drop_in *d)
{
	const struct library_source *s = d->source;
	uint16_t n = 0;

	for (size_t i = 0; i < s->nsymbols; i++)
		if (drop_in_exports(&s->symbol[i]) && s->symbol[i].st_shndx < s->head->e_shnum)
			d->number[s->symbol[i].st_shndx] = 1;
	for (size_t i = 0; i < s->head->e_shnum; i++)
		if (d->number[i])
			d->number[i] = ++n;
}

void drop_in_show_sections(struct drop_in *d)
{
	const struct library_source *s = d->source;

	for (size_t i = 0; i < s->head->e_shnum; i++) {
		Elf64_Shdr sh = s->section[i];

		if (!d->number[i])
			continue;
		sh.sh_type = type_shown(s, &sh);
		sh.sh_addr += d->shown;
		sh.sh_link = sh.sh_info = 0;
		drop_in_add_section(d, library_source_section_name(s, &s->section[i]), &sh);
	}
}

void drop_in_give_contents(struct drop_in *d, uint64_t at, uint64_t *zeros)
{
	for (size_t i = 1; i < d->nsections; i++) {
		Elf64_Shdr *sh = &d->section[i];

		if (sh->sh_addr < d->shown || sh->sh_type == SHT_NOBITS)
			continue;
		sh->sh_offset = at;
		if (sh->sh_size > *zeros)
			*zeros = sh->sh_size;
	}
}

uint32_t drop_in_number_of(const struct drop_in *d, uint32_t type)
{
	for (size_t i = d->nsections; i--;)
		if (d->section[i].sh_type == type)
			return (uint32_t)i;
	return 0;
}
