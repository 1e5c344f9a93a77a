/*
 * module - the ELF files mapped into a process, and where.
 *
 * A module is known by path and build id; the load bias turns an address of the process into
 * an address of the file: vaddr = addr - bias. Nothing here stops or changes the process.
 */
#ifndef WATCHCTL_CODE_ELF_MODULE_H
#define WATCHCTL_CODE_ELF_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"

#define BUILD_ID_MAX 32

struct module {
	uint64_t start, end; /* [start, end) spans every mapping of the file, and its .bss */
	uint64_t bias;	     /* runtime address minus ELF virtual address */
	char *path;	     /* as the process names it, without " (deleted)"; "[vdso]" for the vdso */
	char *open_path;     /* a path by which *we* can open the same file (its root, its map_files) */
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len; /* 0: none */
	bool is_program;      /* what was executed, no library */
	bool deleted;	      /* removed or replaced on disk since it was mapped */
};

struct module_list {
	struct module *v; /* sorted by start */
	size_t n, cap;
};

/*
 * Lists the modules of @pid from /proc/PID/maps, the vdso included. Opens files by
 * /proc/PID/root (another mount namespace) and, for deleted ones, by /proc/PID/map_files.
 * WC_ETARGET when the process is gone, WC_EPERM when its maps may not be read. Nothing is listed, and that is
 * no error, of one that has no memory: a kernel thread, a zombie, and one that begins to end while it is
 * looked at.
 */
struct wc_error *module_list_read(pid_t pid, struct module_list *ret);

/* A copy with strings of its own. False: no memory. */
bool module_copy(const struct module *from, struct module *ret);
void module_deinit(struct module *m); /* its strings; accepts zero-initialised */

/* Accepts zero-initialised. */
void module_list_deinit(struct module_list *l);

/* The module whose span holds @addr, or NULL. */
const struct module *module_find(const struct module_list *l, uint64_t addr);

/*
 * The module that a user calls @name: its path, its base name ("libc.so.6"), or its base name up
 * to a version ("libc", "libfoo.so"). NULL: none. The main program is the first with an exact
 * match, else by start address.
 */
const struct module *module_by_name(const struct module_list *l, const char *name);

/* Whether @m is as good an answer to @name as that one: two may have one base name, or one file be loaded
 * twice. */
bool module_answers(const struct module_list *l, const struct module *m, const char *name);

#endif
