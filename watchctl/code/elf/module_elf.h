/*
 * module_elf - the few facts of an ELF64 header that place a file in memory: its loadable segments
 * and its build id. Read by hand, because the source may be the memory of a process as well as a
 * file; private to watchctl/code/.
 */
#ifndef WATCHCTL_CODE_ELF_MODULE_ELF_H
#define WATCHCTL_CODE_ELF_MODULE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/code/elf/module.h"

#define MODULE_ELF_SEGMENTS 32

struct elf_segment {
	uint64_t offset, vaddr, filesz, memsz;
	uint32_t flags; /* PF_R | PF_W | PF_X */
};

struct module_elf {
	size_t nsegments; /* PT_LOAD with a size, in file order; those above the limit are left out */
	struct elf_segment segment[MODULE_ELF_SEGMENTS];
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len; /* 0: none */
	bool is_program;      /* an executable; a library that can be run (libc.so.6) is none */
};

/* From an open file. False: no little-endian ELF64 executable or library for x86-64. */
bool module_elf_from_file(int fd, struct module_elf *ret);

/*
 * From memory: @mem_fd is an open /proc/PID/mem, @base the address of the mapping of file offset 0.
 * Finds the build id if its note lies in the first segment, where linkers put it.
 */
bool module_elf_from_memory(int mem_fd, uint64_t base, struct module_elf *ret);

/*
 * The build id of an open file, which may as well be a file of debug information, whose segments are empty:
 * from its section headers if it has any. False: none, or no ELF file for x86-64.
 */
bool module_elf_build_id(int fd, uint8_t id[BUILD_ID_MAX], uint8_t *len);

/*
 * The load bias of a file whose mapping at @start begins at @offset in it, where nothing else is known: by
 * the segment that begins there and runs as the mapping may. False: no segment holds that.
 */
bool module_elf_bias(const struct module_elf *head, uint64_t start, uint64_t offset, bool executable,
		     uint64_t *ret);

/* Whether the mapping may be of the file loaded at @bias. */
bool module_elf_has_bias(const struct module_elf *head, uint64_t start, uint64_t offset, uint64_t bias);

/* Whether a segment begins on the page of the file at @offset: a mapping from elsewhere is a piece of one. */
bool module_elf_begins_segment(const struct module_elf *head, uint64_t offset);

/* Where its segments' memory begins and ends, .bss included. */
uint64_t module_elf_start(const struct module_elf *head, uint64_t bias);
uint64_t module_elf_end(const struct module_elf *head, uint64_t bias);

/* From the vdso of this very process, at @base. */
bool module_elf_from_self(const void *base, struct module_elf *ret);

#endif
