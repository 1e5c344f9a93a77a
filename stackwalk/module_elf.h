/*
 * module_elf - the few facts of an ELF64 header that place a file in memory: its loadable segments
 * and its build id. Read by hand, because the source may be the memory of a process as well as a
 * file; private to stackwalk/.
 */
#ifndef STACKWALK_MODULE_ELF_H
#define STACKWALK_MODULE_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stackwalk/module.h"

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

/* From the vdso of this very process, at @base. */
bool module_elf_from_self(const void *base, struct module_elf *ret);

#endif
