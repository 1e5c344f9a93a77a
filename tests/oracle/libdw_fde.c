#include "tests/oracle/libdw_fde.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

/* One section while it is read. */
struct section {
	const unsigned char *e_ident;
	Elf_Data *data;
	uint64_t addr, bias;
	bool is_eh;
	/* FDEs of one CIE mostly follow each other. */
	Dwarf_Off cie_offset;
	uint8_t encoding; /* DW_EH_PE_*, how that CIE's FDEs write addresses */
	bool has_cie;
};

static bool find_section(Elf *elf, const char *name, struct section *ret)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr shdr;
		const char *s;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS ||
		    !(s = elf_strptr(elf, names, shdr.sh_name)) || strcmp(s, name) != 0)
			continue;
		ret->addr = shdr.sh_addr;
		ret->data = elf_rawdata(scn, NULL);
		if (shdr.sh_flags & SHF_COMPRESSED)
			ret->data = elf_compress(scn, 0, 0) < 0 ? NULL : elf_getdata(scn, NULL);
		return ret->data && ret->data->d_buf;
	}
	return false;
}

/* How many bytes an address takes in @encoding; 0: a form that no FDE uses. */
static size_t encoded_size(uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return 8;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		return 4;
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		return 2;
	default:
		return 0;
	}
}

static uint64_t read_encoded(const uint8_t *p, uint8_t encoding)
{
	uint64_t raw = 0;

	memcpy(&raw, p, encoded_size(encoding));
	switch (encoding & 0x0f) {
	case DW_EH_PE_sdata4:
		return (uint64_t)(int64_t)(int32_t)raw;
	case DW_EH_PE_sdata2:
		return (uint64_t)(int64_t)(int16_t)raw;
	default:
		return raw;
	}
}

/* The encoding that a CIE's augmentation ('R') gives for its FDEs' addresses; DW_EH_PE_omit: unknown. */
static uint8_t cie_encoding(const Dwarf_CIE *cie)
{
	const uint8_t *p = cie->augmentation_data;
	const uint8_t *end = p + cie->augmentation_data_size;
	const char *a = cie->augmentation;

	if (*a != 'z')
		return *a ? DW_EH_PE_omit : DW_EH_PE_absptr;
	for (a++; *a && p < end; a++) {
		if (*a == 'R')
			return *p;
		if (*a == 'L')
			p++;
		else if (*a == 'P' && encoded_size(*p))
			p += 1 + encoded_size(*p);
		else if (*a != 'S' && *a != 'B')
			return DW_EH_PE_omit;
	}
	return DW_EH_PE_absptr;
}

static bool load_cie(struct section *s, Dwarf_Off offset)
{
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;

	if (s->has_cie && s->cie_offset == offset)
		return true;
	if (dwarf_next_cfi(s->e_ident, s->data, s->is_eh, offset, &next, &entry) != 0 ||
	    !dwarf_cfi_cie_p(&entry))
		return false;
	s->has_cie = true;
	s->cie_offset = offset;
	s->encoding = cie_encoding(&entry.cie);
	return true;
}

static bool parse_fde(struct section *s, const Dwarf_FDE *fde, struct fde_range *ret)
{
	const uint8_t *p = fde->start;
	size_t size;

	if (!load_cie(s, fde->CIE_pointer))
		return false;
	size = encoded_size(s->encoding);
	if (!size || s->encoding == DW_EH_PE_omit || (size_t)(fde->end - p) < 2 * size)
		return false;
	ret->start = read_encoded(p, s->encoding);
	switch (s->encoding & 0x70) {
	case DW_EH_PE_absptr:
		break;
	case DW_EH_PE_pcrel:
		ret->start += s->addr + (uint64_t)(p - (const uint8_t *)s->data->d_buf);
		break;
	default:
		return false;
	}
	ret->start += s->bias;
	/* The length is written in the same form, never relative. */
	ret->end = ret->start + read_encoded(p + size, s->encoding);
	return ret->end > ret->start;
}

bool fde_index_add(struct fde_index *x, Elf *elf, const char *name, uint64_t bias)
{
	struct section s = { .bias = bias, .is_eh = strcmp(name, ".eh_frame") == 0 };
	Dwarf_Off offset = 0, next;

	s.e_ident = (const unsigned char *)elf_getident(elf, NULL);
	if (!s.e_ident || !find_section(elf, name, &s))
		return true;
	for (;; offset = next) {
		Dwarf_CFI_Entry entry;
		struct fde_range range;
		int rc = dwarf_next_cfi(s.e_ident, s.data, s.is_eh, offset, &next, &entry);

		/* 1: the end. -1: a malformed entry; @next is past it, or (Dwarf_Off)-1. */
		if (rc > 0 || next == (Dwarf_Off)-1 || next <= offset)
			break;
		if (rc < 0 || dwarf_cfi_cie_p(&entry) || !parse_fde(&s, &entry.fde, &range))
			continue;
		if (!vec_push(x->v, x->n, x->cap, range))
			return false;
	}
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct fde_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

void fde_index_sort(struct fde_index *x)
{
	if (x->n)
		qsort(x->v, x->n, sizeof(*x->v), by_start);
}

const struct fde_range *fde_index_find(const struct fde_index *x, uint64_t addr)
{
	size_t low = 0, high = x->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (x->v[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && addr < x->v[low - 1].end ? &x->v[low - 1] : NULL;
}

void fde_index_deinit(struct fde_index *x)
{
	free(x->v);
	*x = (struct fde_index){ 0 };
}
