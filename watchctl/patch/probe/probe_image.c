/*
 * probe_image - the file that a linker has made, as a loader would map it:
 *
 *	0			code_size			code_size + data_size
 *	| headers, code, constants | variables: from the file, then zeros |
 *
 * What a loader would do besides, is resolved here, or refused.
 */
#include "watchctl/patch/probe/probe_image.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/probe.h"
#include "probe/wire.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/patch/probe/probe_image_impl.h"

#define FILE_SIZE_MAX (64u << 20)
#define CODE_MAX (1u << 20)
#define DATA_MAX (16u << 20)
#define TOO_LARGE "it is too large: at most 1 MB of code and 16 MB of variables"

struct wc_error *probe_image_refuse(const char *name, const char *fmt, ...)
{
	scoped(freep) char *why = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&why, fmt, ap);
	va_end(ap);
	if (n < 0) {
		why = NULL;
		return &wc_enomem;
	}
	return wc_error_new(WC_EUSAGE, "%s cannot be put into a program: %s", name, why);
}

/* The memory */

struct extent {
	uint64_t code_end, data_start, end;
};

static struct wc_error *add_segment(const struct probe_elf *e, const Elf64_Phdr *p, struct extent *x)
{
	uint64_t end;

	if (p->p_vaddr > CODE_MAX + DATA_MAX || p->p_memsz > DATA_MAX)
		return probe_image_refuse(e->name, TOO_LARGE);
	if (p->p_filesz > p->p_memsz || p->p_offset > e->size || p->p_filesz > e->size - p->p_offset)
		return probe_image_refuse(e->name, "its end is missing");
	end = p->p_vaddr + p->p_memsz;
	if (p->p_flags & PF_W) {
		if (p->p_flags & PF_X)
			return probe_image_refuse(e->name, "it has memory that is both code and data");
		if (p->p_vaddr < x->data_start)
			x->data_start = p->p_vaddr / PROBE_PAGE * PROBE_PAGE;
	} else if (end > x->code_end) {
		x->code_end = end;
	}
	if (end > x->end)
		x->end = end;
	return NULL;
}

/* One of no size is none, whatever else it says. */
static bool is_loaded(const Elf64_Phdr *p)
{
	return p->p_type == PT_LOAD && p->p_memsz;
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PROBE_PAGE - 1) / PROBE_PAGE * PROBE_PAGE;
}

/* Sets the sizes of @i. */
static struct wc_error *lay_out(const struct probe_elf *e, struct probe_image *i)
{
	struct extent x = { .data_start = UINT64_MAX };
	struct wc_error *err = NULL;

	for (size_t k = 0; k < e->nsegments && !err; k++) {
		const Elf64_Phdr *p = &e->segment[k];

		if (p->p_type == PT_TLS)
			err = probe_image_refuse(e->name,
						 "it has thread-local variables, which probes cannot have");
		else if (p->p_type == PT_INTERP)
			err = probe_image_refuse(e->name, "it is a program");
		else if (is_loaded(p))
			err = add_segment(e, p, &x);
	}
	if (err)
		return err;
	if (!x.code_end)
		return probe_image_refuse(e->name, "it has no code");
	if (x.data_start == UINT64_MAX)
		x.data_start = whole_pages(x.code_end);
	if (x.data_start < whole_pages(x.code_end))
		return probe_image_refuse(e->name,
					  "its variables lie on a page with code, or in front of it");
	i->code_size = x.data_start;
	i->data_size = x.end > x.data_start ? whole_pages(x.end - x.data_start) : 0;
	return i->code_size > CODE_MAX || i->data_size > DATA_MAX ? probe_image_refuse(e->name, TOO_LARGE)
								  : NULL;
}

static struct wc_error *load(const struct probe_elf *e, struct probe_image *i)
{
	assert(i->code_size);
	i->bytes = calloc(1, i->code_size + i->data_size);
	if (!i->bytes)
		return &wc_enomem;
	for (size_t k = 0; k < e->nsegments; k++) {
		const Elf64_Phdr *p = &e->segment[k];

		if (is_loaded(p) && p->p_filesz)
			memcpy(i->bytes + p->p_vaddr, e->bytes + p->p_offset, p->p_filesz);
	}
	return NULL;
}

static bool in_image(const struct probe_image *i, uint64_t at, uint64_t len)
{
	const uint64_t size = i->code_size + i->data_size;

	return at <= size && len <= size - at;
}

static bool in_data(const struct probe_image *i, uint64_t at, uint64_t len)
{
	return at >= i->code_size && in_image(i, at, len);
}

/* Relocations */

static struct wc_error *add_relocation(const struct probe_elf *e, const struct probe_symbols *s,
				       const Elf64_Rela *r, struct probe_image *i, size_t *cap)
{
	const uint64_t n = ELF64_R_SYM(r->r_info), type = ELF64_R_TYPE(r->r_info);
	uint64_t value = (uint64_t)r->r_addend;

	switch (type) {
	case R_X86_64_NONE:
		return NULL;
	case R_X86_64_RELATIVE:
		break;
	case R_X86_64_64:
	case R_X86_64_GLOB_DAT:
	case R_X86_64_JUMP_SLOT:
		if (n >= s->n || s->v[n].st_shndx == SHN_UNDEF || s->v[n].st_shndx == SHN_ABS)
			return probe_image_refuse(e->name, "it refers to something that is not in it");
		value = s->v[n].st_value + (type == R_X86_64_64 ? value : 0);
		break;
	case R_X86_64_IRELATIVE:
		return probe_image_refuse(e->name, "it has functions that choose themselves (ifunc)");
	default:
		return probe_image_refuse(e->name,
					  "it has a relocation of kind %u, which only a loader can do",
					  (unsigned int)type);
	}
	if (!in_data(i, r->r_offset, 8))
		return probe_image_refuse(e->name, "its code depends on its address: compile it with -fPIC");
	if (!vec_push(i->relocation, i->nrelocations, *cap, (struct probe_relocation){ r->r_offset, value }))
		return &wc_enomem;
	return NULL;
}

static int by_place(const void *a, const void *b)
{
	const struct probe_relocation *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static struct wc_error *read_relocations(const struct probe_elf *e, const struct probe_symbols *s,
					 struct probe_image *i)
{
	struct wc_error *err = NULL;
	size_t cap = 0;

	for (size_t k = 0; k < e->nsections && !err; k++) {
		const Elf64_Shdr *h = &e->section[k];
		const size_t n = h->sh_size / sizeof(Elf64_Rela);
		const Elf64_Rela *r;

		/* Others are of the linker's, of sections that are not loaded. */
		if (h->sh_type != SHT_RELA || !(h->sh_flags & SHF_ALLOC))
			continue;
		r = probe_elf_part(e, h->sh_offset, n, sizeof(*r));
		if (!r)
			return probe_image_refuse(e->name, "its end is missing");
		for (size_t j = 0; j < n && !err; j++)
			err = add_relocation(e, s, &r[j], i, &cap);
	}
	if (!err && i->nrelocations)
		qsort(i->relocation, i->nrelocations, sizeof(*i->relocation), by_place);
	return err;
}

/* Functions */

static int by_name(const void *a, const void *b)
{
	const struct probe_function *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* What PROBE() defines has its own prefix: it is called otherwise than other functions. */
static struct wc_error *read_functions(const struct probe_elf *e, const struct probe_symbols *s,
				       struct probe_image *i)
{
	size_t cap = 0;

	i->names = malloc(s->names_len);
	if (!i->names)
		return &wc_enomem;
	memcpy(i->names, s->names, s->names_len);
	for (size_t k = 1; k < s->n; k++) {
		const Elf64_Sym *sym = &s->v[k];
		const unsigned int type = ELF64_ST_TYPE(sym->st_info);
		const char *name;

		if (type == STT_GNU_IFUNC)
			return probe_image_refuse(e->name, "it has functions that choose themselves (ifunc)");
		if (type == STT_TLS)
			return probe_image_refuse(e->name,
						  "it has thread-local variables, which probes cannot have");
		if (type != STT_FUNC || sym->st_shndx == SHN_UNDEF || sym->st_value >= i->code_size ||
		    ELF64_ST_VISIBILITY(sym->st_other) != STV_DEFAULT || sym->st_name >= s->names_len)
			continue;
		name = i->names + sym->st_name;
		if (strncmp(name, PROBE_PREFIX_, strlen(PROBE_PREFIX_)) != 0)
			continue;
		if (!vec_push(i->function, i->nfunctions, cap,
			      (struct probe_function){ name + strlen(PROBE_PREFIX_), sym->st_value }))
			return &wc_enomem;
	}
	if (!i->nfunctions)
		return probe_image_refuse(e->name, "it has no probe: define one, with PROBE(name) { ... }");
	qsort(i->function, i->nfunctions, sizeof(*i->function), by_name);
	return NULL;
}

static struct wc_error *find_runtime(const struct probe_elf *e, struct probe_image *i)
{
	bool entry = false, shared = false;
	struct probe_symbols s;

	if (!probe_elf_symbols(e, SHT_SYMTAB, &s))
		return probe_image_refuse(e->name, "its symbols were stripped");
	for (size_t k = 1; k < s.n; k++) {
		const Elf64_Sym *sym = &s.v[k];
		const char *name = probe_elf_symbol_name(&s, sym);

		if (!strcmp(name, "probe_entry") && sym->st_value < i->code_size) {
			i->entry_at = sym->st_value;
			entry = true;
		} else if (!strcmp(name, "probe_shared") && in_data(i, sym->st_value, 8) &&
			   sym->st_value % 8 == 0) {
			i->shared_at = sym->st_value;
			shared = true;
		}
	}
	return entry && shared ? NULL
			       : probe_image_refuse(e->name, "it was not linked with the probes' runtime");
}

static struct wc_error *read_image(struct probe_elf *e, struct probe_image *i)
{
	struct probe_symbols s;
	struct wc_error *err = probe_elf_open(e);

	if (!err)
		err = lay_out(e, i);
	if (!err)
		err = probe_elf_check_dynamic(e);
	if (!err)
		err = probe_elf_undefined(e);
	if (!err && !probe_elf_symbols(e, SHT_DYNSYM, &s))
		err = probe_image_refuse(e->name, "it has no dynamic symbols");
	if (!err)
		err = load(e, i);
	if (!err)
		err = read_relocations(e, &s, i);
	if (!err)
		err = find_runtime(e, i);
	if (!err)
		err = read_functions(e, &s, i);
	if (!err)
		err = probe_formats_check(e, i);
	return err ? err : probe_elf_check_code(e, i);
}

struct wc_error *probe_image_read(const uint8_t *bytes, size_t size, const char *name,
				  struct probe_image *ret)
{
	scoped(probe_image_deinit) struct probe_image i = { 0 };
	struct probe_elf e = { .name = name, .bytes = bytes, .size = size };
	struct wc_error *err = read_image(&e, &i);

	if (err)
		return err;
	*ret = i;
	i = (struct probe_image){ 0 };
	return NULL;
}

struct wc_error *probe_image_read_file(const char *path, const char *name, uint8_t **ret_bytes,
				       size_t *ret_size)
{
	scoped(closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	scoped(freep) uint8_t *bytes = NULL;
	size_t done = 0, size;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return wc_error_errno(WC_EUSAGE, errno, "cannot read the probes %s", path);
	if (!S_ISREG(st.st_mode))
		return probe_image_refuse(name, "it is no regular file");
	if (st.st_size > (off_t)FILE_SIZE_MAX)
		return probe_image_refuse(name, TOO_LARGE);
	size = (size_t)st.st_size;
	bytes = malloc(size + 1);
	if (!bytes)
		return &wc_enomem;
	while (done < size) {
		ssize_t n = pread(fd, bytes + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return wc_error_errno(WC_EUSAGE, errno, "cannot read the probes %s", path);
		if (!n)
			break;
		done += (size_t)n;
	}
	*ret_bytes = take_ptr(bytes);
	*ret_size = done;
	return NULL;
}

struct wc_error *probe_image_open_as(const char *path, const char *name, struct probe_image *ret)
{
	scoped(freep) uint8_t *bytes = NULL;
	size_t size = 0;
	struct wc_error *err = probe_image_read_file(path, name, &bytes, &size);

	return err ? err : probe_image_read(bytes, size, name, ret);
}

struct wc_error *probe_image_open(const char *path, struct probe_image *ret)
{
	return probe_image_open_as(path, path, ret);
}

void probe_image_deinit(struct probe_image *i)
{
	free(i->bytes);
	free(i->function);
	free(i->relocation);
	free(i->names);
	*i = (struct probe_image){ 0 };
}

/* Use */

const struct probe_function *probe_image_function(const struct probe_image *i, const char *name)
{
	const struct probe_function key = { name, 0 };

	return i->nfunctions ? bsearch(&key, i->function, i->nfunctions, sizeof(key), by_name) : NULL;
}

bool probe_image_format(const struct probe_image *i, uint64_t at, struct probe_image_format *ret)
{
	const struct probe_relocation key = { at, 0 }, *text;
	const uint64_t size = i->code_size + i->data_size;
	struct probe_format f;

	if (!i->nrelocations || !in_image(i, at, sizeof(f)))
		return false;
	text = bsearch(&key, i->relocation, i->nrelocations, sizeof(key), by_place);
	if (!text || text->addend >= size || !memchr(i->bytes + text->addend, 0, size - text->addend))
		return false;
	memcpy(&f, i->bytes + at, sizeof(f));
	if (f.nargs > PROBE_ARGS_MAX || f.kinds >> 16 || (f.kinds & 0xff) >> f.nargs ||
	    f.kinds >> 8 >> f.nargs)
		return false;
	*ret = (struct probe_image_format){ (const char *)i->bytes + text->addend, f.nargs, f.kinds & 0xff,
					    f.kinds >> 8 };
	return true;
}

void probe_image_relocate(const struct probe_image *i, uint64_t base, uint8_t *to)
{
	memcpy(to, i->bytes, i->code_size + i->data_size);
	for (size_t k = 0; k < i->nrelocations; k++) {
		const uint64_t value = base + i->relocation[k].addend;

		memcpy(to + i->relocation[k].at, &value, sizeof(value));
	}
}
