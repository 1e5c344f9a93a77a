/*
 * symbol_search - where files and their debug information are looked for: in the places that systems use,
 * and where the user says. Every file is recognised by its build id, never by its name alone.
 *
 * In this order: the user's folders, below the sysroot, below the root of the process, /usr/lib/debug, and
 * the cache of debuginfod where DEBUGINFOD_URLS is set. Its servers are only asked after
 * symbol_search_allow_fetch(): a recording must not wait for a network.
 */
#ifndef WATCHCTL_CODE_ELF_SYMBOL_SEARCH_H
#define WATCHCTL_CODE_ELF_SYMBOL_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

/* Set up once, then only read. Every function takes NULL for the places that systems use, and no others. */
struct symbol_search;

struct symbol_search *symbol_search_new(void); /* NULL: no memory */
void symbol_search_free(struct symbol_search *s);

/*
 * Looks into @dir too: DIR/.build-id/xx/yyyy.debug, and any ELF file in it or in its folders, by build id.
 * WC_EUSAGE when it cannot be read.
 */
struct wc_error *symbol_search_add_dir(struct symbol_search *s, const char *dir);

/* Modules below the path @old are opened below @new. WC_EUSAGE: not absolute. */
struct wc_error *symbol_search_map_path(struct symbol_search *s, const char *old, const char *new);

/* Modules are opened below @dir only, their debug files below it first. WC_EUSAGE: no folder. */
struct wc_error *symbol_search_set_sysroot(struct symbol_search *s, const char *dir);

void symbol_search_allow_fetch(struct symbol_search *s);

/* Where the module @path is to be opened, malloc'd; NULL: where it says, or no memory. */
char *symbol_search_module_path(const struct symbol_search *s, const char *path);

/*
 * Opens a file with debug information (or the program itself) by build id. @root: "/proc/PID/root" or "".
 * Stores its path in *@path, malloc'd; -1: none.
 */
int symbol_search_open_build_id(const struct symbol_search *s, const char *root, const uint8_t *id,
				size_t id_len, char **path);

/*
 * The same by the debuglink @link of the module @module, which was opened as @opened. @link NULL: it has
 * none, the usual name is tried. @id_len 0: the file has no build id, the checksum decides.
 */
struct debuglink {
	const char *module, *opened, *link;
	uint32_t crc;
	const uint8_t *id;
	size_t id_len;
};

int symbol_search_open_debuglink(const struct symbol_search *s, const char *root, const struct debuglink *l,
				 char **path);

/* The same from the servers of debuginfod, if that is allowed: it waits for them. */
int symbol_search_fetch(const struct symbol_search *s, const uint8_t *id, size_t id_len, char **path);

/* The same for dwz's shared file @name of the debug file @file. */
int symbol_search_open_altlink(const struct symbol_search *s, const char *root, const char *file,
			       const char *name, const uint8_t *id, size_t id_len, char **path);

/* Devices and pipes may do things when they are opened: only regular files are. -1: cannot. */
int symbol_search_open_regular(const char *path);

#endif
