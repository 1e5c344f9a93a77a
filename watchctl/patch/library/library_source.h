/*
 * library_source - a shared library that is to be replaced by a drop-in: its file, checked, and what it exports. Knows no process.
 */
#ifndef WATCHCTL_PATCH_LIBRARY_LIBRARY_SOURCE_H
#define WATCHCTL_PATCH_LIBRARY_LIBRARY_SOURCE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

/* Where the plan of a drop-in lies in its file: see library_plan.h. */
#define LIBRARY_PLAN_SECTION ".watchctl.plan"

/* Everything points into @bytes. */
struct library_source {
	char *path;	/* owned, without links */
	uint8_t *bytes; /* owned: the whole file */
	size_t size;
	const Elf64_Ehdr *head;
	const Elf64_Phdr *segment;
	const Elf64_Shdr *section;
	const char *section_names;
	size_t section_names_len;
	const Elf64_Dyn *dynamic;
	size_t ndynamic;
	const Elf64_Sym *symbol; /* .dynsym */
	size_t nsymbols;
	const char *names; /* .dynstr, ends in a 0 */
	size_t names_len;
	const uint16_t *version; /* .gnu.version, one for each symbol; NULL: it has no versions of its own */
	const uint8_t *definitions; /* .gnu.version_d */
	size_t definitions_len, ndefinitions;
	const char *soname;
	uint64_t flags_1;
};

/*
 * The library that @name is: a path, or without a slash a SONAME that the loader's cache has. WC_ENAME: there is none, or it is
 * no shared library (of a program, the message names what can be done instead); WC_ENOTSUP: one that cannot be replaced.
 */
struct wc_error *library_source_open(const char *name, struct library_source *ret);
void library_source_close(struct library_source *s); /* accepts zeros */

/* "" where the name is not within the table. */
const char *library_source_section_name(const struct library_source *s, const Elf64_Shdr *sh);

/*
 * The plan in the drop-in at @path: *@bytes is the caller's. WC_ENAME: it cannot be opened, or is no drop-in.
 */
struct wc_error *library_source_read_plan(const char *path, uint8_t **bytes, size_t *size);

#endif
