#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/base/vec.h"
#include "watchctl/patch/probe/probe_image_impl.h"

#define NAMES_SHOWN 20

const void *probe_elf_part(const struct probe_elf *e, uint64_t at, uint64_t n, size_t size)
{
	if (at > e->size || n > (e->size - at) / size || at % 8)
		return NULL;
	return e->bytes + at;
}

struct wc_error *probe_elf_open(struct probe_elf *e)
{
	const Elf64_Ehdr *h = probe_elf_part(e, 0, 1, sizeof(*h));

	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return probe_image_refuse(e->name, "it is no ELF file");
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
	    h->e_machine != EM_X86_64)
		return probe_image_refuse(e->name, "it is not for x86-64");
	if (h->e_type != ET_DYN)
		return probe_image_refuse(e->name, "it is no shared object (cc -shared)");
	if (h->e_phentsize != sizeof(Elf64_Phdr) || (h->e_shnum && h->e_shentsize != sizeof(Elf64_Shdr)))
		return probe_image_refuse(e->name, "its headers have a size that they never have");
	e->nsegments = h->e_phnum;
	e->segment = probe_elf_part(e, h->e_phoff, e->nsegments, sizeof(Elf64_Phdr));
	e->nsections = h->e_shnum;
	e->section = probe_elf_part(e, h->e_shoff, e->nsections, sizeof(Elf64_Shdr));
	if (!e->segment || !e->section)
		return probe_image_refuse(e->name, "its end is missing");
	return NULL;
}

/* NULL: there is none, or it does not end. */
static const char *section_name(const struct probe_elf *e, const Elf64_Shdr *s)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)e->bytes;
	const Elf64_Shdr *names = h->e_shstrndx < e->nsections ? &e->section[h->e_shstrndx] : NULL;

	if (!names || names->sh_offset > e->size || names->sh_size > e->size - names->sh_offset ||
	    s->sh_name >= names->sh_size ||
	    !memchr(e->bytes + names->sh_offset + s->sh_name, 0, names->sh_size - s->sh_name))
		return NULL;
	return (const char *)e->bytes + names->sh_offset + s->sh_name;
}

void probe_elf_span(const struct probe_elf *e, const char *name, uint64_t *start, uint64_t *end)
{
	*start = *end = 0;
	for (size_t i = 0; i < e->nsections; i++) {
		const Elf64_Shdr *s = &e->section[i];
		const char *its = section_name(e, s);

		if (!its || strcmp(its, name) != 0 || s->sh_size > UINT64_MAX - s->sh_addr)
			continue;
		*start = s->sh_addr;
		*end = s->sh_addr + s->sh_size;
	}
}

/* Symbols */

bool probe_elf_symbols(const struct probe_elf *e, uint32_t type, struct probe_symbols *ret)
{
	*ret = (struct probe_symbols){ 0 };
	for (size_t i = 0; i < e->nsections; i++) {
		const Elf64_Shdr *s = &e->section[i], *names;
		const size_t n = s->sh_size / sizeof(Elf64_Sym);

		if (s->sh_type != type || s->sh_link >= e->nsections)
			continue;
		names = &e->section[s->sh_link];
		if (names->sh_offset > e->size || names->sh_size > e->size - names->sh_offset ||
		    !names->sh_size)
			return false;
		*ret = (struct probe_symbols){ probe_elf_part(e, s->sh_offset, n, sizeof(Elf64_Sym)), n,
					       (const char *)e->bytes + names->sh_offset, names->sh_size };
		return ret->v && !ret->names[ret->names_len - 1];
	}
	return false;
}

const char *probe_elf_symbol_name(const struct probe_symbols *s, const Elf64_Sym *sym)
{
	return sym->st_name < s->names_len ? s->names + sym->st_name : "";
}

/* What is used and not there */

struct names {
	const char **v;
	size_t n, cap;
};

static void names_deinit(struct names *n)
{
	free(n->v);
}

static bool add_undefined(const struct probe_symbols *s, struct names *ret)
{
	for (size_t i = 1; i < s->n; i++) {
		const Elf64_Sym *sym = &s->v[i];
		const char *name = probe_elf_symbol_name(s, sym);

		if (sym->st_shndx == SHN_UNDEF && *name && ELF64_ST_BIND(sym->st_info) != STB_LOCAL &&
		    !vec_push(ret->v, ret->n, ret->cap, name))
			return false;
	}
	return true;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What to do instead, where that can be said. NULL: nothing. */
static const char *advice(const struct names *n)
{
	static const char *const print[] = { "printf", "puts",	 "putchar", "fprintf",
					     "fputs",  "perror", "stdout",  "stderr" };

	for (size_t i = 0; i < n->n; i++) {
		for (size_t k = 0; k < sizeof(print) / sizeof(print[0]); k++)
			if (!strcmp(n->v[i], print[k]))
				return "probe_log() prints, into the log";
		/* libgcc's, as __muldf3: where there are no vector registers, clang calls them. */
		if (!strncmp(n->v[i], "__", 2) && (strstr(n->v[i], "df") || strstr(n->v[i], "sf")))
			return "they have no floating point either";
	}
	return NULL;
}

/* What is hidden is not among the dynamic symbols, and some linkers put 0 in its place. */
struct wc_error *probe_elf_undefined(const struct probe_elf *e)
{
	scoped(text_buf_deinit) struct text_buf list = { 0 };
	scoped(names_deinit) struct names names = { 0 };
	struct probe_symbols s;
	struct wc_error *err;
	const char *hint;

	if (probe_elf_symbols(e, SHT_DYNSYM, &s) && !add_undefined(&s, &names))
		return &wc_enomem;
	if (!names.n && probe_elf_symbols(e, SHT_SYMTAB, &s) && !add_undefined(&s, &names))
		return &wc_enomem;
	if (!names.n)
		return NULL;
	qsort(names.v, names.n, sizeof(*names.v), by_text);
	for (size_t i = 0; i < names.n; i++) {
		if (i < NAMES_SHOWN)
			text_buf_printf(&list, "%s%s", i ? ", " : "", names.v[i]);
	}
	if (names.n > NAMES_SHOWN)
		text_buf_printf(&list, " and %zu more", names.n - NAMES_SHOWN);
	if (list.failed)
		return &wc_enomem;
	err = wc_error_new(
		WC_EUSAGE,
		"%s uses %s, which %s not there inside a program: probes have the functions of "
		"<watchctl/probe.h>, and memcpy, memmove, memset, memcmp and strlen, but no C library",
		e->name, text_buf_text(&list), names.n == 1 ? "is" : "are");
	hint = advice(&names);
	return hint ? wc_error_hint(err, "%s", hint) : err;
}

/* What only a loader could do */

static struct wc_error *check_entry(const struct probe_elf *e, const Elf64_Dyn *d)
{
	switch (d->d_tag) {
	case DT_INIT:
	case DT_FINI:
	case DT_INIT_ARRAY:
	case DT_FINI_ARRAY:
	case DT_PREINIT_ARRAY:
		return probe_image_refuse(e->name,
					  "it has constructors or destructors, which nobody would call");
	case DT_NEEDED:
		return probe_image_refuse(e->name, "it needs other libraries: link it with -nostdlib");
	case DT_TEXTREL:
		return probe_image_refuse(e->name, "its code depends on its address: compile it with -fPIC");
	case DT_FLAGS:
		if (d->d_un.d_val & DF_TEXTREL)
			return probe_image_refuse(e->name,
						  "its code depends on its address: compile it with -fPIC");
		if (d->d_un.d_val & DF_STATIC_TLS)
			return probe_image_refuse(e->name,
						  "it uses thread-local variables, which probes cannot");
		return NULL;
	case DT_REL:
	case 36: /* DT_RELR, which glibc 2.35 does not name */
		return probe_image_refuse(
			e->name,
			"its relocations have another format (link it with -z nopack-relative-relocs)");
	default:
		return NULL;
	}
}

struct wc_error *probe_elf_check_dynamic(const struct probe_elf *e)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; i < e->nsegments && !err; i++) {
		const Elf64_Phdr *p = &e->segment[i];
		const size_t n = p->p_filesz / sizeof(Elf64_Dyn);
		const Elf64_Dyn *d;

		if (p->p_type != PT_DYNAMIC)
			continue;
		d = probe_elf_part(e, p->p_offset, n, sizeof(*d));
		if (!d)
			return probe_image_refuse(e->name, "its end is missing");
		for (size_t k = 0; k < n && d[k].d_tag != DT_NULL && !err; k++)
			err = check_entry(e, &d[k]);
	}
	return err;
}
