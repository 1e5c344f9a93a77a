#include "watchctl/code/elf/module_elf.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

/* Notes are small; what is longer is not a list of notes that a linker made. */
#define NOTES_MAX 4096
#define PAGE 4096ull
/* A program has some thirty entries and those for the libraries that it needs, which come first. */
#define DYNAMIC_MAX 256

/* A source of bytes at file offsets: @base + offset in @fd, or in our own memory where @fd is -1. */
struct source {
	int fd;
	uint64_t base;
	bool in_memory; /* it was mapped: what is not in the first segment lies by its address */
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

/*
 * Whether a position-independent file is a program: it says so, or it has an interpreter, and no name for
 * those who link with it. In memory it lies by addresses, in a file by offsets.
 */
static bool dynamic_is_program(const struct source *s, const Elf64_Phdr *dynamic, uint64_t first_vaddr,
			       bool has_interpreter)
{
	uint64_t at = s->in_memory ? dynamic->p_vaddr - first_vaddr : dynamic->p_offset;
	size_t n = dynamic->p_filesz / sizeof(Elf64_Dyn);
	Elf64_Dyn d[DYNAMIC_MAX];
	bool has_name = false;

	if (n > DYNAMIC_MAX)
		n = DYNAMIC_MAX;
	if (!n || !source_read(s, at, d, n * sizeof(*d)))
		n = 0;
	for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
		if (d[i].d_tag == DT_FLAGS_1 && (d[i].d_un.d_val & DF_1_PIE))
			return true;
		has_name |= d[i].d_tag == DT_SONAME;
	}
	return has_interpreter && !has_name;
}

static bool module_elf_read(const struct source *s, struct module_elf *ret)
{
	Elf64_Phdr ph, dynamic = { 0 };
	bool has_interpreter = false;
	Elf64_Ehdr h;

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
		else if (ph.p_type == PT_DYNAMIC)
			dynamic = ph;
		has_interpreter |= ph.p_type == PT_INTERP;
	}
	ret->is_program =
		h.e_type == ET_EXEC ||
		(ret->nsegments && dynamic_is_program(s, &dynamic, ret->segment[0].vaddr, has_interpreter));
	return ret->nsegments > 0;
}

bool module_elf_from_file(int fd, struct module_elf *ret)
{
	return module_elf_read(&(struct source){ fd, 0, false }, ret);
}

bool module_elf_from_memory(int mem_fd, uint64_t base, struct module_elf *ret)
{
	return module_elf_read(&(struct source){ mem_fd, base, true }, ret);
}

bool module_elf_from_self(const void *base, struct module_elf *ret)
{
	return module_elf_read(&(struct source){ -1, (uintptr_t)base, true }, ret);
}

bool module_elf_build_id(int fd, uint8_t id[BUILD_ID_MAX], uint8_t *len)
{
	const struct source s = { fd, 0, false };
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

static uint64_t page_down(uint64_t x)
{
	return x & ~(PAGE - 1);
}

static uint64_t page_up(uint64_t x)
{
	return page_down(x + PAGE - 1);
}

static bool segment_holds(const struct elf_segment *s, uint64_t offset)
{
	return s->filesz && offset >= page_down(s->offset) && offset < page_up(s->offset + s->filesz);
}

static uint64_t segment_bias(const struct elf_segment *s, uint64_t start, uint64_t offset)
{
	return start - (offset - page_down(s->offset)) - page_down(s->vaddr);
}

bool module_elf_bias(const struct module_elf *head, uint64_t start, uint64_t offset, bool executable,
		     uint64_t *ret)
{
	int best = -1;

	for (size_t i = 0; i < head->nsegments; i++) {
		const struct elf_segment *s = &head->segment[i];
		int score;

		if (!segment_holds(s, offset))
			continue;
		score = 2 * (page_down(s->offset) == offset) + (!!(s->flags & PF_X) == executable);
		if (score > best) {
			best = score;
			*ret = segment_bias(s, start, offset);
		}
	}
	return best >= 0;
}

bool module_elf_has_bias(const struct module_elf *head, uint64_t start, uint64_t offset, uint64_t bias)
{
	for (size_t i = 0; i < head->nsegments; i++) {
		const struct elf_segment *s = &head->segment[i];

		if (segment_holds(s, offset) && segment_bias(s, start, offset) == bias)
			return true;
	}
	return false;
}

bool module_elf_begins_segment(const struct module_elf *head, uint64_t offset)
{
	for (size_t i = 0; i < head->nsegments; i++)
		if (page_down(head->segment[i].offset) == offset)
			return true;
	return false;
}

uint64_t module_elf_start(const struct module_elf *head, uint64_t bias)
{
	return bias + page_down(head->segment[0].vaddr);
}

uint64_t module_elf_end(const struct module_elf *head, uint64_t bias)
{
	uint64_t end = 0;

	for (size_t i = 0; i < head->nsegments; i++)
		if (head->segment[i].vaddr + head->segment[i].memsz > end)
			end = head->segment[i].vaddr + head->segment[i].memsz;
	return page_up(bias + end);
}
