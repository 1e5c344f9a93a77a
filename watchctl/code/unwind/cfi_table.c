#include "watchctl/code/unwind/cfi_table.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

const uint8_t *cfi_file_bytes(Elf *elf, uint64_t vaddr, size_t *len)
{
	size_t nsegments, size;
	const uint8_t *image = (const uint8_t *)elf_rawfile(elf, &size);
	GElf_Phdr p;

	if (!image || elf_getphdrnum(elf, &nsegments) != 0)
		return NULL;
	for (size_t i = 0; i < nsegments; i++) {
		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_LOAD || vaddr < p.p_vaddr ||
		    vaddr - p.p_vaddr >= p.p_filesz || p.p_filesz > size || p.p_offset > size - p.p_filesz)
			continue;
		*len = p.p_filesz - (vaddr - p.p_vaddr);
		return image + p.p_offset + (vaddr - p.p_vaddr);
	}
	return NULL;
}

static bool range_of(const uint8_t *bytes, uint64_t start, size_t len, struct eh_range *ret)
{
	if (!bytes || !len || len > UINT64_MAX - start)
		return false;
	*ret = (struct eh_range){ start, start + len, bytes };
	return true;
}

/* By the segment that says where .eh_frame_hdr is, and by what stands there. */
static bool open_by_header(struct eh_image *ret, Elf *elf)
{
	struct eh_image found = { 0 };
	uint64_t frames;
	const uint8_t *bytes;
	size_t n, len = 0;
	GElf_Phdr p;

	if (elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_GNU_EH_FRAME)
			continue;
		bytes = cfi_file_bytes(elf, p.p_vaddr, &len);
		if (!range_of(bytes, p.p_vaddr, len < p.p_memsz ? len : p.p_memsz, &found.hdr) ||
		    !eh_frame_section(&found.hdr, &frames))
			return false;
		bytes = cfi_file_bytes(elf, frames, &len);
		if (!range_of(bytes, frames, len, &found.frames))
			return false;
		*ret = found;
		return true;
	}
	return false;
}

static Elf_Scn *find_section(Elf *elf, const char *const *names, GElf_Shdr *shdr)
{
	Elf_Scn *scn = NULL;
	size_t strings;

	if (elf_getshdrstrndx(elf, &strings) != 0)
		return NULL;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name;

		if (!gelf_getshdr(scn, shdr) || shdr->sh_type == SHT_NOBITS ||
		    !(name = elf_strptr(elf, strings, shdr->sh_name)))
			continue;
		for (size_t i = 0; names[i]; i++)
			if (!strcmp(name, names[i]))
				return scn;
	}
	return NULL;
}

static bool open_by_section(struct eh_image *ret, Elf *elf)
{
	static const char *const names[] = { ".eh_frame", NULL };
	const uint8_t *image;
	GElf_Shdr shdr;
	size_t size;

	image = (const uint8_t *)elf_rawfile(elf, &size);
	return image && find_section(elf, names, &shdr) && !(shdr.sh_flags & SHF_COMPRESSED) &&
	       shdr.sh_size <= size && shdr.sh_offset <= size - shdr.sh_size &&
	       range_of(image + shdr.sh_offset, shdr.sh_addr, shdr.sh_size, &ret->frames);
}

bool cfi_table_open_eh(struct cfi_table *t, Elf *elf)
{
	struct eh_image found = { 0 };

	if (!open_by_header(&found, elf) && !open_by_section(&found, elf))
		return false;
	*t = (struct cfi_table){ .image = found,
				 .has_table = found.hdr.bytes && eh_frame_has_table(&found.hdr) };
	return true;
}

/* Addresses in it are offsets: of the section nothing else is known. */
bool cfi_table_open_debug(struct cfi_table *t, Elf *elf)
{
	static const char *const names[] = { ".debug_frame", ".zdebug_frame", NULL };
	struct eh_image found = { .is_debug_frame = true };
	Elf_Data *data = NULL;
	GElf_Shdr shdr;
	Elf_Scn *scn = find_section(elf, names, &shdr);

	/* libdw unpacks what it opens; where it has not, this does. */
	if (scn && (!(shdr.sh_flags & SHF_COMPRESSED) || elf_compress(scn, 0, 0) >= 0))
		data = elf_getdata(scn, NULL);
	if (!data || !range_of(data->d_buf, 0, data->d_size, &found.frames))
		return false;
	*t = (struct cfi_table){ .image = found };
	return true;
}

bool cfi_table_next(const struct cfi_table *t, struct eh_function *f)
{
	return t->image.frames.bytes && eh_frame_next(&t->image, f);
}

static int by_start(const void *a, const void *b)
{
	const struct eh_function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->entry > y->entry) - (x->entry < y->entry);
}

static void make_index(struct cfi_table *t)
{
	struct eh_function f = { 0 };

	if (t->indexed)
		return;
	t->indexed = true;
	/* Without memory for all, those that there is memory for. */
	while (cfi_table_next(t, &f) && vec_push(t->v, t->n, t->cap, f))
		;
	if (t->n)
		qsort(t->v, t->n, sizeof(*t->v), by_start);
}

const struct eh_function *cfi_table_function(struct cfi_table *t, uint64_t pc)
{
	size_t low = 0, high;

	make_index(t);
	for (high = t->n; low < high;) {
		size_t mid = low + (high - low) / 2;

		if (t->v[mid].start <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	return low && pc < t->v[low - 1].end ? &t->v[low - 1] : NULL;
}

bool cfi_table_has_functions(struct cfi_table *t)
{
	make_index(t);
	return t->n > 0;
}

bool cfi_table_rule(struct cfi_table *t, uint64_t pc, struct unwind_rule *ret)
{
	const struct eh_function *f;

	if (t->has_table)
		return eh_frame_rule(&t->image, pc, ret);
	f = cfi_table_function(t, pc);
	return f && eh_frame_rule_at(&t->image, f->entry, pc, ret);
}

bool cfi_table_program(struct cfi_table *t, uint64_t pc, struct unwind_program *ret)
{
	const struct eh_function *f;

	if (!t->image.frames.bytes)
		return false;
	if (t->has_table)
		return unwind_program_at(&t->image, 0, pc, ret);
	f = cfi_table_function(t, pc);
	return f && unwind_program_at(&t->image, f->entry, pc, ret);
}

void cfi_table_deinit(struct cfi_table *t)
{
	free(t->v);
	*t = (struct cfi_table){ 0 };
}
