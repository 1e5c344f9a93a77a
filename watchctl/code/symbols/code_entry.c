/*
 * What is read, all at once: the symbols of functions (a symbol without that type may as well be a label, or
 * data among code, where a breakpoint would do harm), the beginnings of FDEs, and the relocations of the
 * dynamic linker that name functions. A stub is found by what it does, not by how long it is: in the sections
 * .plt*, an instruction that jumps through a slot which such a relocation fills; an endbr64 right before it
 * belongs to it.
 */
#include "watchctl/code/symbols/code_entry.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/elf/elffile.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/code/unwind/cfi_table.h"

struct export
{
	const char *name;
	uint64_t address;
	bool indirect, hidden;
	struct export *next; /* of the same hash */
};

struct slot {
	uint64_t address; /* of the pointer */
	const char *name;
	uint64_t resolver;
	bool is_own, has_stub;
};

struct code_entries {
	struct elffile *file;
	bool read;
	uint64_t *start; /* of functions, sorted */
	size_t nstarts, start_cap;
	struct cfi_table eh, debug;
	struct export *exports;
	size_t nexports, export_cap;
	struct map64 by_name, indirect; /* hash -> export; address -> export */
	struct slot *slot;		/* by address */
	size_t nslots, slot_cap;
	struct code_stub *stub;
	size_t nstubs, stub_cap;
};

struct code_entries *code_entries_new(const struct module *m)
{
	struct code_entries *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->file = elffile_new(m);
	if (!e->file) {
		free(e);
		return NULL;
	}
	return e;
}

void code_entries_free(struct code_entries *e)
{
	if (!e)
		return;
	elffile_free(e->file);
	free(e->start);
	cfi_table_deinit(&e->eh);
	cfi_table_deinit(&e->debug);
	free(e->exports);
	map64_deinit(&e->by_name);
	map64_deinit(&e->indirect);
	free(e->slot);
	free(e->stub);
	free(e);
}

/* Symbols */

static bool add_symbol(struct code_entries *e, const char *name, const GElf_Sym *sym, uint64_t addr)
{
	unsigned int type = GELF_ST_TYPE(sym->st_info), visibility = GELF_ST_VISIBILITY(sym->st_other);
	bool hidden = GELF_ST_BIND(sym->st_info) == STB_LOCAL || visibility == STV_HIDDEN ||
		      visibility == STV_INTERNAL;
	struct export add = { name, addr, type == STT_GNU_IFUNC, hidden, NULL };

	if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym->st_shndx == SHN_UNDEF)
		return true;
	if (!vec_push(e->start, e->nstarts, e->start_cap, addr))
		return false;
	if (GELF_ST_BIND(sym->st_info) == STB_LOCAL && !add.indirect)
		return true;
	return vec_push(e->exports, e->nexports, e->export_cap, add);
}

static void read_symbols(struct code_entries *e)
{
	Dwfl_Module *mod = elffile_dwfl(e->file);
	int n = mod ? dwfl_module_getsymtab(mod) : 0;

	for (int i = 0; i < n; i++) {
		GElf_Sym sym;
		GElf_Addr addr;
		const char *name = dwfl_module_getsym_info(mod, i, &sym, &addr, NULL, NULL, NULL);

		if (name && name[0] && !add_symbol(e, name, &sym, addr))
			return;
	}
}

/* A name up to its version: "memcpy@@GLIBC_2.14". */
static uint64_t hash_name(const char *name)
{
	const char *version = strchr(name, '@');

	return version ? hash_bytes(HASH_START, name, (size_t)(version - name)) : hash_text(HASH_START, name);
}

static bool names_are_equal(const char *a, const char *b)
{
	size_t n = strcspn(a, "@");

	return strcspn(b, "@") == n && memcmp(a, b, n) == 0;
}

/* Once the array no longer moves. */
static void index_exports(struct code_entries *e)
{
	for (size_t i = 0; i < e->nexports; i++) {
		struct export *x = &e->exports[i];
		uint64_t h = hash_name(x->name);

		x->next = map64_get(&e->by_name, h);
		map64_put(&e->by_name, h, x);
		if (x->indirect && !map64_get(&e->indirect, x->address))
			map64_put(&e->indirect, x->address, x);
	}
}

static const struct export *find_export(const struct code_entries *e, const char *name, bool hidden)
{
	const struct export *x = map64_get(&e->by_name, hash_name(name));

	while (x && (x->hidden != hidden || !names_are_equal(x->name, name)))
		x = x->next;
	return x;
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* An empty array may be NULL, which qsort() must not be given. */
static void sort(void *v, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	if (n)
		qsort(v, n, size, compare);
}

/* Relocations */

static bool add_slot(struct code_entries *e, Elf_Data *symbols, size_t strings, Elf *elf, const GElf_Rela *r)
{
	struct slot s = { .address = r->r_offset };
	const struct export *x;
	GElf_Sym sym;

	switch (GELF_R_TYPE(r->r_info)) {
	case R_X86_64_IRELATIVE:
		s.resolver = (uint64_t)r->r_addend;
		s.is_own = true;
		x = map64_get(&e->indirect, s.resolver);
		s.name = x ? x->name : NULL;
		break;
	case R_X86_64_64:
		if (r->r_addend)
			return true;
		/* fall through */
	case R_X86_64_JUMP_SLOT:
	case R_X86_64_GLOB_DAT:
		if (!symbols || !gelf_getsym(symbols, (int)GELF_R_SYM(r->r_info), &sym))
			return true;
		/* What a slot may be filled with if it is no function: data. A stub is recognised by itself. */
		if (GELF_R_TYPE(r->r_info) != R_X86_64_JUMP_SLOT && GELF_ST_TYPE(sym.st_info) != STT_FUNC &&
		    GELF_ST_TYPE(sym.st_info) != STT_GNU_IFUNC)
			return true;
		s.name = elf_strptr(elf, strings, sym.st_name);
		s.is_own = sym.st_shndx != SHN_UNDEF;
		if (!s.name || !s.name[0])
			return true;
		break;
	default:
		return true;
	}
	return vec_push(e->slot, e->nslots, e->slot_cap, s);
}

static void read_relocations(struct code_entries *e, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh)
{
	GElf_Shdr mem, *link = gelf_getshdr(elf_getscn(elf, sh->sh_link), &mem);
	Elf_Data *data = elf_getdata(scn, NULL);
	bool has_symbols = link && (link->sh_type == SHT_DYNSYM || link->sh_type == SHT_SYMTAB);
	Elf_Data *symbols = has_symbols ? elf_getdata(elf_getscn(elf, sh->sh_link), NULL) : NULL;
	size_t n = data && sh->sh_entsize ? data->d_size / sh->sh_entsize : 0;
	GElf_Rela r;

	for (size_t i = 0; i < n; i++)
		if (gelf_getrela(data, (int)i, &r) &&
		    !add_slot(e, symbols, has_symbols ? link->sh_link : 0, elf, &r))
			return;
}

static int compare_slots(const void *a, const void *b)
{
	return compare_addresses(&((const struct slot *)a)->address, &((const struct slot *)b)->address);
}

static struct slot *find_slot(const struct code_entries *e, uint64_t address)
{
	struct slot key = { .address = address };

	return e->nslots ? bsearch(&key, e->slot, e->nslots, sizeof(key), compare_slots) : NULL;
}

/* Stubs */

static bool is_endbr64(const uint8_t *code, size_t len)
{
	return len >= 4 && memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0;
}

static bool jumps_through(const struct insn *i, uint64_t at, uint64_t *slot)
{
	struct regs none = { 0 };

	if (!i->is_jmp || !i->target_in_mem || i->nmem == 0 || i->mem[0].seg ||
	    (i->mem[0].base != WREG_RIP && i->mem[0].base != -1) || i->mem[0].index != -1)
		return false;
	return insn_mem_addr(&i->mem[0], &none, at, i->len, slot);
}

static void read_stubs(struct code_entries *e, Elf_Scn *scn, const GElf_Shdr *sh)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	const uint8_t *code = data ? data->d_buf : NULL;
	size_t at = 0, endbr = SIZE_MAX;
	struct insn i;

	for (; code && at < data->d_size; at += i.len) {
		uint64_t target;
		struct slot *s;

		if (!insn_decode(code + at, data->d_size - at, sh->sh_addr + at, &i)) {
			i.len = 1;
			continue;
		}
		if (is_endbr64(code + at, data->d_size - at))
			endbr = at;
		if (!jumps_through(&i, sh->sh_addr + at, &target) || !(s = find_slot(e, target)))
			continue;
		s->has_stub = true;
		struct code_stub stub = { sh->sh_addr + (endbr + 4 == at ? endbr : at), target, s->name,
					  s->resolver, s->is_own };
		if (!vec_push(e->stub, e->nstubs, e->stub_cap, stub))
			return;
	}
}

static int compare_stubs(const void *a, const void *b)
{
	const struct code_stub *x = a, *y = b;
	int d = compare_addresses(&x->address, &y->address);

	return d ? d : compare_addresses(&x->slot, &y->slot);
}

/* The slots through which code may call without a stub; those of lazy binding always have one. */
static void add_bare_slots(struct code_entries *e)
{
	for (size_t i = 0; i < e->nslots; i++) {
		const struct slot *s = &e->slot[i];
		struct code_stub stub = { 0, s->address, s->name, s->resolver, s->is_own };

		if (!s->has_stub && !vec_push(e->stub, e->nstubs, e->stub_cap, stub))
			return;
	}
}

static void each_section(struct code_entries *e, Elf *elf, bool relocations)
{
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr mem, *sh = gelf_getshdr(scn, &mem);
		const char *name = sh ? elf_strptr(elf, names, sh->sh_name) : NULL;

		if (!sh || !(sh->sh_flags & SHF_ALLOC) || !name)
			continue;
		if (relocations && sh->sh_type == SHT_RELA)
			read_relocations(e, elf, scn, sh);
		else if (!relocations && sh->sh_type == SHT_PROGBITS && (sh->sh_flags & SHF_EXECINSTR) &&
			 (strncmp(name, ".plt", 4) == 0 || strcmp(name, ".iplt") == 0))
			read_stubs(e, scn, sh);
	}
}

/* Without memory for all of it, it is what was read until then. */
static void read_file(struct code_entries *e)
{
	Elf *elf;

	if (e->read)
		return;
	e->read = true;
	read_symbols(e);
	index_exports(e);
	sort(e->start, e->nstarts, sizeof(*e->start), compare_addresses);
	if (elffile_state(e->file) != ELFFILE_OK || !(elf = elffile_elf(e->file)))
		return;
	cfi_table_open_eh(&e->eh, elf);
	cfi_table_open_debug(&e->debug, elf);
	each_section(e, elf, true);
	sort(e->slot, e->nslots, sizeof(*e->slot), compare_slots);
	each_section(e, elf, false);
	add_bare_slots(e);
	sort(e->stub, e->nstubs, sizeof(*e->stub), compare_stubs);
}

static bool begins_at(struct cfi_table *t, uint64_t vaddr)
{
	const struct eh_function *f = cfi_table_function(t, vaddr);

	return f && f->start == vaddr;
}

bool code_entry_is_function(struct code_entries *e, uint64_t vaddr)
{
	read_file(e);
	if (e->nstarts && bsearch(&vaddr, e->start, e->nstarts, sizeof(vaddr), compare_addresses))
		return true;
	return begins_at(&e->eh, vaddr) || begins_at(&e->debug, vaddr);
}

bool code_entry_export(struct code_entries *e, const char *name, uint64_t *vaddr, bool *indirect)
{
	const struct export *x;

	read_file(e);
	x = find_export(e, name, false);
	if (!x)
		return false;
	*vaddr = x->address;
	*indirect = x->indirect;
	return true;
}

bool code_entry_is_static_program(struct code_entries *e)
{
	read_file(e);
	return find_export(e, "__libc_start_main", true) && find_export(e, "main", false);
}

const struct code_stub *code_entry_stubs(struct code_entries *e, size_t *n)
{
	read_file(e);
	*n = e->nstubs;
	return e->stub;
}

size_t code_entry_bytes(struct code_entries *e, uint64_t vaddr, const uint8_t **ret)
{
	Elf *elf = elffile_state(e->file) == ELFFILE_OK ? elffile_elf(e->file) : NULL;
	size_t size, n;
	const char *raw = elf ? elf_rawfile(elf, &size) : NULL;

	if (!raw || elf_getphdrnum(elf, &n))
		return 0;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr p;
		uint64_t offset;

		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_LOAD || !(p.p_flags & PF_X) ||
		    vaddr < p.p_vaddr || vaddr - p.p_vaddr >= p.p_filesz)
			continue;
		offset = p.p_offset + (vaddr - p.p_vaddr);
		if (offset >= size || p.p_offset + p.p_filesz > size)
			return 0;
		*ret = (const uint8_t *)raw + offset;
		return p.p_filesz - (vaddr - p.p_vaddr);
	}
	return 0;
}
