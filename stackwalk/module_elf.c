#include "stackwalk/module_elf.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

/* Notes are small; what is longer is not a list of notes that a linker made. */
#define NOTES_MAX 4096

/* A source of bytes at file offsets: @base + offset in @fd, or in our own memory where @fd is -1. */
struct source {
	int fd;
	uint64_t base;
};

static bool source_read(const struct source *s, uint64_t offset, void *buf, size_t len)
{
	if (s->fd < 0) {
		memcpy(buf, (const void *)(uintptr_t)(s->base + offset), len);
		return true;
	}
	return pread(s->fd, buf, len, (off_t)(s->base + offset)) == (ssize_t)len;
}

static bool header_is_x86_64(const Elf64_Ehdr *h)
{
	return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
	       h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_machine == EM_X86_64;
}

static bool header_is_ours(const Elf64_Ehdr *h)
{
	return header_is_x86_64(h) && (h->e_type == ET_EXEC || h->e_type == ET_DYN) &&
	       h->e_phentsize == sizeof(Elf64_Phdr);
}

static bool note_is_build_id(const Elf64_Nhdr *n, const uint8_t *name)
{
	return n->n_type == NT_GNU_BUILD_ID && n->n_namesz == sizeof(ELF_NOTE_GNU) &&
	       memcmp(name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0 && n->n_descsz > 0 &&
	       n->n_descsz <= BUILD_ID_MAX;
}

/* Looks through @len bytes of notes, whose names and contents are padded to @align. */
static bool find_build_id(const uint8_t *notes, size_t len, size_t align, struct module_elf *ret)
{
	Elf64_Nhdr n;
	size_t pos = 0;

	while (len - pos >= sizeof(n)) {
		size_t name, desc;

		memcpy(&n, notes + pos, sizeof(n));
		name = pos + sizeof(n);
		if (n.n_namesz > len - name)
			return false;
		desc = (name + n.n_namesz + align - 1) & ~(align - 1);
		if (desc > len || n.n_descsz > len - desc)
			return false;
		if (note_is_build_id(&n, notes + name)) {
			memcpy(ret->build_id, notes + desc, n.n_descsz);
			ret->build_id_len = (uint8_t)n.n_descsz;
			return true;
		}
		pos = (desc + n.n_descsz + align - 1) & ~(align - 1);
		if (pos > len)
			return false;
	}
	return false;
}

static void read_build_id(const struct source *s, const Elf64_Phdr *ph, struct module_elf *ret)
{
	uint8_t notes[NOTES_MAX];
	size_t len = ph->p_filesz < sizeof(notes) ? ph->p_filesz : sizeof(notes);

	if (ret->build_id_len || !source_read(s, ph->p_offset, notes, len))
		return;
	find_build_id(notes, len, ph->p_align == 8 ? 8 : 4, ret);
}

static bool module_elf_read(const struct source *s, struct module_elf *ret)
{
	Elf64_Ehdr h;
	Elf64_Phdr ph;

	memset(ret, 0, sizeof(*ret));
	if (!source_read(s, 0, &h, sizeof(h)) || !header_is_ours(&h))
		return false;
	for (unsigned int i = 0; i < h.e_phnum; i++) {
		if (!source_read(s, h.e_phoff + i * sizeof(ph), &ph, sizeof(ph)))
			return false;
		if (ph.p_type == PT_LOAD && ph.p_memsz > 0 && ret->nsegments < MODULE_ELF_SEGMENTS)
			ret->segment[ret->nsegments++] =
				(struct elf_segment){ ph.p_offset, ph.p_vaddr, ph.p_filesz, ph.p_memsz,
						      ph.p_flags };
		else if (ph.p_type == PT_NOTE)
			read_build_id(s, &ph, ret);
	}
	return ret->nsegments > 0;
}

bool module_elf_from_file(int fd, struct module_elf *ret)
{
	return module_elf_read(&(struct source){ fd, 0 }, ret);
}

bool module_elf_from_memory(int mem_fd, uint64_t base, struct module_elf *ret)
{
	return module_elf_read(&(struct source){ mem_fd, base }, ret);
}

bool module_elf_from_self(const void *base, struct module_elf *ret)
{
	return module_elf_read(&(struct source){ -1, (uintptr_t)base }, ret);
}

bool module_elf_build_id(int fd, uint8_t id[BUILD_ID_MAX], uint8_t *len)
{
	const struct source s = { fd, 0 };
	struct module_elf found = { 0 };
	Elf64_Phdr notes = { 0 };
	Elf64_Ehdr h;
	Elf64_Shdr sh;

	if (fd < 0 || !source_read(&s, 0, &h, sizeof(h)) || !header_is_x86_64(&h))
		return false;
	for (unsigned int i = 0; h.e_shentsize == sizeof(sh) && i < h.e_shnum && !found.build_id_len; i++) {
		if (!source_read(&s, h.e_shoff + i * sizeof(sh), &sh, sizeof(sh)))
			break;
		if (sh.sh_type != SHT_NOTE)
			continue;
		notes.p_offset = sh.sh_offset;
		notes.p_filesz = sh.sh_size;
		notes.p_align = sh.sh_addralign;
		read_build_id(&s, &notes, &found);
	}
	if (!found.build_id_len && !module_elf_read(&s, &found))
		return false;
	memcpy(id, found.build_id, sizeof(found.build_id));
	*len = found.build_id_len;
	return found.build_id_len > 0;
}
