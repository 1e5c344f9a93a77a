/* probe_image_impl - the parts of probe_image: reading the file. */
#ifndef WATCHCTL_PATCH_PROBE_PROBE_IMAGE_IMPL_H
#define WATCHCTL_PATCH_PROBE_PROBE_IMAGE_IMPL_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/patch/probe/probe_image.h"

/* As probe_image_open(); in what it says, the probes are called @name. */
struct wc_error *probe_image_open_as(const char *path, const char *name, struct probe_image *ret);

/* The file's bytes: the caller's, aligned to 8. */
struct wc_error *probe_image_read_file(const char *path, const char *name, uint8_t **ret_bytes,
				       size_t *ret_size);

/* "NAME cannot be put into a program: why" */
struct wc_error *probe_image_refuse(const char *name, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), returns_nonnull));

/* The file. Nothing in it is believed before it was checked. */
struct probe_elf {
	const char *name;
	const uint8_t *bytes;
	size_t size;
	const Elf64_Phdr *segment;
	size_t nsegments;
	const Elf64_Shdr *section;
	size_t nsections;
};

/* A table of symbols with its names, the last of which ends within it. */
struct probe_symbols {
	const Elf64_Sym *v;
	size_t n;
	const char *names;
	size_t names_len;
};

struct wc_error *probe_elf_open(struct probe_elf *e);

/* @n items of @size bytes at offset @at; NULL: not all of them are in the file, or not where such things may be. */
const void *probe_elf_part(const struct probe_elf *e, uint64_t at, uint64_t n, size_t size);

/* Of SHT_DYNSYM or SHT_SYMTAB. False: there is none. */
bool probe_elf_symbols(const struct probe_elf *e, uint32_t type, struct probe_symbols *ret);
const char *probe_elf_symbol_name(const struct probe_symbols *s, const Elf64_Sym *sym);

/* The addresses of section @name; none: 0 and 0. */
void probe_elf_span(const struct probe_elf *e, const char *name, uint64_t *start, uint64_t *end);

/* All that is used and not there, by name. NULL: nothing. */
struct wc_error *probe_elf_undefined(const struct probe_elf *e);

/* What only a loader could do. */
struct wc_error *probe_elf_check_dynamic(const struct probe_elf *e);

/* WC_EUSAGE: a format of probe_log() has a conversion that it does not know, or more or fewer than it has arguments. */
struct wc_error *probe_formats_check(const struct probe_elf *e, const struct probe_image *i);

/* Code that changes registers which nobody saves for the program. */
struct wc_error *probe_elf_check_code(const struct probe_elf *e, const struct probe_image *i);

#endif
