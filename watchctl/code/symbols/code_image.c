#include "watchctl/code/symbols/code_image.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/fault_guard.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/symbols/code_name_match.h"
#include "watchctl/code/symbols/symbols.h"
#include "watchctl/code/unwind/cfi_table.h"
#include "watchctl/code/unwind/landing_pads.h"

#ifndef SHT_RELR
#define SHT_RELR 19
#endif

struct code_image {
	struct elffile *file;
	Elf *elf;
	struct symbols *symbols;
	struct cfi_table eh;
	struct code_entries *entries;
	const struct code_stub *stub;
	size_t nstubs;
	struct code_section *section;
	size_t nsections, section_cap;
	struct code_function *function;
	size_t nfunctions, function_cap;
	uint8_t **copy; /* of sections, from a process */
	size_t ncopies, copy_cap;
	uint64_t start, end;
	bool is_fixed, is_loader, failed;
};

/* Sections */

static bool is_stub_section(const char *name)
{
	return name && (!strncmp(name, ".plt", 4) || !strcmp(name, ".iplt"));
}

static void add_section(struct code_image *c, uint64_t start, uint64_t size, bool is_stubs)
{
	struct code_section s = { .start = start, .is_stubs = is_stubs };

	s.bytes = cfi_file_bytes(c->elf, start, &s.len);
	if (!s.bytes)
		return;
	if (s.len > size)
		s.len = size;
	c->failed |= !vec_push(c->section, c->nsections, c->section_cap, s);
}

static void read_sections(struct code_image *c)
{
	size_t names;

	if (elf_getshdrstrndx(c->elf, &names))
		return;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(c->elf, scn));) {
		GElf_Shdr mem, *sh = gelf_getshdr(scn, &mem);

		if (sh && sh->sh_type == SHT_PROGBITS && sh->sh_flags & SHF_EXECINSTR && sh->sh_size)
			add_section(c, sh->sh_addr, sh->sh_size,
				    is_stub_section(elf_strptr(c->elf, names, sh->sh_name)));
	}
}

/* Of a file without section headers, its segments are all there is. */
static void read_segments(struct code_image *c)
{
	bool by_segments = !c->nsections;
	size_t n;
	GElf_Phdr p;

	c->start = UINT64_MAX;
	for (size_t i = 0; !elf_getphdrnum(c->elf, &n) && i < n; i++) {
		if (!gelf_getphdr(c->elf, (int)i, &p) || p.p_type != PT_LOAD || !p.p_memsz)
			continue;
		if (p.p_vaddr < c->start)
			c->start = p.p_vaddr;
		if (p.p_vaddr + p.p_memsz > c->end)
			c->end = p.p_vaddr + p.p_memsz;
		if (by_segments && p.p_flags & PF_X)
			add_section(c, p.p_vaddr, p.p_filesz, false);
	}
}

static int compare_sections(const void *a, const void *b)
{
	const struct code_section *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Code of a process may differ from its file: other patches are in it. */
static void copy_sections(struct code_image *c, uint64_t bias, const struct memory_view *mem)
{
	for (size_t i = 0; mem && i < c->nsections; i++) {
		struct code_section *s = &c->section[i];
		scoped(freep) uint8_t *bytes = malloc(s->len);

		if (!bytes || !memory_read(mem, s->start + bias, bytes, s->len))
			continue;
		if (!vec_push(c->copy, c->ncopies, c->copy_cap, bytes))
			return;
		s->bytes = take_ptr(bytes);
	}
}

/* Functions */

static bool is_code(const struct code_image *c, uint64_t addr)
{
	for (size_t i = 0; i < c->nsections; i++)
		if (addr - c->section[i].start < c->section[i].len)
			return true;
	return false;
}

static void add_function(struct code_image *c, uint64_t start, uint64_t end, const char *name)
{
	struct code_function f = { start, end, name };

	if (is_code(c, start))
		c->failed |= !vec_push(c->function, c->nfunctions, c->function_cap, f);
}

static void read_functions(struct code_image *c)
{
	struct eh_function f = { 0 };
	size_t n;
	const struct symbol *s = symbols_all(c->symbols, &n);

	for (size_t i = 0; i < n; i++)
		if (s[i].use == SYMBOL_CODE)
			add_function(c, s[i].addr, s[i].addr + s[i].size, s[i].name);
	while (cfi_table_next(&c->eh, &f))
		add_function(c, f.start, f.end, NULL);
}

/* The dynamic section */

static void read_dynamic(struct code_image *c, Elf_Scn *scn, const GElf_Shdr *sh)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	GElf_Dyn d;

	for (int i = 0; data && gelf_getdyn(data, i, &d); i++) {
		const char *name =
			d.d_tag == DT_SONAME ? elf_strptr(c->elf, sh->sh_link, d.d_un.d_val) : NULL;

		c->is_loader |= name && (!strncmp(name, "ld-linux", 8) || !strncmp(name, "ld-musl", 7));
	}
}

static void read_head(struct code_image *c)
{
	GElf_Ehdr mem, *head = gelf_getehdr(c->elf, &mem);

	c->is_fixed = head && head->e_type == ET_EXEC;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(c->elf, scn));) {
		GElf_Shdr shmem, *sh = gelf_getshdr(scn, &shmem);

		if (sh && sh->sh_type == SHT_DYNAMIC)
			read_dynamic(c, scn, sh);
	}
}

/* Opening */

struct opening {
	struct code_image *c;
	const struct module *m;
	const struct memory_view *mem;
	bool is_read;
};

static void run_open(void *ctx)
{
	struct opening *o = ctx;
	struct code_image *c = o->c;

	if (elffile_state(c->file) != ELFFILE_OK || !(c->elf = elffile_elf(c->file)))
		return;
	c->symbols = symbols_new(c->file);
	if (!c->symbols)
		return;
	cfi_table_open_eh(&c->eh, c->elf);
	read_head(c);
	read_sections(c);
	read_segments(c);
	if (c->nsections)
		qsort(c->section, c->nsections, sizeof(*c->section), compare_sections);
	read_functions(c);
	copy_sections(c, o->m->bias, o->mem);
	c->stub = code_entry_stubs(c->entries, &c->nstubs);
	o->is_read = !c->failed;
}

static void code_image_freep(struct code_image **c)
{
	code_image_free(*c);
}

struct wc_error *code_image_open(const struct module *m, const struct memory_view *mem,
				 struct code_image **ret)
{
	scoped(code_image_freep) struct code_image *c = calloc(1, sizeof(*c));
	struct opening o = { c, m, mem, false };

	if (!c)
		return &wc_enomem;
	c->file = elffile_new(m);
	c->entries = code_entries_new(m);
	if (!c->file || !c->entries)
		return &wc_enomem;
	if (!fault_guarded(run_open, &o)) {
		elffile_abandon(c->file);
		/* What the libraries hold is lost, as fault_guard.h says. */
		*c = (struct code_image){ .file = c->file };
	}
	if (c->failed)
		return &wc_enomem;
	if (!o.is_read)
		return wc_error_new(WC_ENAME,
				    "%s is no program or library for x86-64, or is not there any more",
				    m->path);
	if (!c->nsections)
		return wc_error_new(WC_ENAME,
				    "%s has no code; is it a file of debug information? Name the program",
				    m->path);
	*ret = take_ptr(c);
	return NULL;
}

void code_image_free(struct code_image *c)
{
	if (!c)
		return;
	cfi_table_deinit(&c->eh);
	symbols_free(c->symbols);
	code_entries_free(c->entries);
	elffile_free(c->file);
	for (size_t i = 0; i < c->ncopies; i++)
		free(c->copy[i]);
	free(c->copy);
	free(c->section);
	free(c->function);
	free(c);
}

const struct code_section *code_image_sections(const struct code_image *c, size_t *n)
{
	*n = c->nsections;
	return c->section;
}

const struct code_function *code_image_functions(const struct code_image *c, size_t *n)
{
	*n = c->nfunctions;
	return c->function;
}

const struct code_stub *code_image_stubs(const struct code_image *c, size_t *n)
{
	*n = c->nstubs;
	return c->stub;
}

const uint8_t *code_image_data(const struct code_image *c, uint64_t vaddr, size_t *len)
{
	return cfi_file_bytes(c->elf, vaddr, len);
}

void code_image_span(const struct code_image *c, uint64_t *start, uint64_t *end)
{
	*start = c->start;
	*end = c->end;
}

bool code_image_is_fixed(const struct code_image *c)
{
	return c->is_fixed;
}

bool code_image_is_loader(const struct code_image *c)
{
	return c->is_loader;
}

/* Pointers */

struct pointers {
	const struct code_image *c;
	void (*each)(void *ctx, uint64_t addr);
	void *ctx;
};

static void offer(const struct pointers *p, uint64_t addr)
{
	if (is_code(p->c, addr))
		p->each(p->ctx, addr);
}

static void offer_relocation(const struct pointers *p, Elf_Data *symbols, const GElf_Rela *r)
{
	GElf_Sym sym;

	switch (GELF_R_TYPE(r->r_info)) {
	case R_X86_64_RELATIVE:
	case R_X86_64_IRELATIVE:
		offer(p, (uint64_t)r->r_addend);
		break;
	case R_X86_64_64:
		if (symbols && gelf_getsym(symbols, (int)GELF_R_SYM(r->r_info), &sym) &&
		    sym.st_shndx != SHN_UNDEF)
			offer(p, sym.st_value + (uint64_t)r->r_addend);
		break;
	default:
		break;
	}
}

static void offer_rela(const struct pointers *p, Elf_Scn *scn, const GElf_Shdr *sh)
{
	Elf *elf = p->c->elf;
	GElf_Shdr mem, *link = gelf_getshdr(elf_getscn(elf, sh->sh_link), &mem);
	bool has_symbols = link && link->sh_type == SHT_DYNSYM;
	Elf_Data *symbols = has_symbols ? elf_getdata(elf_getscn(elf, sh->sh_link), NULL) : NULL;
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n = data && sh->sh_entsize ? data->d_size / sh->sh_entsize : 0;
	GElf_Rela r;

	for (size_t i = 0; i < n; i++)
		if (gelf_getrela(data, (int)i, &r))
			offer_relocation(p, symbols, &r);
}

static uint64_t word_at(const uint8_t *bytes)
{
	uint64_t v;

	memcpy(&v, bytes, sizeof(v));
	return v;
}

static void offer_place(const struct pointers *p, uint64_t place)
{
	size_t len;
	const uint8_t *bytes = code_image_data(p->c, place, &len);

	if (bytes && len >= 8)
		offer(p, word_at(bytes));
}

/* An even entry is a place; an odd one says which of the 63 words behind the last place are others (ELF gABI, RELR). */
static void offer_relr(const struct pointers *p, Elf_Scn *scn)
{
	Elf_Data *data = elf_rawdata(scn, NULL);
	uint64_t place = 0;

	for (size_t at = 0; data && at + 8 <= data->d_size; at += 8) {
		uint64_t entry = word_at((const uint8_t *)data->d_buf + at);

		if (!(entry & 1)) {
			offer_place(p, entry);
			place = entry + 8;
			continue;
		}
		for (unsigned int bit = 1; bit < 64; bit++)
			if (entry >> bit & 1)
				offer_place(p, place + 8ull * (bit - 1));
		place += 63 * 8;
	}
}

static void offer_words(const struct pointers *p)
{
	size_t n, len;
	GElf_Phdr ph;

	for (size_t i = 0; !elf_getphdrnum(p->c->elf, &n) && i < n; i++) {
		const uint8_t *bytes;

		if (!gelf_getphdr(p->c->elf, (int)i, &ph) || ph.p_type != PT_LOAD || ph.p_flags & PF_X)
			continue;
		bytes = code_image_data(p->c, ph.p_vaddr, &len);
		for (size_t at = -ph.p_vaddr & 7; bytes && at + 8 <= len; at += 8)
			offer(p, word_at(bytes + at));
	}
}

void code_image_pointers(const struct code_image *c, void (*each)(void *ctx, uint64_t addr), void *ctx)
{
	struct pointers p = { c, each, ctx };

	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(c->elf, scn));) {
		GElf_Shdr mem, *sh = gelf_getshdr(scn, &mem);

		if (sh && sh->sh_type == SHT_RELA && sh->sh_flags & SHF_ALLOC)
			offer_rela(&p, scn, sh);
		else if (sh && sh->sh_type == SHT_RELR)
			offer_relr(&p, scn);
	}
	if (c->is_fixed)
		offer_words(&p);
}

void code_image_pads(const struct code_image *c, void (*each)(void *ctx, uint64_t addr), void *ctx)
{
	struct eh_function f = { 0 };

	while (cfi_table_next(&c->eh, &f)) {
		size_t len;
		const uint8_t *bytes = f.lsda ? code_image_data(c, f.lsda, &len) : NULL;
		struct eh_range range = { f.lsda, f.lsda + (bytes ? len : 0), bytes };

		if (bytes)
			landing_pads_each(&range, &f, each, ctx);
	}
}

bool code_image_name_fits(const char *symbol, const char *glob)
{
	size_t n = strcspn(symbol, "@");
	scoped(freep) char *plain = NULL;
	scoped(freep) char *source = NULL;

	if (!strcmp(glob, "*") || (!strncmp(symbol, glob, n) && !glob[n]))
		return true;
	plain = symbol[n] ? strndup(symbol, n) : NULL;
	if (!fnmatch(glob, plain ? plain : symbol, 0))
		return true;
	source = symbol[0] == '_' ? demangle_bare(symbol) : NULL;
	return source && !fnmatch(glob, source, 0);
}

char *code_image_name_shown(const char *symbol)
{
	return code_name_shown(symbol);
}
