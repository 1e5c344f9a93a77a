/* library_elf_impl - a drop-in library that is being written, and its sections (library_elf_sections.c). */
#ifndef WATCHCTL_PATCH_LIBRARY_LIBRARY_ELF_IMPL_H
#define WATCHCTL_PATCH_LIBRARY_LIBRARY_ELF_IMPL_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/text_buf.h"
#include "watchctl/patch/library/library_elf.h"
#include "watchctl/patch/library/library_source.h"

#define DROP_IN_PAGE 4096u

struct drop_in {
	const struct library_elf *ask;
	const struct library_source *source;
	struct text_buf *to;
	Elf64_Shdr *section;
	size_t nsections, section_cap;
	struct text_buf section_names;
	uint16_t *number; /* of a section of the original's, here; 0: not here */
	uint64_t code, data, shown, word, end;
	uint32_t soname, original, run_path; /* in .dynstr */
	uint64_t hash_at, symbols_at, names_at, names_len, version_at, definitions_at, relocations_at;
	bool failed;
};

/* Fills up the file. */
void drop_in_pad(struct drop_in *d, size_t align);

/* Begins a section at the end of the file, where its address is its offset, and gives it back; and ends it there. */
uint64_t drop_in_begin(struct drop_in *d, const char *name, uint32_t type, uint64_t flags, size_t align,
		       uint64_t entry);
void drop_in_finish(struct drop_in *d);

/* One that is like @like but for its name. Its number. */
uint32_t drop_in_add_section(struct drop_in *d, const char *name, const Elf64_Shdr *like);

/* The last one; anything where there was no memory. */
Elf64_Shdr *drop_in_last(struct drop_in *d);

/* The last of this type; 0: there is none. */
uint32_t drop_in_number_of(const struct drop_in *d, uint32_t type);

/* The sections of the original's that have exported symbols: gives them numbers, then shows them, before all others. */
bool drop_in_exports(const Elf64_Sym *s);
void drop_in_number_sections(struct drop_in *d);
void drop_in_show_sections(struct drop_in *d);

/*
 * Those of them that keep their type have zeros for contents, all the same ones, from @at on: as many as the largest has, which is
 * *@zeros.
 */
void drop_in_give_contents(struct drop_in *d, uint64_t at, uint64_t *zeros);

#endif
