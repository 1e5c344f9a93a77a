/*
 * elffile - the file behind a module, and its separate debug file; private to watchctl/code/.
 *
 * The one place that opens ELF files and their debug information; where these are looked for is
 * symbol_search's business, also below the root of a process in another mount namespace. Compressed sections
 * and .gnu_debugdata are libdw's work.
 *
 * Every address here is a *file* address: vaddr = runtime address - module.bias. Nothing is read
 * before it is asked for. All pointers handed out live as long as the elffile.
 */
#ifndef WATCHCTL_CODE_ELF_ELFFILE_H
#define WATCHCTL_CODE_ELF_ELFFILE_H

#include <stdbool.h>
#include <stdint.h>

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <gelf.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/elf/symbol_search.h"

struct elffile;

enum elffile_state {
	ELFFILE_OK,	    /* the file that is mapped */
	ELFFILE_DEBUG_ONLY, /* that file is gone, its debug file was found: names, but no code and no
			       .eh_frame */
	ELFFILE_STALE,	    /* what lies at its path has another build id: not used */
	ELFFILE_MISSING,    /* cannot be opened, or is no ELF file */
};

/*
 * Copies what it needs from @m and returns at once; a file that is only reachable below /proc is
 * opened now, so that it stays readable when the process ends. NULL: no memory.
 */
struct elffile *elffile_new(const struct module *m);

/* The same, with the user's wishes about where to look; @search outlives the elffile. */
struct elffile *elffile_new_searched(const struct module *m, const struct symbol_search *search);
void elffile_free(struct elffile *f); /* accepts NULL */

/* Opens the file now, so that it can be read when another one has taken its place. False: there is none to open. */
bool elffile_hold(struct elffile *f);

/* Whether somebody who knows only path and build id finds the file: it has a build id, and lies at its path. */
bool elffile_is_in_place(const struct elffile *f);

/*
 * Reading it ended in a fault (fault_guard.h): nothing is handed out any more, and what the libraries hold is
 * lost, as letting go of it would touch it.
 */
void elffile_abandon(struct elffile *f);

/* Whether @f was made for the same file as @m is. The bias may differ. */
bool elffile_is_for(const struct elffile *f, const struct module *m);

/* Opens on first use. Everything below gives NULL unless the state is OK or DEBUG_ONLY. */
enum elffile_state elffile_state(struct elffile *f);

/* The module's path, as the process has it. */
const char *elffile_path(const struct elffile *f);

/* The file itself (in DEBUG_ONLY state its debug file); e_phdr, .eh_frame and .dynsym are here. */
Elf *elffile_elf(struct elffile *f);

/*
 * Its debug information, in it or in a separate file; NULL: none. DWARF address + *@bias = vaddr
 * (not 0 only for prelinked files).
 */
Dwarf *elffile_dwarf(struct elffile *f, uint64_t *bias);

/* The path of the separate file that the debug information (or the symbol table) is in; NULL: none. */
const char *elffile_debug_path(struct elffile *f);

/* The path of the package (.dwp) with the split debug information, beside one of the two, malloc'd; NULL: none. */
char *elffile_package(struct elffile *f);

/* The same as a libdwfl module reported at load bias 0: its "runtime" addresses are vaddrs. */
Dwfl_Module *elffile_dwfl(struct elffile *f);

#endif
