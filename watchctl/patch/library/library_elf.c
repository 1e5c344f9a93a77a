/*
 * library_elf - a drop-in is a filter (DT_FILTER): the loader puts the original in front of it wherever it searches for symbols, so that
 * what is found is the original's: the same functions, data, thread-local variables and resolvers of IFUNCs, with nothing in
 * between. The drop-in's own table of symbols is that of the original, for linkers and people to read (nm -D); its hash table, by
 * which alone the loader would find something in there, is empty. So RTLD_NEXT, asked in the original, does not lead here either.
 *
 *	0		headers, .gnu.hash, .dynsym, .dynstr, .gnu.version, .gnu.version_d, .rela.dyn	R
 *	code		probe/library/, and the page of its settings					R E
 *	data		.dynamic, and the word that the relocation fills in				RW
 *	shown		zeros, in segments like those of the original					R, RW
 *	(no address)	the plan, names of sections, the table of sections
 *
 * Symbols lie where they do in the original, plus @shown: a debugger that sets a breakpoint there sets it in nothing. Sections that
 * have exported symbols are there by name, type, flags and alignment, without contents. Linkers look at all of this when a program
 * is to have a copy of data, and at whether its segment may be written.
 *
 * The one relocation calls library_resolve() (probe/library/library.c).
 */
#include "watchctl/patch/library/library_elf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/patch/library/library_elf_impl.h"

#define PAGE DROP_IN_PAGE
#define SETTINGS_AT PAGE /* behind the code: probe/library/library.ld */
#define OWN_SEGMENTS 5u
#define ALIGN_MAX (1u << 30)

/* tools/library.mk */
extern const uint8_t library_code[], library_code_end[];

/* What it shows */

/* No chain leads to a symbol, and the filter in front of it lets none pass. */
static void write_hash(struct drop_in *d, size_t nsymbols)
{
	const uint32_t head[4] = { 1, (uint32_t)nsymbols, 1, 0 };
	const uint64_t bloom = 0;
	const uint32_t bucket = 0;

	d->hash_at = drop_in_begin(d, ".gnu.hash", SHT_GNU_HASH, SHF_ALLOC, 8, 0);
	text_buf_put(d->to, head, sizeof(head));
	text_buf_put(d->to, &bloom, sizeof(bloom));
	text_buf_put(d->to, &bucket, sizeof(bucket));
	drop_in_finish(d);
}

static size_t count_symbols(const struct library_source *s)
{
	size_t n = 1;

	for (size_t i = 1; i < s->nsymbols; i++)
		n += drop_in_exports(&s->symbol[i]);
	return n;
}

static void write_symbols(struct drop_in *d)
{
	const struct library_source *s = d->source;
	const Elf64_Sym none = { 0 };

	d->symbols_at = drop_in_begin(d, ".dynsym", SHT_DYNSYM, SHF_ALLOC, 8, sizeof(Elf64_Sym));
	drop_in_last(d)->sh_info = 1;
	text_buf_put(d->to, &none, sizeof(none));
	for (size_t i = 1; i < s->nsymbols; i++) {
		Elf64_Sym sym = s->symbol[i];

		if (!drop_in_exports(&sym))
			continue;
		if (sym.st_shndx < s->head->e_shnum) {
			sym.st_shndx = d->number[sym.st_shndx];
			sym.st_value += ELF64_ST_TYPE(sym.st_info) == STT_TLS ? 0 : d->shown;
		}
		text_buf_put(d->to, &sym, sizeof(sym));
	}
	drop_in_finish(d);
}

static uint32_t add_name(struct drop_in *d, const char *name)
{
	uint64_t at = d->to->len - d->names_at;

	text_buf_put(d->to, name, strlen(name) + 1);
	return (uint32_t)at;
}

/* The original's, to which its symbols and versions point, and three more. */
static void write_names(struct drop_in *d)
{
	d->names_at = drop_in_begin(d, ".dynstr", SHT_STRTAB, SHF_ALLOC, 1, 0);
	text_buf_put(d->to, d->source->names, d->source->names_len);
	d->soname = add_name(d, d->source->soname);
	d->original = add_name(d, d->ask->original);
	d->run_path = add_name(d, "$ORIGIN");
	drop_in_finish(d);
	d->names_len = d->to->len - d->names_at;
	d->failed |= d->names_len > UINT32_MAX;
	if (!d->failed)
		d->section[drop_in_number_of(d, SHT_DYNSYM)].sh_link = (uint32_t)d->nsections - 1;
}

static void write_versions(struct drop_in *d)
{
	const struct library_source *s = d->source;
	const uint32_t names = (uint32_t)d->nsections - 1;
	const uint16_t none = 0;

	if (!s->definitions)
		return;
	d->version_at = drop_in_begin(d, ".gnu.version", SHT_GNU_versym, SHF_ALLOC, 2, 2);
	drop_in_last(d)->sh_link = drop_in_number_of(d, SHT_DYNSYM);
	text_buf_put(d->to, &none, sizeof(none));
	for (size_t i = 1; i < s->nsymbols; i++)
		if (drop_in_exports(&s->symbol[i]))
			text_buf_put(d->to, &s->version[i], sizeof(uint16_t));
	drop_in_finish(d);
	d->definitions_at = drop_in_begin(d, ".gnu.version_d", SHT_GNU_verdef, SHF_ALLOC, 8, 0);
	drop_in_last(d)->sh_link = names;
	drop_in_last(d)->sh_info = (uint32_t)s->ndefinitions;
	text_buf_put(d->to, s->definitions, s->definitions_len);
	drop_in_finish(d);
}

/* What it does */

/* Complete when it is known where the code and the word are. */
static void write_relocation(struct drop_in *d)
{
	const Elf64_Rela r = { 0 };

	d->relocations_at = drop_in_begin(d, ".rela.dyn", SHT_RELA, SHF_ALLOC, 8, sizeof(r));
	text_buf_put(d->to, &r, sizeof(r));
	drop_in_finish(d);
}

static void put_range(struct drop_in *d, const uint8_t *start, const uint8_t *end)
{
	text_buf_put(d->to, start, (size_t)(end - start));
}

static void write_code(struct drop_in *d)
{
	struct library_settings settings = { 0 };

	d->code = drop_in_begin(d, ".watchctl.text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, PAGE, 0);
	put_range(d, library_code, library_code_end);
	drop_in_finish(d);
	strncpy(settings.watchctl, d->ask->watchctl, sizeof(settings.watchctl) - 1);
	strncpy(settings.name, d->source->soname, sizeof(settings.name) - 1);
	drop_in_begin(d, ".watchctl.settings", SHT_PROGBITS, SHF_ALLOC, SETTINGS_AT, 0);
	text_buf_put(d->to, &settings, sizeof(settings));
	drop_in_finish(d);
}

static void put_dynamic(struct drop_in *d, Elf64_Sxword tag, uint64_t value)
{
	const Elf64_Dyn entry = { .d_tag = tag, .d_un.d_val = value };

	text_buf_put(d->to, &entry, sizeof(entry));
}

static void put_versions(struct drop_in *d)
{
	if (!d->source->definitions)
		return;
	put_dynamic(d, DT_VERSYM, d->version_at);
	put_dynamic(d, DT_VERDEF, d->definitions_at);
	put_dynamic(d, DT_VERDEFNUM, d->source->ndefinitions);
}

/* Jumps into trampolines must not outlive the code that they are in: what is loaded once, stays (NODELETE). */
static void write_data(struct drop_in *d)
{
	const uint64_t word = 0;

	d->data = drop_in_begin(d, ".dynamic", SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, PAGE, sizeof(Elf64_Dyn));
	drop_in_last(d)->sh_link = drop_in_number_of(d, SHT_STRTAB);
	put_dynamic(d, DT_SONAME, d->soname);
	put_dynamic(d, DT_RUNPATH, d->run_path);
	put_dynamic(d, DT_FILTER, d->original);
	put_dynamic(d, DT_GNU_HASH, d->hash_at);
	put_dynamic(d, DT_STRTAB, d->names_at);
	put_dynamic(d, DT_SYMTAB, d->symbols_at);
	put_dynamic(d, DT_STRSZ, d->names_len);
	put_dynamic(d, DT_SYMENT, sizeof(Elf64_Sym));
	put_dynamic(d, DT_RELA, d->relocations_at);
	put_dynamic(d, DT_RELASZ, sizeof(Elf64_Rela));
	put_dynamic(d, DT_RELAENT, sizeof(Elf64_Rela));
	put_versions(d);
	put_dynamic(d, DT_FLAGS_1, DF_1_NODELETE | (d->source->flags_1 & DF_1_NOOPEN));
	put_dynamic(d, DT_NULL, 0);
	drop_in_finish(d);
	drop_in_begin(d, ".watchctl.word", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 8, 0);
	d->word = d->to->len;
	text_buf_put(d->to, &word, sizeof(word));
	drop_in_finish(d);
	d->end = d->to->len;
	assert(d->end <= d->shown);
}

/* What has no address */

static void write_rest(struct drop_in *d, Elf64_Ehdr *head)
{
	uint64_t zeros = 0;
	uint8_t none[PAGE] = { 0 };

	drop_in_begin(d, LIBRARY_PLAN_SECTION, SHT_PROGBITS, 0, 8, 0);
	text_buf_put(d->to, d->ask->plan->bytes, d->ask->plan->len);
	drop_in_finish(d);
	drop_in_begin(d, ".shstrtab", SHT_STRTAB, 0, 1, 0);
	text_buf_put(d->to, d->section_names.bytes, d->section_names.len);
	drop_in_finish(d);
	head->e_shstrndx = (Elf64_Half)(d->nsections - 1);
	drop_in_pad(d, 8);
	head->e_shoff = d->to->len;
	head->e_shnum = (Elf64_Half)d->nsections;
	drop_in_give_contents(d, head->e_shoff + d->nsections * sizeof(Elf64_Shdr), &zeros);
	if (!d->failed)
		text_buf_put(d->to, d->section, d->nsections * sizeof(Elf64_Shdr));
	for (; zeros; zeros -= zeros < PAGE ? zeros : PAGE)
		text_buf_put(d->to, none, zeros < PAGE ? zeros : PAGE);
}

static size_t count_segments(const struct library_source *s)
{
	size_t n = OWN_SEGMENTS;

	for (size_t i = 0; i < s->head->e_phnum; i++)
		n += s->segment[i].p_type == PT_LOAD;
	return n;
}

static Elf64_Phdr load(uint32_t flags, uint64_t start, uint64_t end)
{
	return (Elf64_Phdr){ PT_LOAD, flags, start, start, start, end - start, end - start, PAGE };
}

/* Nothing of it is in the file. Whole pages: of a part of one, the loader would clear the rest, which is not there either. */
static Elf64_Phdr shown_segment(const struct drop_in *d, const Elf64_Phdr *like)
{
	uint64_t start = d->shown + like->p_vaddr / PAGE * PAGE;
	uint64_t end = d->shown + (like->p_vaddr + like->p_memsz + PAGE - 1) / PAGE * PAGE;

	return (Elf64_Phdr){ .p_type = PT_LOAD,
			     .p_flags = PF_R | (like->p_flags & PF_W),
			     .p_vaddr = start,
			     .p_paddr = start,
			     .p_memsz = end - start,
			     .p_align = PAGE };
}

static void put_segments(const struct drop_in *d, Elf64_Phdr *p)
{
	const struct library_source *s = d->source;

	*p++ = load(PF_R, 0, d->code);
	*p++ = load(PF_R | PF_X, d->code, d->data);
	*p++ = load(PF_R | PF_W, d->data, d->end);
	for (size_t i = 0; i < s->head->e_phnum; i++)
		if (s->segment[i].p_type == PT_LOAD)
			*p++ = shown_segment(d, &s->segment[i]);
	*p = load(PF_R | PF_W, d->data, d->word);
	p->p_type = PT_DYNAMIC;
	p++->p_align = 8;
	*p++ = (Elf64_Phdr){ .p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16 };
}

static void put_back(struct drop_in *d, uint64_t at, const void *bytes, size_t n)
{
	if (!d->to->failed)
		memcpy(d->to->bytes + at, bytes, n);
}

static void complete(struct drop_in *d, Elf64_Ehdr *head)
{
	const Elf64_Rela r = { .r_offset = d->word,
			       .r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE),
			       .r_addend = (Elf64_Sxword)d->code };
	const size_t n = head->e_phnum;
	Elf64_Phdr *segment = calloc(n + 1, sizeof(*segment));

	d->failed |= !segment;
	if (segment)
		put_segments(d, segment);
	memcpy(head->e_ident, d->source->head->e_ident, EI_NIDENT);
	put_back(d, 0, head, sizeof(*head));
	if (segment)
		put_back(d, sizeof(*head), segment, n * sizeof(*segment));
	put_back(d, d->relocations_at, &r, sizeof(r));
	free(segment);
}

static void write_parts(struct drop_in *d)
{
	Elf64_Ehdr head = { .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_phoff = sizeof(head),
			    .e_ehsize = sizeof(head),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = (Elf64_Half)count_segments(d->source),
			    .e_shentsize = sizeof(Elf64_Shdr) };
	const Elf64_Phdr none = { 0 };

	drop_in_add_section(d, "", &(Elf64_Shdr){ 0 });
	drop_in_show_sections(d);
	text_buf_put(d->to, &head, sizeof(head));
	for (unsigned int i = 0; i < head.e_phnum; i++)
		text_buf_put(d->to, &none, sizeof(none));
	write_hash(d, count_symbols(d->source));
	write_symbols(d);
	write_names(d);
	write_versions(d);
	write_relocation(d);
	write_code(d);
	write_data(d);
	write_rest(d, &head);
	complete(d, &head);
}

/* Behind all that is ours, aligned as the original's sections are. */
static uint64_t place_shown(const struct library_source *s)
{
	uint64_t align = PAGE, least = 32 * PAGE + s->names_len + s->nsymbols * 32 + s->definitions_len;

	for (size_t i = 0; i < s->head->e_shnum; i++)
		if (s->section[i].sh_addralign > align && s->section[i].sh_addralign <= ALIGN_MAX)
			align = s->section[i].sh_addralign;
	return (least + align - 1) / align * align;
}

void library_elf_write(const struct library_elf *l, struct text_buf *to)
{
	struct drop_in d = { .ask = l, .source = l->source, .to = to, .shown = place_shown(l->source) };

	d.number = calloc(l->source->head->e_shnum + 1u, sizeof(*d.number));
	if (d.number) {
		drop_in_number_sections(&d);
		write_parts(&d);
	}
	to->failed |= !d.number || d.failed || d.section_names.failed;
	text_buf_deinit(&d.section_names);
	free(d.section);
	free(d.number);
}
