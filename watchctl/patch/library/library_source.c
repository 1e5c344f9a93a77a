#include "watchctl/patch/library/library_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/patch/library/library_find.h"

#define SPAN_MAX (1ull << 40)
#define SEGMENTS_MAX 256u

/* @n items of @size bytes at offset @at; NULL: not all of them are in the file, or not where such things may be. */
static const void *part(const struct library_source *s, uint64_t at, uint64_t n, size_t size, size_t align)
{
	if (at > s->size || n > (s->size - at) / size || at % align)
		return NULL;
	return s->bytes + at;
}

static struct wc_error *damaged(const struct library_source *s, const char *what)
{
	return wc_error_new(WC_ENAME, "%s is damaged, or cut off: %s", s->path, what);
}

/* The file */

/* Read, not mapped: it may be cut off meanwhile. */
static struct wc_error *read_bytes(int fd, size_t size, struct library_source *s)
{
	s->bytes = malloc(size + 1);
	if (!s->bytes)
		return &wc_enomem;
	while (s->size < size) {
		ssize_t n = pread(fd, s->bytes + s->size, size - s->size, (off_t)s->size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return wc_error_errno(WC_EFAIL, errno, "cannot read the library %s", s->path);
		if (!n)
			break;
		s->size += (size_t)n;
	}
	return NULL;
}

static struct wc_error *read_file(const char *path, struct library_source *s)
{
	scoped(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !(s->path = realpath(path, NULL)))
		return wc_error_errno(errno == EACCES ? WC_EPERM : WC_ENAME, errno,
				      "cannot open the library %s", path);
	if (!S_ISREG(st.st_mode))
		return wc_error_new(WC_ENAME, "%s is no library: it is no regular file", path);
	return read_bytes(fd, (size_t)st.st_size, s);
}

static struct wc_error *read_head(struct library_source *s)
{
	const Elf64_Ehdr *h = part(s, 0, 1, sizeof(*h), 8);
	const Elf64_Shdr *names;

	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return wc_error_new(WC_ENAME, "%s is no library: it is no ELF file", s->path);
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
	    h->e_machine != EM_X86_64)
		return wc_error_new(WC_ENAME, "%s is no library for x86-64", s->path);
	s->head = h;
	s->segment = part(s, h->e_phoff, h->e_phnum, sizeof(Elf64_Phdr), 8);
	s->section = part(s, h->e_shoff, h->e_shnum, sizeof(Elf64_Shdr), 8);
	if (!s->segment || !s->section || h->e_shstrndx >= h->e_shnum)
		return damaged(s, "its tables of segments and sections are not all there");
	names = &s->section[h->e_shstrndx];
	s->section_names = part(s, names->sh_offset, names->sh_size, 1, 1);
	s->section_names_len = s->section_names ? names->sh_size : 0;
	return NULL;
}

const char *library_source_section_name(const struct library_source *s, const Elf64_Shdr *sh)
{
	bool ends = s->section_names_len && !s->section_names[s->section_names_len - 1];

	return ends && sh->sh_name < s->section_names_len ? s->section_names + sh->sh_name : "";
}

static const Elf64_Shdr *section_of(const struct library_source *s, uint32_t type)
{
	for (size_t i = 0; i < s->head->e_shnum; i++)
		if (s->section[i].sh_type == type)
			return &s->section[i];
	return NULL;
}

static const Elf64_Phdr *segment_of(const struct library_source *s, uint32_t type)
{
	for (size_t i = 0; i < s->head->e_phnum; i++)
		if (s->segment[i].p_type == type)
			return &s->segment[i];
	return NULL;
}

static const char *name_at(const struct library_source *s, uint64_t at)
{
	return at < s->names_len ? s->names + at : "";
}

static struct wc_error *read_symbols(struct library_source *s)
{
	const Elf64_Shdr *sh = section_of(s, SHT_DYNSYM), *names;

	if (!sh || sh->sh_link >= s->head->e_shnum)
		return damaged(s, "it has no table of dynamic symbols");
	names = &s->section[sh->sh_link];
	s->nsymbols = sh->sh_size / sizeof(Elf64_Sym);
	s->symbol = part(s, sh->sh_offset, s->nsymbols, sizeof(Elf64_Sym), 8);
	s->names = part(s, names->sh_offset, names->sh_size, 1, 1);
	s->names_len = names->sh_size;
	if (!s->symbol || !s->names || !s->names_len || s->names[s->names_len - 1])
		return damaged(s, "its dynamic symbols are not all there");
	return NULL;
}

static struct wc_error *read_versions(struct library_source *s)
{
	const Elf64_Shdr *def = section_of(s, SHT_GNU_verdef), *sym = section_of(s, SHT_GNU_versym);

	if (!def)
		return NULL;
	s->definitions = part(s, def->sh_offset, def->sh_size, 1, 4);
	s->definitions_len = def->sh_size;
	s->ndefinitions = def->sh_info;
	s->version = sym ? part(s, sym->sh_offset, s->nsymbols, sizeof(uint16_t), 2) : NULL;
	return s->definitions && s->version ? NULL : damaged(s, "its versions are not all there");
}

static struct wc_error *read_dynamic(struct library_source *s)
{
	const Elf64_Phdr *p = segment_of(s, PT_DYNAMIC);

	if (!p)
		return NULL;
	s->ndynamic = p->p_filesz / sizeof(Elf64_Dyn);
	s->dynamic = part(s, p->p_offset, s->ndynamic, sizeof(Elf64_Dyn), 8);
	if (!s->dynamic)
		return damaged(s, "its dynamic section is not there");
	for (size_t i = 0; i < s->ndynamic && s->dynamic[i].d_tag != DT_NULL; i++)
		if (s->dynamic[i].d_tag == DT_FLAGS_1)
			s->flags_1 = s->dynamic[i].d_un.d_val;
	return NULL;
}

static struct wc_error *check_segments(const struct library_source *s)
{
	for (size_t i = 0; i < s->head->e_phnum; i++) {
		const Elf64_Phdr *p = &s->segment[i];

		if (p->p_type == PT_LOAD && (p->p_vaddr > SPAN_MAX || p->p_memsz > SPAN_MAX))
			return damaged(s, "its segments lie where none can be");
	}
	return s->head->e_phnum < SEGMENTS_MAX ? NULL : damaged(s, "it has more segments than any library");
}

/* What can be replaced */

static struct wc_error *is_program(const struct library_source *s)
{
	const char *kind = segment_of(s, PT_INTERP) ? "an executable" : "a static executable";

	return wc_error_new(
		WC_ENAME,
		"%s is %s, which no library can replace: patch it while it runs (watchctl patch -p PID), or from its "
		"start (watchctl patch ... -- %s)",
		s->path, kind, s->path);
}

static struct wc_error *check_kind(const struct library_source *s)
{
	if (s->head->e_type == ET_EXEC || (s->head->e_type == ET_DYN && s->flags_1 & DF_1_PIE))
		return is_program(s);
	if (s->head->e_type != ET_DYN || !s->dynamic)
		return wc_error_new(WC_ENAME, "%s is no shared library, but another kind of ELF file",
				    s->path);
	return NULL;
}

/* "$ORIGIN", in what says where its own libraries are. */
static bool looks_beside_itself(const char *path)
{
	return strstr(path, "$ORIGIN") || strstr(path, "${ORIGIN}");
}

static struct wc_error *cannot(const struct library_source *s, const char *why)
{
	return wc_error_new(
		WC_ENOTSUP,
		"%s cannot be replaced: %s; patch it in the running process (watchctl patch -p PID)", s->path,
		why);
}

static struct wc_error *check_entry(struct library_source *s, const Elf64_Dyn *d)
{
	switch (d->d_tag) {
	case DT_SONAME:
		s->soname = name_at(s, d->d_un.d_val);
		return NULL;
	case DT_RPATH:
	case DT_RUNPATH:
		return looks_beside_itself(name_at(s, d->d_un.d_val))
			       ? cannot(s,
					"it looks for its own libraries beside itself ($ORIGIN), and a copy elsewhere would not find them")
			       : NULL;
	case DT_TEXTREL:
		return cannot(s, "the loader changes its code (text relocations)");
	case DT_FLAGS:
		return (d->d_un.d_val & DF_TEXTREL)
			       ? cannot(s, "the loader changes its code (text relocations)")
			       : NULL;
	default:
		return NULL;
	}
}

static bool defines_private(const struct library_source *s)
{
	for (size_t i = 0; i < s->nsymbols; i++)
		if (s->symbol[i].st_shndx == SHN_ABS &&
		    !strcmp(name_at(s, s->symbol[i].st_name), "GLIBC_PRIVATE"))
			return true;
	return false;
}

static bool is_glibc(const struct library_source *s)
{
	return !strncmp(s->soname, "libc.so.", 8) || !strncmp(s->soname, "ld-", 3) || defines_private(s);
}

static bool is_drop_in(const struct library_source *s)
{
	for (size_t i = 0; i < s->head->e_shnum; i++)
		if (!strcmp(library_source_section_name(s, &s->section[i]), LIBRARY_PLAN_SECTION))
			return true;
	return false;
}

static struct wc_error *check(struct library_source *s)
{
	struct wc_error *err = NULL;

	if (is_drop_in(s))
		return wc_error_new(WC_EUSAGE, "%s is a drop-in library already: give the original", s->path);
	for (size_t i = 0; i < s->ndynamic && s->dynamic[i].d_tag != DT_NULL && !err; i++)
		err = check_entry(s, &s->dynamic[i]);
	if (err)
		return err;
	if (!s->soname || !*s->soname || strchr(s->soname, '/'))
		return cannot(s, "it has no SONAME by which programs could ask for another in its place");
	if (is_glibc(s))
		return cannot(
			s,
			"it is a part of glibc's, and these must all be of one build and loaded by the loader that belongs "
			"to them");
	return NULL;
}

static struct wc_error *open_path(const char *path, struct library_source *s)
{
	struct wc_error *err = read_file(path, s);

	if (!err)
		err = read_head(s);
	if (!err)
		err = read_dynamic(s);
	if (!err)
		err = check_kind(s);
	if (!err)
		err = read_symbols(s);
	if (!err)
		err = read_versions(s);
	if (!err)
		err = check_segments(s);
	return err ? err : check(s);
}

struct wc_error *library_source_open(const char *name, struct library_source *ret)
{
	scoped(library_source_close) struct library_source s = { 0 };
	scoped(freep) char *found = NULL;
	struct wc_error *err = NULL;

	if (!strchr(name, '/'))
		err = library_find(name, &found);
	if (!err)
		err = open_path(found ? found : name, &s);
	if (err)
		return err;
	*ret = s;
	s = (struct library_source){ 0 };
	return NULL;
}

void library_source_close(struct library_source *s)
{
	free(s->bytes);
	free(s->path);
	*s = (struct library_source){ 0 };
}

/* Drop-ins */

static struct wc_error *no_drop_in(const char *path)
{
	return wc_error_new(WC_ENAME, "%s is no drop-in library of watchctl's", path);
}

struct wc_error *library_source_read_plan(const char *path, uint8_t **bytes, size_t *size)
{
	scoped(library_source_close) struct library_source s = { 0 };
	struct wc_error *err = read_file(path, &s);

	if (!err)
		err = read_head(&s);
	for (size_t i = 0; !err && i < s.head->e_shnum; i++) {
		const Elf64_Shdr *sh = &s.section[i];
		const void *plan;

		if (strcmp(library_source_section_name(&s, sh), LIBRARY_PLAN_SECTION) != 0)
			continue;
		plan = part(&s, sh->sh_offset, sh->sh_size, 1, 1);
		if (!plan)
			break;
		*bytes = malloc(sh->sh_size + 1);
		*size = sh->sh_size;
		return *bytes ? (memcpy(*bytes, plan, sh->sh_size), NULL) : &wc_enomem;
	}
	return err ? err : no_drop_in(path);
}
